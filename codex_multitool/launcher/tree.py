"""LEAF: the processes below this one, as /proc shows them."""

import os
from collections.abc import Collection

_MAX_COMMAND_LINE = 200


def descendants(root: int, apart_from: Collection[int] = ()) -> list[int]:
    """Process ids of all live descendants of `root`, parents before their children.

    apart_from: processes left out with all below them. Zombies are left out: nothing can be done
    to them but to reap them. Source: proc_pid_stat(5). Raises OSError if nothing can be listed.
    """
    children: dict[int, list[int]] = {}
    dead = set()
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                # The command name may hold anything, ") " included; the last one ends it.
                fields = file.read(4096).rpartition(b") ")[2].split(None, 2)
        except OSError:
            continue  # it has just ended
        pid = int(name)
        children.setdefault(int(fields[1]), []).append(pid)
        if fields[0] in (b"Z", b"X"):
            dead.add(pid)
    found, queue = [], [root]
    while queue:
        below = [pid for pid in children.get(queue.pop(0), ()) if pid not in apart_from]
        found += [pid for pid in below if pid not in dead]
        queue += below
    return found


def command_line(pid: int) -> str:
    """What `pid` runs, for people: its arguments, shortened; its name when it has none left."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            words = file.read(4096).rstrip(b"\0").replace(b"\0", b" ")
        if not words:
            with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
                words = b"[" + file.read().strip() + b"]"
    except OSError:
        return ""
    return words.decode("utf-8", "replace")[:_MAX_COMMAND_LINE]


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to each of `pids` that still exists and is ours to signal."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
