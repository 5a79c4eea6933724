"""LEAF: our own processes closed to others of their user, and what they change of their limits."""

import resource

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

_MOST_DESCRIPTORS = 1 << 16

Limits = tuple[tuple[int, int, int], ...]


def harden() -> Limits:
    """Close this process and all that it forks; execve(2) opens what it executes again.

    Not dumpable: no core file, and for others of the user no ptrace(2) and none of the files in
    /proc/PID that show memory, descriptors or environment (PR_SET_DUMPABLE, prctl(2)). Descriptors
    up to the hard limit: many calls at a time need more than the usual 1024, and a command that
    could use them up would keep others from being served.

    Returns the limits changed, (kind, soft, hard) as found: what others' programs get back.
    """
    _prctl.prctl(_prctl.PR_SET_DUMPABLE, 0)
    core, files = (
        (kind, *resource.getrlimit(kind)) for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, core[2]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_more(*files[1:]), files[2]))
    return core, files


def _more(soft: int, hard: int) -> int:
    if soft == resource.RLIM_INFINITY:
        return soft
    most = _MOST_DESCRIPTORS
    return max(soft, most if hard == resource.RLIM_INFINITY else min(most, hard))
