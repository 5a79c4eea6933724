"""LEAF: whether any thread of the sandbox has run, as /proc tells.

A thread that sleeps and was switched as often as before has not run in between. What would hide
one from us shows as well: a process that ends while it is looked at is missed, and counts as run.
What left the sandbox lacks its filters, which nobody can take off: seccomp(2).
"""

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

_MAX_THREADS = 128
_CHUNK = 1 << 14
_ASLEEP = frozenset(b"SDTtZIX")  # proc_pid_stat(5)

# Programs of the system that write nothing but to what they were given open.
_FILTERS = frozenset(("cat", "cut", "grep", "head", "jq", "nl", "rev", "tail", "tr", "wc"))
_SYSTEM = frozenset(("/bin", "/usr/bin"))
_LOADED_BY = (b"GCONV_PATH=", b"GLIBC_TUNABLES=", b"LD_", b"LOCPATH=", b"MALLOC_TRACE=")
_HARMLESS_ENDS = ("pipe:[", "socket:[", "/dev/null", "/dev/pts/", "/dev/tty")


class Seen(NamedTuple):
    """threads: how often each of the sandbox has run; None: one runs, or cannot be seen.

    company: whether programs are there that left the sandbox.
    """

    threads: Mapping[int, int] | None
    company: bool


def rest(roots: Iterable[int], *, held: Collection[int], writable: Collection[str]) -> Seen:
    """What is seen below the processes `roots`, which are none of the sandbox.

    held: processes that only do what we make them do, if they have a single thread. writable:
    directories that the sandbox can write. Source: proc_pid_status(5), proc_tid_children(5).
    """
    walk = _Walk(held, writable)
    asleep = True
    try:
        for root in roots:
            asleep = walk.below(root) and asleep
    except OSError:
        return Seen(None, company=True)
    return Seen(walk.found if asleep else None, walk.company)


class _Walk:
    def __init__(self, held: Collection[int], writable: Collection[str]) -> None:
        self._held = held
        self._writable = writable
        self.found: dict[int, int] = {}
        self.company = False

    def below(self, root: int) -> bool:
        """Take in what is below a process; whether all of it sleeps. Raises OSError."""
        ours = _status(root, root)
        processes = _children(root, _threads(root, ours))
        asleep = True
        while processes:
            pid = processes.pop()
            leader = _status(pid, pid)
            threads = _threads(pid, leader)
            states = {it: leader if it == pid else _status(pid, it) for it in threads}
            alive = {it: state for it, state in states.items() if not state.ended}
            if not alive:
                continue
            if not any(it.confined_by_more(ours) for it in alive.values()):
                self.company = True
                continue
            processes += _children(pid, threads)
            if (pid in self._held and len(threads) == 1) or self._only_reads(pid):
                continue
            self.found.update((it, state.switches) for it, state in alive.items())
            asleep = asleep and all(state.asleep for state in alive.values())
            if len(self.found) > _MAX_THREADS:
                return False
        return asleep

    def _only_reads(self, pid: int) -> bool:
        try:
            return _only_reads(pid, self._writable)
        except OSError:
            return False


class _Status(NamedTuple):
    asleep: bool
    ended: bool
    confined: tuple[int, int]  # no_new_privs, and filters
    switches: int
    threads: int  # of its process

    def confined_by_more(self, than: "_Status") -> bool:
        return any(it > other for it, other in zip(self.confined, than.confined, strict=True))


def _status(pid: int, thread: int) -> _Status:
    text = _read(f"/proc/{pid}/task/{thread}/status", one_piece=True)
    state = _field(text, b"State")[:1]
    confined = _number(text, b"NoNewPrivs"), _number(text, b"Seccomp_filters")
    switches = _number(text, b"voluntary_ctxt_switches")
    switches += _number(text, b"nonvoluntary_ctxt_switches")
    threads = _number(text, b"Threads")
    return _Status(state[0] in _ASLEEP, state in (b"Z", b"X"), confined, switches, threads)


def _field(status: bytes, name: bytes) -> bytes:
    # A name is a line's beginning: the process's own, which is free text, has its newlines escaped.
    return status.partition(b"\n" + name + b":")[2].partition(b"\n")[0].strip()


def _number(status: bytes, name: bytes) -> int:
    return int(_field(status, name) or 0)  # older kernels lack some


def _threads(pid: int, leader: _Status) -> list[int]:
    """All of a process, once its first one has been looked at."""
    return [pid] if leader.threads == 1 else [int(it) for it in os.listdir(f"/proc/{pid}/task")]


def _only_reads(pid: int, writable: Collection[str]) -> bool:
    """Whether a process is a filter that can write no file, whatever it is told to."""
    path = os.readlink(f"/proc/{pid}/exe")
    directory, _, name = path.rpartition("/")
    if name not in _FILTERS or directory not in _SYSTEM:
        return False
    if any(path.startswith(it.rstrip("/") + "/") for it in writable):
        return False
    environment = _read(f"/proc/{pid}/environ").split(b"\0")
    # While it is being executed, a program has none.
    if environment == [b""] or any(it.startswith(_LOADED_BY) for it in environment):
        return False
    return all(_harmless(pid, number) for number in os.listdir(f"/proc/{pid}/fd"))


def _harmless(pid: int, number: str) -> bool:
    if os.readlink(f"/proc/{pid}/fd/{number}").startswith(_HARMLESS_ENDS):
        return True
    for line in _read(f"/proc/{pid}/fdinfo/{number}", one_piece=True).splitlines():
        name, _, value = line.partition(b":")
        if name == b"flags":
            return int(value, 8) & os.O_ACCMODE == os.O_RDONLY
    return False


def _children(pid: int, threads: Iterable[int]) -> list[int]:
    found = (_read(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for children in found for child in children.split()]


def _read(path: str, *, one_piece: bool = False) -> bytes:
    """one_piece: what the kernel shows at once, by its single_open(), as most of /proc."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, _CHUNK):
            parts.append(part)
            if one_piece and len(part) < _CHUNK:
                break
        return b"".join(parts)
    finally:
        os.close(file)
