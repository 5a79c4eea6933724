"""LEAF: what stands under the protected names of directories that a sandbox may write.

The directories belong to an enemy who may change them while they are looked at. Each is opened
from the one above it and no link is followed, but where git and agents follow one: to a place that
the sandbox may write as well. Nothing is opened that could block; what is too much to be looked at
is told as that. Content is always read: a mapping can change it and leave the times as they are
(mmap(2), NOTES).
"""

import os
import stat
import time

# `hashlib` around it loads OpenSSL, 2 ms.
from _blake2 import blake2b
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from codex_multitool.escalation.protected import NAMES, STATE, Entry, Snapshot, within

MAX_ENTRIES = 512  # under one name
MAX_ALL_ENTRIES = 4096
MAX_DEPTH = 8  # of directories under one name
MAX_CONTENT = 128 * 1024  # bytes of one file; a longer one is compared by its times
_MAX_ALL_CONTENT = 4 * 1024 * 1024
_MAX_POINTER = 4096
_MAX_NAMES = 1024  # looked through for links where git writes
# Where git writes through a link that is there already, and how deep.
_WRITTEN = (("logs", MAX_DEPTH), ("refs", MAX_DEPTH), ("objects", 0))

_MAX_LISTINGS = 1024
_SETTLED_NS = 3_000_000_000  # after which a directory cannot change and keep its times

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_ALL: frozenset[str] = frozenset()


def look(
    places: Iterable[str],
    roots: Collection[str],
    stood: dict[str, tuple[int, int]] | None = None,
) -> Snapshot:
    """What stands under the protected names of `places`, canonical paths of directories.

    roots: the directories that the sandbox may write, all beneath them included. stood: takes
    device and inode of each of `places` as it was looked at.
    """
    walk = _Walk(roots, {} if stood is None else stood)
    for place in places:
        walk.place(place)
    return walk.entries


class _TooMuchError(Exception):
    """More than is looked at."""


class _TooManyNamesError(Exception):
    """More than is looked through for links."""


