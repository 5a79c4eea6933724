"""LEAF: a file's content replaced at once, its mode and owner kept."""

from __future__ import annotations

import os
import signal
import stat
import tempfile

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def replace(path: str, content: bytes) -> None:
    """Put a file with `content` in the place of the one at `path`: rename(2). Raises OSError.

    Where there is none, the new one is its owner's alone. path: no symbolic link.
    """
    folder = os.path.dirname(path)
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".codex-multitool-", dir=folder)
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
