"""The memory of a process and all below it, as /proc tells."""

from __future__ import annotations

import os
from dataclasses import dataclass

_KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB, summed over processes; proportional counts shared pages once (proc_pid_smaps(5))."""

    resident: float
    proportional: float


def of_tree(root: int) -> Memory:
    """The memory of `root` and its descendants."""
    resident = proportional = 0
    for pid in _tree(root):
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file if line[0].isupper())
        resident += int(fields["Rss"].split()[0])
        proportional += int(fields["Pss"].split()[0])
    return Memory(resident / _KIB_PER_MIB, proportional / _KIB_PER_MIB)


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b") ")[2].split()[1])
        except OSError:
            continue  # ended meanwhile
        children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found