class _Walk:
    def __init__(self, roots: Collection[str], stood: dict[str, tuple[int, int]]) -> None:
        self._roots = roots
        self._stood = stood
        self.entries: dict[str, Entry] = {}
        self._left = 0
        self._names_left = 0
        self._all_left = MAX_ALL_ENTRIES
        self._content_left = _MAX_ALL_CONTENT

    def place(self, path: str) -> None:
        """Look at a directory that the sandbox may write."""
        try:
            fd = os.open(path, _PLACE | os.O_NOFOLLOW)
        except FileNotFoundError:
            return  # what it held is missing, which tells
        except NotADirectoryError:
            self.entries[path] = Entry(stat.S_IFLNK, 0, (0, 0), b"no directory")
            return
        except OSError as error:
            self._unseen(path, str(error.strerror))
            return
        try:
            status = os.fstat(fd)
            self._stood[path] = status.st_dev, status.st_ino
            below = path.rstrip("/")
            for name in NAMES:
                self._name(fd, name, f"{below}/{name}")
        finally:
            os.close(fd)

    def _name(self, fd: int, name: str, path: str) -> None:
        self._left = MAX_ENTRIES
        try:
            mode = self._entry(fd, name, path)
            if name != ".git":
                self._tree(fd, name, path, mode, STATE.get(name, _ALL))
            elif stat.S_ISREG(mode):
                self._pointed(fd, name, b"gitdir:", MAX_DEPTH)
            elif mode:
                with self._opened(fd, name, mode, path) as inner:
                    self._repository(inner, path, MAX_DEPTH)
        except _TooMuchError as error:
            # Which part of it was seen is chance.
            for seen in [it for it in self.entries if it == path or it.startswith(path + "/")]:
                del self.entries[seen]
            self._unseen(path, str(error))

    def _entry(self, fd: int, name: str, path: str) -> int:
        """Take in what stands at a name; returns its mode, 0 if nothing does."""
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            self._unseen(path, str(error.strerror))
            return 0
        self._spend()
        mode, content = found.st_mode, b""
        if stat.S_ISREG(mode):
            content = self._content(name, fd, os.O_NOFOLLOW)
        elif stat.S_ISLNK(mode):
            content = self._link(fd, name)
        self.entries[path] = Entry(
            stat.S_IFMT(mode),
            stat.S_IMODE(mode),
            (found.st_uid, found.st_gid),
            content,
            () if stat.S_ISDIR(mode) else (found.st_dev, found.st_ino, found.st_ctime_ns),
        )
        return mode

    def _spend(self) -> None:
        self._left -= 1
        self._all_left -= 1
        if self._left < 0 or self._all_left < 0:
            raise _TooMuchError("too many files")

    def _unseen(self, path: str, why: str) -> None:
        self.entries[path] = Entry(0, 0, (0, 0), why.encode())

    def _content(self, name: str, fd: int | None, flags: int) -> bytes:
        try:
            file = os.open(name, _READ | flags, dir_fd=fd)
        except OSError as error:
            return f"unreadable: {error.strerror}".encode()
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                return b"another kind of file than it was a moment ago"
            if found.st_size <= min(MAX_CONTENT, self._content_left):
                data = os.read(file, MAX_CONTENT + 1)
                self._content_left -= len(data)
                if len(data) <= MAX_CONTENT:
                    return blake2b(data).digest()
            times = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            return b"long: %d %d %d %d" % times
        except OSError as error:
            return f"unreadable: {error.strerror}".encode()
        finally:
            os.close(file)

    def _link(self, fd: int, name: str) -> bytes:
        """Where a link leads; with what a file holds that the sandbox could write there."""
        try:
            content = os.fsencode(os.readlink(name, dir_fd=fd)) + b"\0"
            inner = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=fd)
        except OSError:
            return b"dangling"
        try:
            if self._writable(inner) and stat.S_ISREG(os.fstat(inner).st_mode):
                content += self._content(f"/proc/self/fd/{inner}", None, 0)
        finally:
            os.close(inner)
        return content

    def _writable(self, fd: int) -> str | None:
        """Where `fd` is, if the sandbox may write there."""
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return None  # its path is too long to be one
        return path if within(path, self._roots) else None

    @contextmanager
    def _opened(self, fd: int, name: str, mode: int, path: str) -> Iterator[int | None]:
        """The directory at a name, or the one that a link there leads to; None if it is none."""
        inner = None
        try:
            if stat.S_ISDIR(mode):
                inner = os.open(name, _LISTED, dir_fd=fd)
            elif stat.S_ISLNK(mode):
                inner = self._led_to(fd, name)
        except (FileNotFoundError, NotADirectoryError):
            pass  # it went, or turned into something else: its entry tells
        except OSError as error:
            self._unseen(path, str(error.strerror))
        try:
            yield inner
        finally:
            if inner is not None:
                os.close(inner)

    def _led_to(self, fd: int, name: str) -> int | None:
        led = os.open(name, _PLACE, dir_fd=fd)
        try:
            if self._writable(led) is None:
                return None
            return os.open(f"/proc/self/fd/{led}", _LISTED & ~os.O_NOFOLLOW)
        finally:
            os.close(led)

    def _tree(
        self,
        fd: int,
        name: str,
        path: str,
        mode: int,
        left_out: frozenset[str] = _ALL,
        suffix: str = "",
    ) -> None:
        if not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
            return
        with self._opened(fd, name, mode, path) as inner:
            if inner is not None:
                self._listed(inner, path, left_out, suffix, MAX_DEPTH)

    def _listed(
        self, fd: int, path: str, left_out: frozenset[str], suffix: str, depth: int
    ) -> None:
        """Take in all below a directory. left_out, suffix: names that do not count."""
        for name in self._names(fd):
            if name in left_out or (suffix and name.endswith(suffix)):
                continue
            below = f"{path}/{name}"
            mode = self._entry(fd, name, below)
            if not stat.S_ISDIR(mode):
                continue
            if not depth:
                raise _TooMuchError(f"more than {MAX_DEPTH} directories deep")
            with self._opened(fd, name, mode, below) as inner:
                if inner is not None:
                    self._listed(inner, below, _ALL, suffix, depth - 1)

    def _names(self, fd: int) -> list[str]:
        names = _listing(fd).names
        if len(names) > MAX_ENTRIES:
            raise _TooMuchError("too many files")
        return names

    def _repository(self, fd: int | None, path: str, depth: int) -> None:
        """Take in what git obeys in a repository's directory: gitrepository-layout(5)."""
        if fd is None:
            return
        for name in ("config", "config.worktree"):
            self._entry(fd, name, f"{path}/{name}")
        if stat.S_ISREG(self._entry(fd, "commondir", f"{path}/commondir")) and depth:
            self._pointed(fd, "commondir", b"", depth)
        hooks = f"{path}/hooks"
        self._tree(fd, "hooks", hooks, self._entry(fd, "hooks", hooks), suffix=".sample")
        info = f"{path}/info"
        with self._opened(fd, "info", self._entry(fd, "info", info), info) as inner:
            if inner is not None:
                self._entry(inner, "attributes", f"{info}/attributes")
        self._modules(fd, "modules", f"{path}/modules", depth)
        self._links(fd, path, 0)
        for name, deep in _WRITTEN:
            below = f"{path}/{name}"
            with self._opened(fd, name, stat.S_IFDIR, below) as inner:
                if inner is not None:
                    self._links(inner, below, deep)

    def _links(self, fd: int, path: str, deep: int) -> None:
        """Take in the symbolic links in a directory, and in those below it."""
        self._names_left = _MAX_NAMES
        try:
            self._links_below(fd, path, deep)
        except _TooManyNamesError:
            # The first directory is counted before anything of it is taken in.
            for seen in [it for it in self.entries if deep and it.startswith(path + "/")]:
                del self.entries[seen]
            self._unseen(path, "too many files")

    def _links_below(self, fd: int, path: str, deep: int) -> None:
        try:
            names, links, directories = _listing(fd)
        except OSError as error:
            self._unseen(path, str(error.strerror))
            return
        self._names_left -= len(names)
        if self._names_left < 0:
            raise _TooManyNamesError
        for name in links:
            self._entry(fd, name, f"{path}/{name}")
        for name in directories if deep else ():
            below = f"{path}/{name}"
            with self._opened(fd, name, stat.S_IFDIR, below) as inner:
                if inner is not None:
                    self._links_below(inner, below, deep - 1)

    def _modules(self, fd: int, name: str, path: str, depth: int) -> None:
        """The repositories of submodules, whose names may have slashes."""
        mode = self._entry(fd, name, path)
        if not mode:
            return
        if not depth:
            raise _TooMuchError(f"more than {MAX_DEPTH} directories deep")
        with self._opened(fd, name, mode, path) as inner:
            if inner is None:
                return
            if self._exists(inner, "HEAD"):
                self._repository(inner, path, depth - 1)
                return
            for below in self._names(inner):
                self._modules(inner, below, f"{path}/{below}", depth - 1)

    def _exists(self, fd: int, name: str) -> bool:
        try:
            os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _pointed(self, fd: int, name: str, prefix: bytes, depth: int) -> None:
        """Follow a file that names a repository's directory, if the sandbox may write there."""
        try:
            file = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=fd)
            try:
                text = os.read(file, _MAX_POINTER)
            finally:
                os.close(file)
            if not text.startswith(prefix):
                return
            inner = os.open(text[len(prefix) :].strip(), _PLACE, dir_fd=fd)
        except (OSError, ValueError):
            return  # git could not follow it either
        try:
            if (path := self._writable(inner)) is not None:
                self._repository(inner, path, depth - 1)
        finally:
            os.close(inner)


class _Listing(NamedTuple):
    names: list[str]
    links: list[str]
    directories: list[str]


_listings: dict[tuple[int, ...], _Listing] = {}


def _listing(fd: int) -> _Listing:
    """What is in a directory, opened in whatever way; of a very large one the beginning.

    Known again by its times: no name comes or goes without them (inode(7)), but for the resolution
    of the clock that files get.
    """
    found = os.fstat(fd)
    key = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
    if key in _listings:
        return _listings[key]
    listed = os.open(".", _LISTED, dir_fd=fd)
    try:
        with os.scandir(listed) as listing:
            entries = list(islice(listing, _MAX_NAMES + 1))
    finally:
        os.close(listed)
    answer = _Listing(
        [it.name for it in entries],
        [it.name for it in entries if it.is_symlink()],
        [it.name for it in entries if it.is_dir(follow_symlinks=False)],
    )
    if time.time_ns() - found.st_ctime_ns > _SETTLED_NS:
        if len(_listings) >= _MAX_LISTINGS:
            _listings.clear()
        _listings[key] = answer
    return answer
