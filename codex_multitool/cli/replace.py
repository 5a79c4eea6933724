"""LEAF: a file's content read, and replaced at once, its mode and owner kept.

Regular files only: renamed onto a device, a file would take its place for the whole machine.
"""

from __future__ import annotations

import errno
import os
import signal
import stat

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def read(path: str) -> bytes | None:
    """The content of a regular file; None if there is nothing. Raises OSError."""
    try:
        # A pipe would be waited for: open(2).
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        require_regular(os.fstat(file), path)
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read()
    finally:
        os.close(file)


def require_regular(found: os.stat_result, path: str) -> None:
    """Raise OSError for anything but a regular file, directories included."""
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def replace(path: str, content: bytes) -> None:
    """Put a file with `content` in the place of the one at `path`: rename(2). Raises OSError.

    Where there is none, the new one is its owner's alone. path: no symbolic link.
    """
    folder = os.path.dirname(path)
    before: os.stat_result | None
    try:
        before = os.stat(path)
        require_regular(before, path)
    except FileNotFoundError:
        before = None
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        temporary = os.path.join(folder, f".codex-multitool-{os.urandom(8).hex()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                _take_on(file.fileno(), before)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _take_on(descriptor: int, before: os.stat_result | None) -> None:
    if before is None:
        return
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid):
        # Before the mode: chown(2) takes set-user-ID bits away.
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
