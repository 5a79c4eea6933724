"""stdout and stderr of a program for people: unbuffered, whole, UTF-8 whatever the locale.

What cannot be printed to stdout is an OutputError; what cannot be printed to stderr is lost, as
nobody is left to tell. What was no UTF-8 in a path or an argument comes out as it came in.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from contextlib import suppress


class OutputError(Exception):
    """stdout cannot be written: why (errno(3)), and the exit status that says so.

    Empty where whoever read it has gone: they have what they wanted. The status is then the one
    of SIGPIPE, which ends most programs.
    """

    def __init__(self, number: int) -> None:
        gone = number == errno.EPIPE
        self.status = 128 + signal.SIGPIPE if gone else 1
        super().__init__("" if gone else f"write error: {os.strerror(number)}")


class _Stdout(io.FileIO):
    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # or what is like it
        """All of it."""
        try:
            return write_all(self.fileno(), data)
        except OSError as error:
            raise OutputError(error.errno or errno.EIO) from None


class _Stderr(io.FileIO):
    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # or what is like it
        """What of it can be written."""
        with suppress(OSError):
            write_all(self.fileno(), data)
        return memoryview(data).nbytes


def write_all(descriptor: int, data: bytes) -> int:
    """Write all of it, and return its size. Raises OSError."""
    rest = memoryview(data).cast("B")
    size = rest.nbytes
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return size


def claim() -> None:
    """Make sys.stdout and sys.stderr such streams.

    Where 0, 1 or 2 is closed it is opened: the first file opened would take its place. The other
    way than it is used, so that whoever uses it is told EBADF, as before.
    """
    for descriptor, way in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, way)
    sys.stdout = _text(_Stdout(1, "w", closefd=False))
    sys.stderr = _text(_Stderr(2, "w", closefd=False))


def _text(stream: io.FileIO) -> io.TextIOWrapper:
    # Typed for buffered streams only; `python -u` does the same.
    return io.TextIOWrapper(
        stream,
        encoding="utf-8",
        errors="surrogateescape",
        newline="\n",
        write_through=True,
    )
