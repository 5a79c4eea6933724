"""What a process and all below it take, as /proc tells: memory, and time of the processors."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.client import BenchError

_KIB_PER_MIB = 1024
_MS_PER_TICK = 1000 / os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime, counted behind the name: proc_pid_stat(5)
_PATIENCE = 20.0  # seconds for a tree to come to rest


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB, summed over processes; proportional counts shared pages once (proc_pid_smaps(5))."""

    resident: float
    proportional: float


def memory(root: int) -> Memory:
    """The memory of `root` and its descendants."""
    resident = proportional = 0
    for pid in _tree(root):
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file if line[0].isupper())
        resident += int(fields["Rss"].split()[0])
        proportional += int(fields["Pss"].split()[0])
    return Memory(resident / _KIB_PER_MIB, proportional / _KIB_PER_MIB)


def processor_time(root: int) -> float:
    """Milliseconds that `root` and all its descendants, the ended ones too, have had so far.

    A process that ends is in the sum itself until it is waited for, and from then on among the
    children of whoever did that (times(2)): parent or subreaper, so long as they are of the tree.
    Each figure is in whole ticks; a difference of two sums is to be over many of them.
    BenchError: the tree does not come to rest, or one of it ignores SIGCHLD, whose children's
    time is lost.
    """
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        before = _tree(root)
        try:
            ticks = sum(sum(map(int, _stat(pid)[_TIMES])) for pid in before)
            _waited_for(before)
        except OSError:
            continue  # ended meanwhile
        # Whoever came or went between two readings might be counted twice, or not at all.
        if _tree(root) == before:
            return ticks * _MS_PER_TICK
    raise BenchError(f"process {root}: processes come and go below it for {_PATIENCE:.0f} s")


def processor_time_of_children(work: Callable[[], object]) -> float:
    """Milliseconds of the children that `work` has started and waited for."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime) * 1000


def _waited_for(pids: list[int]) -> None:
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            ignored = next(line.split()[1] for line in file if line.startswith("SigIgn:"))
        if int(ignored, 16) >> (signal.SIGCHLD - 1) & 1:
            raise BenchError(f"process {pid} ignores SIGCHLD: its children's time is lost")


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parent = int(_stat(int(name))[1])
        except OSError:
            continue  # ended meanwhile
        children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _stat(pid: int) -> list[bytes]:
    """The fields behind the name, which may hold anything; the state is the first."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2].split()
