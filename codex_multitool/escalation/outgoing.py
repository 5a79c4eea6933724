"""LEAF: which of a caller's descriptors go along with a program outside.

Whoever has a descriptor can open its file anew by /dev/stderr or /proc/self/fd, for writing as
well, and by his own rights: proc_pid_fd(5). A program outside would so write for its caller what
that cannot write itself.
"""

import fcntl
import os
import stat
from collections.abc import Collection, Sequence
from typing import NamedTuple

from codex_multitool.escalation.protected import within

# Which anybody may open for writing: Documentation/admin-guide/devices.txt.
_HARMLESS_DEVICES = frozenset(os.makedev(1, minor) for minor in (3, 5, 7, 8, 9))
_STDIN = 0

Pair = tuple[int, int]


class Outgoing(NamedTuple):
    """going: pairs (ours, number in the program). files: device and inode of each regular file.

    piped: what stands for the program's stdin, and is to be read through a pipe. staying: numbers
    and paths of what does not go.
    """

    going: tuple[Pair, ...]
    files: tuple[tuple[int, int], ...] = ()
    piped: int | None = None
    staying: tuple[tuple[int, str], ...] = ()


def sort_out(descriptors: Sequence[Pair], roots: Collection[str] | None) -> Outgoing:
    """Sort a caller's descriptors, pairs as in Outgoing.

    roots: what the sandbox may write; None: everything.
    """
    if roots is None:
        return Outgoing(tuple(descriptors))
    going, files, staying = list[Pair](), list[tuple[int, int]](), list[tuple[int, str]]()
    piped = None
    for ours, number in descriptors:
        status = os.fstat(ours)
        regular = stat.S_ISREG(status.st_mode)
        if not _is_file(status) or not _beyond(ours, roots):
            going.append((ours, number))
            if regular:
                files.append((status.st_dev, status.st_ino))
        elif number == _STDIN and regular and not _is_path(ours):
            piped = ours
        elif number == _STDIN and not _is_path(ours):
            going.append((ours, number))  # a terminal, a named pipe: nobody writes to its stdin
        else:
            staying.append((number, os.readlink(f"/proc/self/fd/{ours}")))
    return Outgoing(tuple(going), tuple(files), piped, tuple(staying))


def _is_file(status: os.stat_result) -> bool:
    """Whether it has a name in a file system by which it matters who may write it."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFIFO:
        return status.st_dev != _pipes()
    if kind == stat.S_IFCHR:
        return status.st_rdev not in _HARMLESS_DEVICES
    return kind in (stat.S_IFREG, stat.S_IFBLK)


def _beyond(ours: int, roots: Collection[str]) -> bool:
    """Whether its caller could not write it, but who opens it anew by our rights."""
    if _is_path(ours):
        return True
    if fcntl.fcntl(ours, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
        return False
    name = f"/proc/self/fd/{ours}"
    if not os.access(name, os.W_OK, effective_ids=True):
        return False
    return not within(os.readlink(name), map(os.path.realpath, roots))


def _is_path(ours: int) -> bool:
    """Whether it is a mere name, by which nothing has been opened: open(2), O_PATH."""
    return bool(fcntl.fcntl(ours, fcntl.F_GETFL) & os.O_PATH)


_device: list[int] = []


def _pipes() -> int:
    """The device of pipes that have no name."""
    if not _device:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        _device.append(os.fstat(reader).st_dev)
        os.close(reader)
        os.close(writer)
    return _device[0]
