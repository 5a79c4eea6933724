"""The pipes of one command: read as fast as the kernel gives, also after the answer."""

import fcntl
import os
import select
from collections.abc import Callable

from codex_multitool.keeper.output import STDERR, STDOUT
from codex_multitool.loop import Event, Loop

_CHUNK = 1 << 16
_PIPE_BYTES = 1 << 20  # what any user may ask for: pipe-max-size, pipe(7)
_READS_AT_ONCE = 16  # then others have their turn
_STREAMS = (STDOUT, STDERR)


class Arrivals:
    """Tells of pipes in the order in which something arrived in them: epoll(7). One per keeper."""

    def __init__(self, loop: Loop) -> None:
        self._poll = select.epoll()
        self._calls: dict[int, Callable[[], None]] = {}
        loop.watch(self._poll.fileno(), self.look)

    def watch(self, reader: int, call: Callable[[], None]) -> None:
        """Call this whenever the pipe can be read. Before anything is written: what is ready when
        it is registered has lost its turn.
        """
        self._poll.register(reader, select.EPOLLIN)
        self._calls[reader] = call

    def close(self, reader: int) -> None:
        """Close a pipe that is watched, of which there is no other descriptor."""
        del self._calls[reader]
        os.close(reader)  # the end of its registration, too

    def look(self, _: int = 0) -> None:
        """Tell of what is there by now."""
        for reader, _ in self._poll.poll(0):
            call = self._calls.get(reader)
            if call is not None:
                call()


class Pipes:
    """stdout and stderr of a command. feed: takes what comes, until `detach`. ended: both have.

    Whatever still comes when the answer has gone out is read and thrown away, so that a background
    job neither blocks on a full pipe nor dies of a closed one.
    """

    def __init__(self, arrivals: Arrivals, feed: Callable[[int, bytes], None]) -> None:
        self._arrivals = arrivals
        self._feed: Callable[[int, bytes], None] | None = feed
        self._readers: dict[int, int] = {}  # by stream
        self._writers: list[int] = []
        self._widened = [False, False]
        self.ended = Event()
        try:
            for stream in _STREAMS:
                self._open(stream)
        except OSError:
            self.close()
            raise

    def _open(self, stream: int) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._writers.append(writer)
        os.set_blocking(reader, False)
        self._arrivals.watch(reader, lambda: self._read(stream))
        self._readers[stream] = reader

    def close(self) -> None:
        """Close what is open of it."""
        self._close_write_ends()
        while self._readers:
            self._arrivals.close(self._readers.popitem()[1])

    def write_ends(self) -> list[tuple[int, int]]:
        """The ends for the command: pairs (descriptor, its number there).

        Ours stay open until `finish`: the end of a stream is not worth waking up for before.
        """
        return [(writer, number) for number, writer in enumerate(self._writers, start=1)]

    def finish(self) -> None:
        """Whoever else writes is the last: what has ended by now has, at once."""
        self._close_write_ends()
        self._arrivals.look()

    def _close_write_ends(self) -> None:
        while self._writers:
            os.close(self._writers.pop())

    def detach(self) -> None:
        """Take what is written by now; what comes later is nobody's."""
        for stream in tuple(self._readers):
            taken = 0
            while taken < _PIPE_BYTES and (count := self._take(stream)):
                taken += count
        self._feed = None

    def _read(self, stream: int) -> None:
        for _ in range(_READS_AT_ONCE):
            count = self._take(stream)
            if count != _CHUNK:  # it is empty, or it will be told of again
                break
        if count == 0:
            self._arrivals.close(self._readers.pop(stream))
            if not self._readers:
                self.ended.set()

    def _take(self, stream: int) -> int | None:
        """Bytes taken now: 0 at the end of the stream, None when there is nothing to read yet."""
        try:
            data = os.read(self._readers[stream], _CHUNK)
        except BlockingIOError:
            return None
        if data and self._feed is not None:
            self._feed(stream, data)
        if len(data) == _CHUNK and not self._widened[stream]:
            self._widen(stream)
        return len(data)

    def _widen(self, stream: int) -> None:
        """Much is printed: let it wait less often for us."""
        self._widened[stream] = True
        try:
            fcntl.fcntl(self._readers[stream], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # this user's pipes are full up to the limit: the ordinary size will do
