"""The pipes of one command: read as fast as the kernel gives, also after the answer."""

import fcntl
import os
import select
from contextlib import ExitStack
from typing import Self

import trio

from codex_multitool.keeper.output import STDERR, STDOUT, Capture
from codex_multitool.mcp_server.output_files import OutputFile

_CHUNK = 1 << 16
_PIPE_BYTES = 1 << 20  # what any user may ask for: pipe-max-size, pipe(7)
_READS_AT_ONCE = 16  # then others have their turn
_STREAMS = (STDOUT, STDERR)


class Pipes:
    """stdout and stderr of a command, fed into a `Capture` until `detach`. ended: both are.

    file: where the capture sends what it does not keep.
    Whatever still comes when the answer has gone out is read and thrown away, so that a background
    job neither blocks on a full pipe nor dies of a closed one.
    """

    def __init__(self, capture: Capture, file: OutputFile) -> None:
        self._capture: Capture | None = capture
        self._file = file
        self._readers: list[int] = []
        self._writers: list[int] = []
        self.ended = trio.Event()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._close)
            # Before anything is written: what is ready when it is registered has lost its turn.
            self._poll = stack.enter_context(select.epoll())
            for _ in _STREAMS:
                self._open()
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _open(self) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._readers.append(reader)
        self._writers.append(writer)
        os.set_blocking(reader, False)
        self._poll.register(reader, select.EPOLLIN)
        try:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except PermissionError:
            pass  # this user's pipes are full up to the limit: the ordinary size will do

    def _close(self) -> None:
        self.close_write_ends()
        while self._readers:
            os.close(self._readers.pop())

    def write_ends(self) -> list[tuple[int, int]]:
        """The ends for the command: pairs (descriptor, its number there)."""
        return [(writer, number) for number, writer in enumerate(self._writers, start=1)]

    def close_write_ends(self) -> None:
        """Drop our copies, so that the last writer's end is the end of the stream."""
        while self._writers:
            os.close(self._writers.pop())

    async def read(self) -> None:
        """Read both streams to their ends."""
        unended = len(_STREAMS)
        while unended:
            await trio.lowlevel.wait_readable(self._poll.fileno())
            # The ready list is in the order in which they became ready: epoll(7).
            for reader, _ in self._poll.poll(0):
                if self._take_some(self._readers.index(reader)):
                    self._poll.unregister(reader)
                    unended -= 1
            if self._file.due:
                await self._file.write()
        self.ended.set()

    def detach(self) -> None:
        """Take what is written by now; what comes later is nobody's."""
        for stream in _STREAMS:
            taken = 0
            while taken < _PIPE_BYTES and (count := self._take(stream)):
                taken += count
        self._capture = None

    def _take_some(self, stream: int) -> bool:
        """Whether the stream has ended."""
        for _ in range(_READS_AT_ONCE):
            count = self._take(stream)
            if not count:
                return count == 0
        return False

    def _take(self, stream: int) -> int | None:
        """Bytes taken now: 0 at the end of the stream, None when there is nothing to read yet."""
        try:
            data = os.read(self._readers[stream], _CHUNK)
        except BlockingIOError:
            return None
        if data and self._capture is not None:
            self._capture.feed(stream, data)
        return len(data)
