"""LEAF: the processes below this one, as /proc shows them."""

import os
from collections.abc import Collection, Iterable, Iterator

_MAX_COMMAND_LINE = 200
_CHUNK = 1 << 16
_MOST_PIECES = 16
_SHORT = 2048  # a list goes on behind a page of it, seq_file(9), and not before


class Children:
    """The children of a process with a single thread, the dead that nobody has waited for included.

    A child can be missed only if another is waited for while the list is read (`children` in
    proc_tid_children(5)): by the process itself, that is, or not at all.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1  # CONFIG_PROC_CHILDREN, or a /proc that hides what is not dumpable

    def close(self) -> None:
        """Give up the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def told(self) -> bool:
        """Whether the kernel has a list of them, or all processes have to be looked at."""
        return self._fd >= 0

    def pids(self) -> list[int]:
        """Their process ids, at least of the eldest thousands. Raises OSError.

        Whoever reads on while processes are made and end may never come to the end of the list.
        """
        if self._fd < 0:
            return _by_parent().get(self._pid, [])
        text = b""
        for _ in range(_MOST_PIECES):
            piece = os.pread(self._fd, _CHUNK, len(text))
            text += piece
            if len(piece) < _SHORT:
                break
        return [int(pid) for pid in text.split()]


def _by_parent() -> dict[int, list[int]]:
    """All processes, the dead included, by their parents. Source: proc_pid_stat(5)."""
    found: dict[int, list[int]] = {}
    for pid, parent, _ in _processes():
        found.setdefault(parent, []).append(pid)
    return found


def descendants(root: int, apart_from: Collection[int] = ()) -> list[int]:
    """Process ids of all live descendants of `root`, parents before their children.

    apart_from: processes left out with all below them. Zombies are left out: nothing can be done
    to them but to reap them. Source: proc_pid_stat(5). Raises OSError if nothing can be listed.
    """
    children: dict[int, list[int]] = {}
    dead = set()
    for pid, parent, state in _processes():
        children.setdefault(parent, []).append(pid)
        if state in (b"Z", b"X"):
            dead.add(pid)
    found, queue = [], [root]
    while queue:
        below = [pid for pid in children.get(queue.pop(0), ()) if pid not in apart_from]
        found += [pid for pid in below if pid not in dead]
        queue += below
    return found


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Process id, parent and state of each process there is. Raises OSError."""
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        found = _stat(name)
        if found is not None:
            yield int(name), *found


def _stat(name: str) -> tuple[int, bytes] | None:
    """Parent and state; None if it has just ended."""
    try:
        with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
            # The command name may hold anything, ") " included; the last one ends it.
            state, above, _ = file.read(4096).rpartition(b") ")[2].split(None, 2)
    except OSError:
        return None
    return int(above), state


def parent(pid: int) -> int | None:
    """The parent of a process, be it dead; None if it has been waited for."""
    found = _stat(str(pid))
    # One that is just being waited for has none: ppid, proc_pid_stat(5), is 0.
    return None if found is None or found[0] == 0 else found[0]


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


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each of `pids` that still exists and is ours to signal."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
