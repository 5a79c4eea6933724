"""Files with the whole of what commands printed, where not all of it is in the result.

They lie in a private folder of this server's, which no command's sandbox may write and every one
may read. Keepers write them; they are made and removed here, in a thread: a disk may be slow, and
the server is not.
"""

import fcntl
import logging
import os
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import isabs, join

import trio

from codex_multitool.escalation.writable import beneath
from codex_multitool.running.own_files import changeable

log = logging.getLogger(__name__)

_MAX_TOTAL, _MAX_FILES = 256 << 20, 64  # of a server; the oldest go first
_STEP = 4 << 20  # bytes that one is given at a time
_PREFIX = "server-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Folder:
    """A server's own folder: locked, so that it can be told from one that was left behind."""

    def __init__(self, base: int) -> None:
        self.name = _PREFIX + secrets.token_hex(8)
        os.mkdir(self.name, 0o700, dir_fd=base)
        self.fd = os.open(self.name, _FOLDER, dir_fd=base)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # One that took it for left behind, before the lock, has removed it.
        os.stat(self.name, dir_fd=base, follow_symlinks=False)
        self.path = os.readlink(f"/proc/self/fd/{self.fd}")


class OutputFiles:
    """Those of one server. environ: names the places they may lie in."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._bases = tuple(_bases(environ))
        self._folders: dict[str, _Folder] = {}
        self._kept: deque[tuple[_Folder, str, int]] = deque()
        self._total = 0
        self._made = 0
        # One at a time: what is counted here is counted in the thread.
        self.limiter = trio.CapacityLimiter(1)

    async def sweep(self) -> None:
        """Remove what servers that were killed have left behind."""
        if any(map(os.path.isdir, self._bases)):
            await trio.to_thread.run_sync(self._sweep, limiter=self.limiter)

    def close(self) -> None:
        """Remove all of them."""
        for base, folder in self._folders.items():
            _remove(base, folder.name, folder.fd)
        self._folders.clear()

    def create(self, roots: Sequence[str]) -> tuple[int, str, _Folder, str]:
        """A new file: its descriptor, path, folder and name there. In the thread; raises OSError.

        roots: canonical; what lies where a command can write is not used.
        """
        folder = self._folder(roots)
        self._made += 1
        name = f"{self._made}.txt"
        return os.open(name, _FILE, 0o600, dir_fd=folder.fd), join(folder.path, name), folder, name

    def keep(self, folder: _Folder, name: str, size: int) -> None:
        """A file has all it will have: from now on it may be the oldest."""
        self._kept.append((folder, name, size))

    def take(self, size: int) -> int:
        """Make room for so many bytes more; how many there is room for. In the thread."""
        while self._kept and (self._total + size > _MAX_TOTAL or len(self._kept) >= _MAX_FILES):
            folder, name, gone = self._kept.popleft()
            self._total -= gone
            with suppress(OSError):
                os.unlink(name, dir_fd=folder.fd)
        size = min(size, _MAX_TOTAL - self._total)
        self._total += size
        return size

    def give_back(self, size: int) -> None:
        """So many of the bytes taken are not needed."""
        self._total -= size

    def _folder(self, roots: Sequence[str]) -> _Folder:
        found = OSError(0, "the command could write wherever there is room for one")
        for base in self._bases:
            if beneath(os.path.realpath(base), roots):
                continue
            try:
                if base not in self._folders:
                    self._folders[base] = _made(base)
            except OSError as error:
                found = error
                continue
            if not changeable(self._folders[base].path, tuple(roots)):
                return self._folders[base]
        raise found

    def _sweep(self) -> None:
        for base in self._bases:
            with suppress(OSError), os.scandir(base) as entries:
                for name in [it.name for it in entries if it.name.startswith(_PREFIX)]:
                    _remove_unused(base, name)


class OutputFile:
    """One command's, which its keeper writes. roots: what its sandbox may write, or any before."""

    def __init__(self, files: OutputFiles, roots: Sequence[str]) -> None:
        self._files = files
        self._roots = roots
        self._taken = 0
        self._place: tuple[_Folder, str] | None = None

    async def make(self) -> tuple[int, str, int]:
        """Make it: a descriptor, the caller's to close, its path, and how many bytes it may have.

        Raises OSError.
        """
        return await trio.to_thread.run_sync(self._make, limiter=self._files.limiter)

    async def more(self) -> int:
        """How many bytes more it may have. Raises OSError if there is no room for any."""
        return await trio.to_thread.run_sync(self._more, limiter=self._files.limiter)

    def close(self, *, kept: bool) -> None:
        """No more comes. kept: somebody knows of it."""
        if self._place is None:
            return
        (folder, name), self._place = self._place, None
        size = 0
        with suppress(OSError):
            if kept:
                size = os.stat(name, dir_fd=folder.fd).st_size
            else:
                os.unlink(name, dir_fd=folder.fd)
        self._files.give_back(self._taken - size)
        if kept:
            self._files.keep(folder, name, size)

    def _make(self) -> tuple[int, str, int]:
        room = self._more()
        try:
            fd, path, folder, name = self._files.create(self._roots)
        except OSError:
            self._files.give_back(room)
            raise
        self._place = folder, name
        return fd, path, room

    def _more(self) -> int:
        room = self._files.take(_STEP)
        if not room:
            raise OSError(0, "other outputs take all the room there is for them")
        self._taken += room
        return room


def _bases(environ: Mapping[str, str]) -> Iterator[str]:
    """Where such files may lie, the best place first."""
    for variable, below in (
        ("XDG_CACHE_HOME", "codex-multitool/outputs"),
        ("HOME", ".cache/codex-multitool/outputs"),
        ("XDG_RUNTIME_DIR", "codex-multitool-outputs"),
    ):
        folder = environ.get(variable, "")
        if isabs(folder):
            yield join(folder, below)
    yield f"/var/tmp/codex-multitool-{os.geteuid()}"


def _made(base: str) -> _Folder:
    os.makedirs(base, 0o700, exist_ok=True)
    fd = os.open(base, _FOLDER)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(1, f"{base} is not this user's alone")
        return _Folder(fd)
    finally:
        os.close(fd)


def _remove_unused(base: str, name: str) -> None:
    try:
        fd = os.open(join(base, name), _FOLDER)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)  # in use
    else:
        _remove(base, name, fd)


def _remove(base: str, name: str, fd: int) -> None:
    with suppress(OSError):
        for entry in os.listdir(fd):
            os.unlink(entry, dir_fd=fd)
        os.rmdir(join(base, name))
    os.close(fd)
