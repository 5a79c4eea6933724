"""LEAF: what others of its user can change of a process, and what it starts inherits."""

import ctypes
import os
import resource

_LIMITS = tuple(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
# sched_getattr(2), ioprio_get(2)
_NUMBERS = {"x86_64": (315, 252), "aarch64": (275, 31)}.get(os.uname().machine)
_IOPRIO_WHO_PROCESS = 1
_ATTRIBUTES = 56  # bytes of struct sched_attr, linux/sched/types.h

_syscall = ctypes.CDLL(None, use_errno=True).syscall


def standing(pid: int, *, limits: bool) -> tuple[object, ...]:
    """All of it, to be compared. limits: those too. Raises OSError."""
    return (
        _scheduling(pid),
        os.sched_getaffinity(pid),
        [resource.prlimit(pid, kind) for kind in _LIMITS] if limits else [],
    )


def _scheduling(pid: int) -> tuple[object, ...]:
    """Policy, niceness, clamps, and priority on disk."""
    if _NUMBERS is None:
        return os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)
    attributes, on_disk = _NUMBERS
    found = ctypes.create_string_buffer(_ATTRIBUTES)
    _checked(_syscall(attributes, pid, found, _ATTRIBUTES, 0))
    return found.raw, _checked(_syscall(on_disk, _IOPRIO_WHO_PROCESS, pid))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
