"""What a freshly forked process does to become a command: all of it before its execve.

Runs in a single-threaded child of a launcher, with no way back: a step that fails is told to the
launcher and ends the child. Every descriptor that is not placed on purpose is close-on-exec.
"""

# `signal` turns every number into a member of an enumeration, which a fork pays with copied pages.
import _signal  # type: ignore[import-not-found]
import errno
import fcntl
import marshal
import os
import resource
import signal
import socket
from typing import Any

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.filter import exec_filter
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import install
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.mounts import bind, unshare_mounts
from codex_multitool.launcher.protocol import KILLABLE, NONE, NOT_KILLABLE
from codex_multitool.sandbox import enforce

FAILED_STATUS = 127
# Made when the zygote loads this module: every fork has them.
_MACHINE = architecture(os.uname().machine)
_EXEC_FILTER = b"" if _MACHINE is None else exec_filter(_MACHINE)
_BEFORE_ANOTHER = b"" if _MACHINE is None else exec_filter(_MACHINE, followed=True)
_NO_LIMIT = 1 << 64
# What Python and the launcher change for themselves: a command expects the defaults.
_CHANGED = frozenset(map(int, (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD, signal.SIGTERM,
    signal.SIGHUP,
)))  # fmt: skip
_DEFAULT, _IGNORE = int(signal.SIG_DFL), int(signal.SIG_IGN)


def run(spec: dict[str, Any], received: list[int], report: int, started_with: Limits) -> None:
    """Become the command `spec` describes (see pool.Spawn); never returns.

    received: descriptors that came along. report: pipe on which (step, errno, text) is told.
    started_with: the limits, where ours are others, that our own programs have in place of ours.
    """
    step = "descriptors"
    try:
        above = max([2, *spec["targets"]]) + 1
        report, *received = (_moved(fd, above) for fd in (report, *received))
        _place(received, spec["targets"])
        step = "session"
        _session(spec)
        step = "working directory"
        os.fchdir(received[spec["workdir"]])
        step = "limits"
        _limits(spec, started_with)
        step = "signals"
        _signals(spec)
        step = 'mount namespace (codex_multitool.protect = "check" does without)'
        _keep(spec)
        step = "sandbox"
        _confine(spec, received)
        step = "exec filter"
        _intercept(spec, received)
        step = "execve"
        _execute(spec, received)
    except Exception as error:  # noqa: BLE001 — all there is left to do is to tell the launcher
        number = getattr(error, "errno", None) or 0
        os.write(report, marshal.dumps((step, number, str(error))))
    finally:
        os._exit(FAILED_STATUS)


def _moved(fd: int, above: int) -> int:
    """The same, out of the way of the numbers that are to be given."""
    return fd if fd >= above else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)


def _place(received: list[int], targets: list[int]) -> None:
    for source, target in zip(received, targets, strict=False):
        os.dup2(source, target)
    for standard in (0, 1, 2):
        if standard not in targets:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, standard)


def _session(spec: dict[str, Any]) -> None:
    os.setsid()
    if spec["die_with_launcher"]:
        _prctl.prctl(_prctl.PR_SET_PDEATHSIG, signal.SIGKILL)


def _limits(spec: dict[str, Any], started_with: Limits) -> None:
    if spec["umask"] != NONE:
        os.umask(spec["umask"])
    for kind, *before in started_with:
        resource.setrlimit(kind, (before[0], before[1]))
    if _confined(spec):
        # A core file would show what the command read to whoever can read the workspace.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, *wanted in spec["limits"]:
        # A hard limit above ours cannot be had without privilege: setrlimit(2).
        most = _finite(resource.getrlimit(kind)[1])
        soft, hard = (min(_finite(limit), most) for limit in wanted)
        resource.setrlimit(kind, (_kernel(soft), _kernel(hard)))
    if spec["nice"] > os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, spec["nice"])


def _confined(spec: dict[str, Any]) -> bool:
    """Whether there is a sandbox: with full access both halves of it are missing."""
    if spec["confinement"] is None:
        return False
    ruleset, _, program = spec["confinement"]
    return ruleset != NONE or bool(program)


def _finite(limit: int) -> int:
    return _NO_LIMIT if limit == resource.RLIM_INFINITY else limit


def _kernel(limit: int) -> int:
    return resource.RLIM_INFINITY if limit == _NO_LIMIT else limit


def _signals(spec: dict[str, Any]) -> None:
    ignored = frozenset(spec["ignored"])
    for number in _CHANGED | ignored:
        _signal.signal(number, _IGNORE if number in ignored else _DEFAULT)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, spec["blocked"])


def _keep(spec: dict[str, Any]) -> None:
    """Make paths read-only for this process and all below it."""
    if not spec["mounts"]:
        return
    before = os.stat(".")
    unshare_mounts()
    for path, read_only in spec["mounts"]:
        try:
            bind(path, read_only=read_only)
        except FileNotFoundError:
            continue  # it went meanwhile: the look after the command tells
    # The working directory may be one that something is mounted over by now.
    os.chdir(os.getcwd())
    if not os.path.samestat(os.stat("."), before):
        raise FileNotFoundError(errno.ENOENT, "the working directory was replaced")


def _confine(spec: dict[str, Any], received: list[int]) -> None:
    if spec["confinement"] is None:
        return
    ruleset, restrict_flags, program = spec["confinement"]
    enforce.restrict(
        enforce.Confinement(
            ruleset=received[ruleset] if ruleset != NONE else None,
            restrict_flags=restrict_flags,
            filter=program,
        ),
        but_filter=spec["listener"] != NONE,
    )


def _intercept(spec: dict[str, Any], received: list[int]) -> None:
    if spec["listener"] != NONE:
        program = spec["confinement"] and spec["confinement"][2]
        hand_over_listener(received[spec["listener"]], program or b"")


def hand_over_listener(channel: int, more: bytes = b"") -> None:
    """Put this process under the exec filter; its next execve waits for who has the other end.

    channel: a socket, closed when this returns. more: a filter for all other calls, installed with
    it. Raises KernelError, or OSError.
    """
    if _MACHINE is None:
        raise OSError(errno.ENOSYS, f"no exec filter for {os.uname().machine}")
    program = _BEFORE_ANOTHER + more if more else _EXEC_FILTER
    try:
        fd, killable = install(_MACHINE, program)
    except KernelError as error:
        if error.errno != errno.EACCES:
            raise
        # Without privilege a filter takes no_new_privs, seccomp(2): no sandbox has set it here.
        _prctl.prctl(_prctl.PR_SET_NO_NEW_PRIVS, 1)
        fd, killable = install(_MACHINE, program)
    # What it is needs not be asked of the kernel.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=channel) as connection:
        socket.send_fds(connection, [KILLABLE if killable else NOT_KILLABLE], [fd])
    os.close(fd)


def _execute(spec: dict[str, Any], received: list[int]) -> None:
    if spec["program"] == NONE:
        os.execve(spec["path"], spec["argv"], spec["environment"])
    # execveat(2) with the descriptor: the file judged, whatever its path names by now.
    program = received[spec["program"]]
    # A script's interpreter opens it once more, as /dev/fd/N.
    os.set_inheritable(program, spec["script"])
    os.execve(program, spec["argv"], spec["environment"])
