"""The irreversible steps that confine a process, in their only order.

no_new_privs before the two that need it (landlock_restrict_self(2), seccomp(2)). Landlock before
seccomp: nothing may stand between the filter and the command's execve. What can fail is made by
prepare(); restrict() is a few system calls in a fresh single-threaded child.
"""

import errno
import os
import stat
from _collections_abc import Sequence  # loaded with os; see policy.py

# python-prctl's extension module: `prctl` around it takes another 2 ms, and has no types either.
import _prctl  # type: ignore[import-not-found]

from codex_multitool.sandbox import kernel
from codex_multitool.sandbox.filters import filter_bytes, filter_name
from codex_multitool.sandbox.landlock import (
    FILE_RIGHTS,
    NEWEST_ABI,
    Plan,
    path_beneath,
    plan,
    sees_truncation,
)
from codex_multitool.sandbox.policy import SandboxPolicy
from codex_multitool.sandbox.roots import UntrustedRootError, canonical_roots, open_root
from codex_multitool.sandbox.status import (
    ABSENT,
    REFUSED,
    WRITABLE_ROOT,
    Protection,
    landlock_absent,
    status,
)

# What a caller may accept by name, and what it then goes without. Signals, sockets of outside
# with the network on, and device ioctls are reported and not asked about.
WEAKER = {
    "no-landlock": "without Landlock (Linux 5.13), files can be written everywhere",
    "no-truncate": (
        "without Landlock ABI 3 (Linux 6.2) or filters, files can be emptied everywhere"
    ),
    "no-seccomp": "without system call filters, sockets can be made with the network off",
}

# What root keeps (linux/capability.h): files of several owners, users to become, ports to serve,
# and to give up any of these. Whatever else there is or will be, the sandbox has no use for.
_KEPT_CAPABILITIES = (
    *(0, 1, 2, 3, 4),  # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID
    *(5, 6, 7, 8),  # KILL, SETGID, SETUID, SETPCAP
    *(10, 31),  # NET_BIND_SERVICE, SETFCAP
)
_KEPT = sum(1 << capability for capability in _KEPT_CAPABILITIES)
_MOST_CAPABILITIES = 64


class SandboxError(Exception):
    """A policy cannot be enforced, or not as it asks."""


class Confinement:
    """A policy made ready for restrict(): owns the ruleset's descriptor until close()."""

    __slots__ = ("environment", "filter", "restrict_flags", "ruleset", "status")

    def __init__(
        self,
        *,
        ruleset: int | None = None,
        restrict_flags: int = 0,
        filter: bytes | None = None,  # noqa: A002  # seccomp's word for it
        environment: dict[str, str] | None = None,
        status: tuple[Protection, ...] = (),
    ) -> None:
        self.ruleset = ruleset
        self.restrict_flags = restrict_flags
        self.filter = filter
        self.environment = environment or {}
        self.status = status

    def close(self) -> None:
        """Close the ruleset, once."""
        if self.ruleset is not None:
            ruleset, self.ruleset = self.ruleset, None
            os.close(ruleset)


def prepare(
    policy: SandboxPolicy, roots: Sequence[str], *, accept: frozenset[str] = frozenset()
) -> Confinement:
    """Make everything that restrict() needs; raise SandboxError if less than asked would hold.

    roots: what policy.writable_roots() says; a missing one is left out and reported.
    accept: names of WEAKER that are good enough.
    """
    landlock = _Landlock() if policy.full_write else _landlock()
    abi = landlock.abi
    name = filter_name(policy, abi)
    program = None if name is None else _filter(name)
    _check(policy, landlock, program is not None, accept)
    report = status(policy, abi=abi, errata=landlock.errata, filtered=program is not None)
    ruleset, restrict_flags = None, 0
    asked = plan(policy, tuple(roots), abi)
    if asked is not None:
        ruleset = _make_ruleset(asked, report)
        restrict_flags = asked.restrict_flags
    return Confinement(
        ruleset=ruleset,
        restrict_flags=restrict_flags,
        filter=program,
        environment={} if policy.full_network else {"CODEX_SANDBOX_NETWORK_DISABLED": "1"},
        status=tuple(report),
    )


def refusal(policy: SandboxPolicy) -> str | None:
    """Why this kernel cannot hold a policy, whatever its roots; None if it can."""
    try:
        prepare(policy, ()).close()
    except SandboxError as error:
        return str(error)
    return None


def restrict(confinement: Confinement, *, but_filter: bool = False) -> None:
    """Confine this process for good, right before its execve; raises SandboxError.

    After an error the process must end: some of the steps may have been taken.
    but_filter: the caller installs the filter next, as a part of one of its own.
    """
    ruleset, program = confinement.ruleset, confinement.filter
    try:
        if ruleset is not None or program is not None:
            _drop_capabilities()
            _prctl.prctl(_prctl.PR_SET_NO_NEW_PRIVS, 1)
        if ruleset is not None:
            kernel.landlock_restrict_self(ruleset, confinement.restrict_flags)
        if program is not None and not but_filter:
            kernel.seccomp_set_mode_filter(program, 0)
    except (OSError, kernel.KernelError) as error:
        raise SandboxError(str(error)) from error


