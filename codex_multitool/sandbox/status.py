"""What of a policy holds on this kernel, protection by protection. Pure."""

import errno
from _collections_abc import Iterable  # loaded with os; see policy.py

from codex_multitool.sandbox.landlock import guards_unix_sockets, sees_truncation
from codex_multitool.sandbox.policy import READ_ONLY, SandboxPolicy

ENFORCED = "enforced"
PARTIAL = "partial"
ABSENT = "absent"  # asked for, and not to be had
UNRESTRICTED = "unrestricted"  # not asked for
REFUSED = "refused"  # a root that may not be what the caller named

WRITABLE_ROOT = "writable-root"  # one for each that is not granted

# Number, ABI, what it is about (Landlock errata, landlock(7)). All three limit too much.
_ERRATA = ((1, 4, "TCP sockets"), (2, 6, "signals between threads"), (3, 1, "moved directories"))


def landlock_absent(error: int) -> tuple[str, str]:
    """What an errno of landlock_create_ruleset(2) means, and what mends it."""
    if error == errno.EOPNOTSUPP:
        return "Landlock is switched off", "boot with `landlock` in lsm="
    if error == errno.ENOSYS:
        return (
            "this kernel has no Landlock",
            "run Linux 5.13 or newer, outside of sandboxes that hide it",
        )
    return (
        f"Landlock is refused ({errno.errorcode.get(error, error)})",
        "run it outside of the sandbox or container around it, or let that allow landlock_*",
    )


class Protection:
    """One promise of the sandbox: its name, whether it holds, and what to know of it."""

    __slots__ = ("detail", "name", "state")

    def __init__(self, name: str, state: str, detail: str = "") -> None:
        self.name = name
        self.state = state
        self.detail = detail

    def __repr__(self) -> str:
        return f"Protection({self.name!r}, {self.state!r}, {self.detail!r})"


def status(
    policy: SandboxPolicy, *, abi: int, errata: int | None, filtered: bool
) -> list[Protection]:
    """The report on a policy.

    abi: Landlock's, 0 without it. errata: None where the kernel does not tell. filtered: whether
    the policy's system call filter can be installed.
    """
    report = [
        _file_writes(policy, abi, filtered),
        _file_metadata(policy, filtered),
        _device_ioctls(policy, abi),
        _signals(policy, abi),
        _network(policy, abi, filtered),
        _abstract_sockets(policy, abi, filtered),
        _unix_sockets(policy, abi, filtered),
        _system_calls(policy, filtered),
    ]
    if errata is not None and not policy.full_write:
        missing = [
            what for number, since, what in _ERRATA if since <= abi and not errata >> number - 1 & 1
        ]
        if missing:
            report.append(Protection("errata", PARTIAL, f"not mended: {', '.join(missing)}"))
    return report


def not_granted(report: Iterable[Protection], stated: Iterable[str]) -> list[str]:
    """The roots that are not granted, and why: those that were `stated`, or that were refused."""
    stated = {f"{root}: " for root in stated}
    return [
        it.detail
        for it in report
        if it.name == WRITABLE_ROOT
        and (it.state == REFUSED or any(it.detail.startswith(root) for root in stated))
    ]


def _file_writes(policy: SandboxPolicy, abi: int, filtered: bool) -> Protection:
    name = "file-writes"
    if policy.full_write:
        return Protection(name, UNRESTRICTED)
    if abi < 1:
        return Protection(name, ABSENT, "no Landlock (Linux 5.13)")
    if not sees_truncation(policy, abi) and not filtered:
        return Protection(name, PARTIAL, "truncation is not limited before Landlock ABI 3")
    if abi < 2:
        return Protection(
            name, ENFORCED, "nor are renames and links across folders to be had before ABI 2"
        )
    return Protection(name, ENFORCED)


def _file_metadata(policy: SandboxPolicy, filtered: bool) -> Protection:
    name = "file-metadata"
    if policy.full_write:
        return Protection(name, UNRESTRICTED)
    if policy.kind == READ_ONLY and filtered:
        return Protection(name, ENFORCED)
    return Protection(name, ABSENT, "chmod, chown, utime, xattr of the user's own files everywhere")


def _device_ioctls(policy: SandboxPolicy, abi: int) -> Protection:
    name = "device-ioctls"
    if policy.full_write:
        return Protection(name, UNRESTRICTED)
    if abi < 5:
        detail = "devices the user may open answer any; it takes Landlock ABI 5 (Linux 6.10)"
        return Protection(name, ABSENT, detail)
    return Protection(name, ENFORCED)


def _signals(policy: SandboxPolicy, abi: int) -> Protection:
    name = "signals"
    if policy.full_write:
        return Protection(name, UNRESTRICTED)
    if abi < 6:
        detail = "the user's other processes can be signalled; it takes Landlock ABI 6 (Linux 6.12)"
        return Protection(name, ABSENT, detail)
    return Protection(name, ENFORCED)


def _network(policy: SandboxPolicy, abi: int, filtered: bool) -> Protection:
    name = "network"
    if policy.full_network:
        return Protection(name, UNRESTRICTED)
    if filtered:
        return Protection(name, ENFORCED)
    if abi >= 4 and not policy.full_write:
        return Protection(name, PARTIAL, "TCP alone" if abi < 10 else "TCP and UDP alone")
    return Protection(name, ABSENT, "no system call filter")


def _abstract_sockets(policy: SandboxPolicy, abi: int, filtered: bool) -> Protection:
    name = "abstract-sockets"
    scoped = abi >= 6 and not policy.full_write
    if scoped or (filtered and not policy.full_network):
        return Protection(name, ENFORCED)
    if policy.full_write and policy.full_network:
        return Protection(name, UNRESTRICTED)
    return Protection(
        name, ABSENT, "those of outside can be reached; it takes Landlock ABI 6 (Linux 6.12)"
    )


def _unix_sockets(policy: SandboxPolicy, abi: int, filtered: bool) -> Protection:
    name = "unix-sockets"
    if policy.full_network:
        return Protection(name, UNRESTRICTED)
    if guards_unix_sockets(policy, abi):
        return Protection(name, ENFORCED)
    if filtered:
        return Protection(name, ENFORCED, "pairs alone; telling sockets apart takes Landlock ABI 9")
    return Protection(name, ABSENT, "no system call filter")


def _system_calls(policy: SandboxPolicy, filtered: bool) -> Protection:
    name = "system-calls"
    if policy.full_write and policy.full_network:
        return Protection(name, UNRESTRICTED)
    return Protection(name, ENFORCED if filtered else ABSENT)
