"""LEAF: which names came into directories, and what programs obey below them.

The names a directory had are remembered with their inodes: what is there later under another name
was moved, not made. All of it is bounded; what is too much to be looked at made nothing known.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from codex_multitool.escalation.protected import NAMES, within

_MAX_SHELVES = 32
_MAX_NAMES = 1024  # of a directory that is remembered
_MAX_WORDS, _MAX_WORD, _MAX_UP = 16, 1024, 8
_MAX_DIRECTORIES, _MAX_ALL_NAMES = 1024, 20_000  # looked through below new names
_MAX_PLACES = 64

Names = Mapping[str, int]  # with their inodes
Shelves = Mapping[str, Names]  # by directory


def named(words: Iterable[str], workdir: str, roots: Collection[str]) -> Iterator[str]:
    """The directories a program was told of and may work in: its arguments', or the next above."""
    yield workdir
    for word in list(words)[:_MAX_WORDS]:
        for text in {word, word.rpartition("=")[2]}:
            if text and len(text) <= _MAX_WORD and "\0" not in text:
                found = _nearest(os.path.join(workdir, text))
                if found is not None and within(found, roots):
                    yield found
                    if within(above := os.path.dirname(found), roots):
                        yield above


def _nearest(path: str) -> str | None:
    """The canonical path of a directory, or of the next above it that is there."""
    for _ in range(_MAX_UP):
        try:
            fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            path = os.path.dirname(path.rstrip("/"))
            continue
        try:
            return os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return None
        finally:
            os.close(fd)
    return None


def shelves(directories: Iterable[str]) -> dict[str, Names]:
    """What is in these directories, as far as it is not too much."""
    found: dict[str, Names] = {}
    for directory in dict.fromkeys(directories):
        if len(found) == _MAX_SHELVES:
            break
        names = _names(directory, _MAX_NAMES)
        if names is not None:
            found[directory] = names
    return found


def _names(directory: str, most: int) -> dict[str, int] | None:
    names: dict[str, int] = {}
    try:
        with os.scandir(directory) as listing:
            for entry in listing:
                if len(names) == most:
                    return None
                names[entry.name] = entry.inode()
    except OSError:
        return None
    return names


def since(before: Shelves) -> tuple[list[str], list[str]]:
    """What was made in directories since: the new paths; the directories to be looked at for them.

    Those are the ones in or below which something stands that programs obey.
    """
    moved = {inode for names in before.values() for inode in names.values()}
    search = _Search(moved)
    made = []
    for directory, names in before.items():
        for name, inode in (_names(directory, _MAX_NAMES) or {}).items():
            if name in names or inode in moved:
                continue
            path = os.path.join(directory, name)
            made.append(path)
            if name in NAMES:
                search.places[directory] = None
            else:
                search.below(path)
    return made, list(search.places)


class _Search:
    def __init__(self, moved: Collection[int]) -> None:
        self._moved = moved
        self._directories = _MAX_DIRECTORIES
        self._names = _MAX_ALL_NAMES
        self.places: dict[str, None] = {}

    def below(self, path: str) -> None:
        waiting = [path]
        while waiting and len(self.places) < _MAX_PLACES:
            directory = waiting.pop(0)
            self._directories -= 1
            if self._directories < 0:
                return
            with suppress(OSError), os.scandir(directory) as listing:
                for entry in listing:
                    self._names -= 1
                    if self._names < 0:
                        return
                    if entry.name in NAMES:
                        self.places[directory] = None
                    elif entry.inode() not in self._moved and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