def _drop_capabilities() -> None:
    """All but those kept: with no_new_privs, execve(2) gives back none that is not permitted.

    What is inheritable would stay over it, ambient or as root's: capabilities(7).
    """
    for capability in range(_MOST_CAPABILITIES):
        if _KEPT >> capability & 1:
            continue
        try:
            kernel.drop_from_bounding_set(capability)
        except kernel.KernelError as error:
            if error.errno in (errno.EPERM, errno.EINVAL):
                break  # an ordinary user may not, and needs not; or this kernel knows no more
            raise
    effective, permitted, inheritable = kernel.capget()
    if (effective | permitted | inheritable) & ~_KEPT:
        kernel.capset(effective & _KEPT, permitted & _KEPT, inheritable & _KEPT)


class _Landlock:
    """What the kernel says of it. abi: 0 without it, `absent` then says why not."""

    __slots__ = ("abi", "absent", "errata")

    def __init__(self, abi: int = 0, errata: int | None = None, absent: str = "") -> None:
        self.abi = abi
        self.errata = errata
        self.absent = absent


def _landlock() -> _Landlock:
    try:
        abi = kernel.landlock_create_ruleset(None, kernel.LANDLOCK_CREATE_RULESET_VERSION)
    except kernel.KernelError as error:
        why, mend = landlock_absent(error.errno)
        return _Landlock(absent=f"{why}: {mend}")
    abi = min(abi, NEWEST_ABI)
    try:
        errata = kernel.landlock_create_ruleset(None, kernel.LANDLOCK_CREATE_RULESET_ERRATA)
    except kernel.KernelError:
        return _Landlock(abi)
    return _Landlock(abi, errata)


def _filter(name: str) -> bytes | None:
    """The filter's program; None where none can be installed."""
    try:
        kernel.seccomp_get_action_avail(kernel.SECCOMP_RET_ERRNO)
    except kernel.KernelError:
        return None
    return filter_bytes(os.uname().machine, name)


def _check(
    policy: SandboxPolicy, landlock: _Landlock, filtered: bool, accept: frozenset[str]
) -> None:
    no_filter = "this kernel has no system call filters for this machine"
    lacking = (
        ("no-landlock", not policy.full_write and landlock.abi < 1, landlock.absent),
        ("no-truncate", not sees_truncation(policy, landlock.abi) and not filtered, no_filter),
        ("no-seccomp", not policy.full_network and not filtered, no_filter),
    )
    for level, lacks, why in lacking:
        if lacks and level not in accept:
            raise SandboxError(
                f"{why}; {WEAKER[level]} (`codex-linux-sandbox --accept-weaker {level}` allows it)"
            )


def _make_ruleset(asked: Plan, report: list[Protection]) -> int:
    try:
        ruleset = kernel.landlock_create_ruleset(asked.attributes(), 0)
    except kernel.KernelError as error:
        raise SandboxError(str(error)) from error
    try:
        for path, rights in asked.fixed:
            _add_fixed(ruleset, path, rights)
        guarded = canonical_roots(tuple(path for path, _ in asked.roots))
        for path, rights in asked.roots:
            lacking = _add_root(ruleset, path, rights, guarded)
            if lacking is not None:
                report.append(lacking)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _add_fixed(ruleset: int, path: str, rights: int) -> None:
    """Grant on a path of ours; a system may lack it."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if path != "/":
            return
        raise SandboxError(f"{path}: {error.strerror}") from error
    _add_rule(ruleset, descriptor, path, rights)


def _add_root(ruleset: int, path: str, rights: int, guarded: frozenset[str]) -> Protection | None:
    """Grant on a root; what to report, if it is not to be had."""
    try:
        descriptor = open_root(path, guarded)
    except OSError as error:
        return Protection(WRITABLE_ROOT, ABSENT, f"{path}: {error.strerror}")
    except UntrustedRootError as error:
        return Protection(WRITABLE_ROOT, REFUSED, f"{path}: {error}")
    _add_rule(ruleset, descriptor, path, rights)
    return None


def _add_rule(ruleset: int, descriptor: int, path: str, rights: int) -> None:
    """Grant rights beneath what an O_PATH descriptor opened, and close it."""
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= FILE_RIGHTS
        kernel.landlock_add_rule(
            ruleset, kernel.LANDLOCK_RULE_PATH_BENEATH, path_beneath(rights, descriptor)
        )
    except kernel.KernelError as error:
        raise SandboxError(f"{path}: {error}") from error
    finally:
        os.close(descriptor)
