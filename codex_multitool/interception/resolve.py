"""LEAF: open a file by the name a caller gave it, as the caller means it.

The caller's root (it may be in a chroot or a mount namespace) and its working directory count,
and `/proc/self`, `/proc/thread-self` mean the caller, not us. Only O_PATH descriptors are opened,
so nothing a name leads to (a device, a FIFO, a lease) can act on us or hold us up.
"""

import os
from collections.abc import Callable
from errno import EBADF, ELOOP, ENOENT, ENOTDIR
from stat import S_ISDIR, S_ISLNK

from codex_multitool.interception.kernel import (
    PROC_SUPER_MAGIC,
    RESOLVE_IN_ROOT,
    RESOLVE_NO_MAGICLINKS,
    KernelError,
    filesystem_type,
    openat2,
)

AT_FDCWD = -100
_MOST_LINKS = 40  # MAXSYMLINKS, path_resolution(7)
# A path has 2,047 components, and 40 links may have as many each: mazes that cost the kernel little
# and us, who look at each, minutes. Names in use have a few dozen.
_MOST_COMPONENTS = 8192  # of all names of one exec together
_MOST_ON_THE_WAY = 256
_PROC_ROOT_INODE = 1  # PROC_ROOT_INO, include/linux/proc_ns.h
_PATH = os.O_PATH | os.O_CLOEXEC


def way(path: str) -> tuple[str, tuple[str, ...]]:
    """Where an absolute path leads in our own view, and what it passes that could turn it.

    That is each symbolic link, by its place, and each directory left by `..`. Raises OSError for
    too many links or components, and for a link that leads each reader elsewhere, as in /proc;
    what is missing at the end leads to itself.
    """
    found, passed = "/", list[str]()
    todo = _components(path)
    links = steps = 0
    while todo:
        name = todo.pop()
        steps += 1
        if steps > _MOST_ON_THE_WAY:
            raise OSError(ELOOP, os.strerror(ELOOP), path)
        if name == ".":
            continue
        if name == "..":
            passed.append(found)
            found = os.path.dirname(found)
            continue
        entry = os.path.join(found, name)
        try:
            target = os.readlink(entry)
        except OSError:
            found = entry
            continue
        links += 1
        if links > _MOST_LINKS or _of_procfs(entry):
            raise OSError(ELOOP, os.strerror(ELOOP), path)
        passed.append(entry)
        if target.startswith("/"):
            found = "/"
        todo += _components(target)
    return found, tuple(passed)


def _of_procfs(link: str) -> bool:
    fd = os.open(link, _PATH | os.O_NOFOLLOW)
    try:
        return filesystem_type(fd) == PROC_SUPER_MAGIC
    finally:
        os.close(fd)


