"""What a command may use, as setrlimit(2) takes it, and what of ours ended one.

They hold for each process alone, except the number of processes, which is the user's: getrlimit(2).
"""

import os
import resource
import signal

from codex_multitool.config.limits import Limits
from codex_multitool.interception.architecture import FOREIGN

_LOAD = "/proc/loadavg"
_LARGEST = (1 << 63) - 1  # of rlim_t, less RLIM_INFINITY
_STEP = 256  # processes that may come or go before a limit that lasts is another
_LAST_SECONDS = 2  # from SIGXCPU, which a program may catch, to SIGKILL
_TOLD_BY = {
    signal.SIGXCPU: ("cpu_seconds", "{} s of CPU time"),
    signal.SIGXFSZ: ("file_size", "files of {} bytes"),
}

Kernel = tuple[tuple[int, int, int], ...]


def kernel_limits(limits: Limits) -> Kernel:
    """(kind, soft, hard) of every command, but for the number of processes."""
    found = []
    if limits.memory is not None:
        # Not RLIMIT_AS: what is only reserved, as by Java, Go or a sanitizer, takes no memory.
        found.append((resource.RLIMIT_DATA, limits.memory, limits.memory))
    if limits.cpu_seconds is not None:
        soft = min(limits.cpu_seconds, _LARGEST - _LAST_SECONDS)
        found.append((resource.RLIMIT_CPU, soft, soft + _LAST_SECONDS))
    if limits.file_size is not None:
        found.append((resource.RLIMIT_FSIZE, limits.file_size, limits.file_size))
    if limits.open_files is not None:
        found.append((resource.RLIMIT_NOFILE, limits.open_files, limits.open_files))
    return tuple(found)


def process_limit(limits: Limits, *, lasting: bool = False) -> Kernel:
    """The same of processes, for a command that is about to start: so many more than there are.

    lasting: others will start with it too, soon. Raises OSError without /proc.
    """
    if limits.processes is None:
        return ()
    tasks = _tasks()
    if lasting:
        tasks += -tasks % _STEP
    most = min(tasks + limits.processes, _LARGEST)
    return ((resource.RLIMIT_NPROC, most, most),)


def _tasks() -> int:
    """All threads of the system: no fewer than the user's own, which the kernel compares with."""
    descriptor = os.open(_LOAD, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(descriptor, 128).split()[3].partition(b"/")[2])
    finally:
        os.close(descriptor)


def ended_by(limits: Limits, status: int) -> str | None:
    """What to tell of a command with this wait status; None if nothing of ours has ended it.

    A shell whose last program was ended by a signal says so by its exit status: 128 + signal.
    """
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else code - 128
    if number == signal.SIGSYS:
        return FOREIGN
    name, what = _TOLD_BY.get(number, ("", ""))  # type: ignore[call-overload]
    most = getattr(limits, name, None)
    if most is None:
        return None
    limit = f"`codex_multitool.max_{name}`: {what.format(most)}"
    return f"ended by {signal.Signals(number).name}, at its limit {limit}"
