"""Files with the whole of what commands printed, where not all of it is in the result.

They lie in a private folder of this server's, which no command's sandbox may write and every one
may read. All their input and output is done in a thread: a disk may be slow, and the server is not.
What goes wrong with a file is told, and is no failure of the command.
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

from codex_multitool.escalation.identity import beneath
from codex_multitool.running.own_files import changeable

log = logging.getLogger(__name__)

_MAX_FILE = 64 << 20
_MAX_TOTAL, _MAX_FILES = 256 << 20, 64  # of a server; the oldest go first
_DUE = 1 << 20  # bytes worth a turn of the thread
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
        self.total = 0
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

    def take(self, size: int) -> bool:
        """Make room for so many bytes more; False if there is none. In the thread."""
        while self._kept and (self.total + size > _MAX_TOTAL or len(self._kept) >= _MAX_FILES):
            folder, name, gone = self._kept.popleft()
            self.total -= gone
            with suppress(OSError):
                os.unlink(name, dir_fd=folder.fd)
        if self.total + size > _MAX_TOTAL:
            return False
        self.total += size
        return True

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
    """One command's. roots: what its sandbox may write, or any before it.

    path: where it is, once `finish` has come back; None if there is none. note: what is to say.
    """

    def __init__(self, files: OutputFiles, roots: Sequence[str]) -> None:
        self._files = files
        self._roots = roots
        self._waiting: list[bytes] = []
        self._size = self._unwritten = self._taken = 0
        self._cut = False
        self._fd = -1
        self._place: tuple[_Folder, str] | None = None
        self._failed = False
        self.path: str | None = None
        self.note = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes. They wait in memory until `write`."""
        room = _MAX_FILE - self._size
        if len(data) > room:
            self._cut = True
            data = data[:room]
        if data and not self._failed:
            self._size += len(data)
            self._unwritten += len(data)
            self._waiting.append(data)

    @property
    def due(self) -> bool:
        """Whether enough waits to be written."""
        return self._unwritten >= _DUE

    async def write(self) -> None:
        """Write what waits."""
        pieces, size, self._waiting, self._unwritten = self._waiting, self._unwritten, [], 0
        if pieces:
            await trio.to_thread.run_sync(self._write, pieces, size, limiter=self._files.limiter)

    async def finish(self) -> None:
        """No more comes."""
        if self._cut:
            self.note = f"the file with the output ends after {_MAX_FILE >> 20} MiB"
        await self.write()
        self.close()

    def close(self) -> None:
        """Give up the descriptor; the file stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._place is not None:
            self._files.keep(*self._place, self._taken)
            self._place = None

    def _write(self, pieces: list[bytes], size: int) -> None:
        try:
            if self._failed:
                return
            if not self._files.take(size):
                raise OSError(0, "other outputs take all the room there is for them")
            self._taken += size
            if self._fd < 0:
                self._fd, self.path, folder, name = self._files.create(self._roots)
                self._place = folder, name
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._failed = True
            self.note = f"what was left out of the output is in no file: {error.strerror}"
            self.path = None
            if self._place is not None:
                with suppress(OSError):
                    os.unlink(self._place[1], dir_fd=self._place[0].fd)


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