class View:
    """The file system as the blocked thread `tid` of process `tgid` sees it.

    exhausted: whether names led through so many components that no more are followed: ELOOP.
    """

    def __init__(self, tid: int, tgid: int) -> None:
        self._tid, self._tgid = tid, tgid
        self._room = _MOST_COMPONENTS
        self._proc = f"/proc/{tid}"
        self._root = os.open(f"{self._proc}/root", _PATH | os.O_DIRECTORY)

    def close(self) -> None:
        """Close the root."""
        os.close(self._root)

    @property
    def exhausted(self) -> bool:
        """See the class."""
        return self._room < 0

    def step(self) -> None:
        """Count one component of a name."""
        self._room -= 1
        if self._room < 0:
            raise OSError(ELOOP, os.strerror(ELOOP))

    def workdir(self) -> int:
        """The working directory, opened."""
        return os.open(f"{self._proc}/cwd", _PATH | os.O_DIRECTORY)

    def descriptor(self, number: int) -> int:
        """What the caller has open as `number`; EBADF if nothing."""
        try:
            return os.open(f"{self._proc}/fd/{number}", _PATH)
        except FileNotFoundError:
            raise OSError(EBADF, os.strerror(EBADF)) from None

    def open(self, path: str, base: int, *, follow: bool = True) -> int:
        """Open `path`, relative to the directory descriptor `base` (ours) if it is relative.

        follow: whether a symlink as the last component is followed; if not, it is ELOOP.
        Raises OSError with the errno the caller would get.
        """
        if not path:
            raise OSError(ENOENT, os.strerror(ENOENT))
        self.step()
        if follow and path.startswith("/"):
            try:
                return openat2(self._root, path, _PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
            except KernelError as error:
                # A magic link, or `self` meant us: then only the walk tells. The usual failure,
                # a shell's search along PATH, need not pay for that.
                if error.errno == ENOENT and self._missing(path):
                    raise OSError(ENOENT, os.strerror(ENOENT)) from None
        walk = _Walk(self._root, self._tid, self._tgid, self.step)
        return walk.run(path, base, follow=follow)

    def _missing(self, path: str) -> bool:
        """Whether the last component is surely not there, whoever looks."""
        directory, name = os.path.split(path)
        try:
            parent = openat2(
                self._root,
                directory,
                _PATH | os.O_DIRECTORY,
                RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
            )
        except KernelError:
            return False
        try:
            if not name or filesystem_type(parent) == PROC_SUPER_MAGIC:
                return False
            os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return True
        finally:
            os.close(parent)
        return False


class _Walk:
    """path_resolution(7) in user space, one component at a time."""

    def __init__(self, root: int, tid: int, tgid: int, step: Callable[[], None]) -> None:
        self._root = root
        self._step = step
        self._tid, self._tgid = tid, tgid
        self._links = 0
        self._at = -1

    def run(self, path: str, base: int, *, follow: bool) -> int:
        self._at = os.dup(self._root if path.startswith("/") else base)
        todo = _components(path)
        try:
            while todo:
                name = todo.pop()
                self._step()
                last = not todo
                link = self._enter(name, follow=follow or not last)
                if link is not None:
                    if link.startswith("/"):
                        self._go(os.dup(self._root))
                    todo.extend(_components(link))
        except BaseException:
            os.close(self._at)
            raise
        return self._at

    def _enter(self, name: str, *, follow: bool) -> str | None:
        """Move to `name`; or return the text of the symlink it is."""
        if name == ".":
            if not S_ISDIR(os.fstat(self._at).st_mode):
                raise OSError(ENOTDIR, os.strerror(ENOTDIR))
            return None
        if name == "..":
            if not self._at_root():
                self._go(os.open("..", _PATH | os.O_DIRECTORY, dir_fd=self._at))
            return None
        entry = os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=self._at)
        status = os.fstat(entry)
        if not S_ISLNK(status.st_mode):
            self._go(entry)
            return None
        try:
            self._links += 1
            if not follow or self._links > _MOST_LINKS:
                raise OSError(ELOOP, os.strerror(ELOOP))
            if filesystem_type(entry) != PROC_SUPER_MAGIC:
                return os.readlink("", dir_fd=entry)
            return self._proc_link(name, entry)
        finally:
            os.close(entry)

    def _proc_link(self, name: str, entry: int) -> str | None:
        """A symlink of procfs: `self` is the caller; a magic link leads to an object."""
        if os.fstat(self._at).st_ino == _PROC_ROOT_INODE:
            if name == "self":
                return str(self._tgid)
            if name == "thread-self":
                return f"{self._tgid}/task/{self._tid}"
        try:
            found = openat2(self._at, name, _PATH, RESOLVE_NO_MAGICLINKS)
        except KernelError as error:
            if error.errno != ELOOP:
                return os.readlink("", dir_fd=entry)
            self._go(os.open(name, _PATH, dir_fd=self._at))
            return None
        os.close(found)
        return os.readlink("", dir_fd=entry)

    def _at_root(self) -> bool:
        return os.path.sameopenfile(self._at, self._root)

    def _go(self, fd: int) -> None:
        os.close(self._at)
        self._at = fd


def _components(path: str) -> list[str]:
    """The components, last first; a trailing slash demands a directory, as `.` does."""
    names = [name for name in path.split("/") if name]
    if path.endswith("/"):
        names.append(".")
    return names[::-1]
