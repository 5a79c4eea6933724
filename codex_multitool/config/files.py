"""The user's files, read whole: regular, of a sane size."""

from __future__ import annotations

import os
import stat

from codex_multitool.config.errors import ConfigError

_MAX_BYTES = 1 << 20


def read(path: str, what: str) -> bytes | None:
    """What is in a file; None if there is none. Raises ConfigError; what: the kind of file."""
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"failed to read {what} {path}: not a regular file")
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise ConfigError(f"failed to read {what} {path}: {reason}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"failed to read {what} {path}: larger than {_MAX_BYTES >> 20} MiB")
    return content


def _open(path: str, flags: int) -> int:
    # A FIFO must not make us wait for whoever opens its other end: open(2).
    return os.open(path, flags | os.O_NONBLOCK)
