"""What a process that serves storms must not gather: zombies, tracees, descriptors, memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Look:
    """Of a process and all below it: pids of zombies, and of what it traces; its own use."""

    zombies: tuple[int, ...]
    traced: tuple[int, ...]
    descriptors: int
    kilobytes: int


def look(server: int) -> Look:
    """What there is now."""
    states = _states()
    below = {server}
    grown = True
    while grown:
        found = {pid for pid, (_, parent, _) in states.items() if parent in below} - below
        grown = bool(found)
        below |= found
    return Look(
        zombies=tuple(pid for pid in sorted(below) if states.get(pid, ("",))[0] == "Z"),
        traced=tuple(pid for pid, (_, _, tracer) in states.items() if tracer == server),
        descriptors=len(os.listdir(f"/proc/{server}/fd")),
        kilobytes=_number(Path(f"/proc/{server}/status").read_text(), "VmRSS:"),
    )


def _states() -> dict[int, tuple[str, int, int]]:
    """State, parent and tracer of every process."""
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/status").read_text(errors="replace")
        except OSError:
            continue  # it has just ended
        state = text.partition("\nState:\t")[2][:1]
        found[int(name)] = (state, _number(text, "PPid:"), _number(text, "TracerPid:"))
    return found


def _number(status: str, field: str) -> int:
    return int(status.partition(f"\n{field}")[2].split(maxsplit=1)[0])
