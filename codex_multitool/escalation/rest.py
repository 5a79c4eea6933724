"""LEAF: whether any thread of a sandboxed tree has run, as /proc tells.

A thread that sleeps and was switched as often as before has not run in between. What would hide
one from us shows as well: a process that ends while it is looked at is missed, and counts as run.
"""

import os

_MAX_THREADS = 64
_ASLEEP = frozenset(b"SDTtZI")  # proc_pid_stat(5)


def rest(root: int, *, outside: int, held: int | None) -> dict[int, int] | None:
    """How often each thread below process `root` has run; None if one runs, or cannot be seen.

    outside: a process that is none of the sandbox. held: one that only does what we make it do, if
    it has a single thread. Source: proc_pid_status(5), proc_tid_children(5).
    """
    found: dict[int, int] = {}
    try:
        processes = _children(root)
        while processes:
            pid = processes.pop()
            if pid == outside:
                continue
            threads = os.listdir(f"/proc/{pid}/task")
            if len(found) + len(threads) > _MAX_THREADS:
                return None
            for thread in threads:
                processes += _read_children(pid, thread)
                if pid == held and len(threads) == 1:
                    found[pid] = 0
                    continue
                switches = _switches(pid, thread)
                if switches is None:
                    return None
                found[int(thread)] = switches
    except OSError:
        return None
    return found


def _children(pid: int) -> list[int]:
    return [
        child for thread in os.listdir(f"/proc/{pid}/task") for child in _read_children(pid, thread)
    ]


def _read_children(pid: int, thread: str) -> list[int]:
    return [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _switches(pid: int, thread: str) -> int | None:
    """How often a sleeping thread has been switched; None if it runs."""
    count = 0
    for line in _read(f"/proc/{pid}/task/{thread}/status").splitlines():
        name, _, value = line.partition(b":")
        if name == b"State" and value.strip()[0] not in _ASLEEP:
            return None
        if name in (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches"):
            count += int(value)
    return count


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)
