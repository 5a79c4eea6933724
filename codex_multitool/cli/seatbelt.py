"""A policy as a profile for macOS's sandbox-exec(1) — pure.

Paths are parameters of the profile, never part of its text: nothing in a name can end a string.
"""

from __future__ import annotations

from collections.abc import Sequence

from codex_multitool.sandbox.policy import SandboxPolicy

PROGRAM = "/usr/bin/sandbox-exec"

_EVERYTHING = """\
(version 1)
(allow default)
"""
# What a program needs to run at all: itself, reading, terminals, and the directory service.
_BASE = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow file-read*)
(allow file-write-data
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/dtracehelper"))
(allow file-ioctl (regex #"^/dev/tty"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl (regex #"^/dev/ttys[0-9]+$"))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.PowerManagement.control"))
"""
_NETWORK = """\
(allow network-outbound)
(allow network-inbound)
(allow network-bind)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd"))
"""


def profile(policy: SandboxPolicy, roots: Sequence[str]) -> str:
    """The profile's text. roots: what may be written; its parameters are ROOT_0, ROOT_1, ..."""
    if policy.full_write and policy.full_network:
        return _EVERYTHING
    parts = [_BASE]
    if policy.full_write:
        parts.append("(allow file-write*)\n")
    elif roots:
        paths = "".join(f'\n  (subpath (param "ROOT_{at}"))' for at in range(len(roots)))
        parts.append(f"(allow file-write*{paths})\n")
    if policy.full_network:
        parts.append(_NETWORK)
    return "".join(parts)


def command_line(policy: SandboxPolicy, roots: Sequence[str], command: Sequence[str]) -> list[str]:
    """The command under the profile. roots: canonical, as the kernel compares them."""
    writable = () if policy.full_write else roots
    parameters = [f"-DROOT_{at}={root}" for at, root in enumerate(writable)]
    return [PROGRAM, "-p", profile(policy, writable), *parameters, "--", *command]
