"""LEAF: a working directory by its descriptor, whatever its name leads to meanwhile."""

import os
from collections.abc import Collection

from codex_multitool.escalation.protected import within

_UP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

Above = tuple[tuple[int, int], ...]


def path_of(fd: int) -> str:
    """What a directory is called now; `/` where that is longer than a path can be."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "/"


def above(fd: int, roots: Collection[str] | None) -> Above:
    """Device and inode of a directory, and of those above it, as long as they are within `roots`.

    Found by `..`, which no rename can lead elsewhere than a program in it would be led. A directory
    that was removed holds nothing, and has nothing above it.
    """
    found = []
    path = path_of(fd) if os.fstat(fd).st_nlink else "/"
    canonical = tuple(map(os.path.realpath, roots or ()))
    at = os.dup(fd)
    try:
        while path != "/" and within(path, canonical):
            status = os.fstat(at)
            found.append((status.st_dev, status.st_ino))
            path = os.path.dirname(path)
            up = os.open("..", _UP, dir_fd=at)
            os.close(at)
            at = up
    finally:
        os.close(at)
    return tuple(found)
