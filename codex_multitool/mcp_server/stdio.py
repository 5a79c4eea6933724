"""stdin and stdout as the protocol's own: one reader, one writer, nothing else near them.

Pipes, sockets, terminals and files all do.
"""

import fcntl
import logging
import math
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Self

import trio

log = logging.getLogger(__name__)

_CHUNK = 1 << 16
_PIPE_BYTES = 1 << 20  # what any user may ask for: pipe-max-size, pipe(7)
# Messages waiting for a client that does not read, before its own are left unread. Many: a client
# may well write a lot before it reads.
_MAX_QUEUED = 1024
_MAX_QUEUED_BYTES = 32 << 20
_FAREWELL_SECONDS = 2.0  # to write out what was answered before the client closed its side

ServeSession = Callable[[AsyncIterator[bytes], "Answers"], Awaitable[None]]


class Stdio:
    """The two streams. descriptors: of the input and the output, ours from now on.

    unsent: what is to be written before all else.
    """

    def __init__(self, descriptors: tuple[int, int], unsent: Sequence[bytes] = ()) -> None:
        self._input, self._output = descriptors
        self._unsent = unsent

    async def serve(self, session: ServeSession) -> None:
        """Run `session(chunks, answers)` to its end, and write out what it has answered.

        A client that reads no more ends the session.
        """
        sender, queue = trio.open_memory_channel[bytes](math.inf)
        try:
            with _Output(self._output) as output:
                answers = Answers(sender, output.write_now)
                for message in self._unsent:
                    answers.send_nowait(message)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, output, queue, answers, nursery.cancel_scope)
                    async with sender:
                        await session(_Chunks(self._input, answers.room), answers)
                    nursery.cancel_scope.deadline = trio.current_time() + _FAREWELL_SECONDS
        finally:
            os.close(self._input)

    async def _write(
        self,
        output: "_Output",
        queue: trio.MemoryReceiveChannel[bytes],
        answers: "Answers",
        session: trio.CancelScope,
    ) -> None:
        try:
            async with queue:
                async for message in queue:
                    await output.write(message)
                    answers.written(message)
        except OSError as error:
            log.info("the client reads no more: %s", error)
            session.cancel()


class Answers:
    """Messages on their way to the client: never refused, but who can wait should, for `room`.

    write_now: writes what goes without waiting, and returns the rest.
    """

    def __init__(
        self, queue: trio.MemorySendChannel[bytes], write_now: Callable[[bytes], bytes]
    ) -> None:
        self._queue = queue
        self._write_now = write_now
        self._bytes = 0
        self._waiting = trio.lowlevel.ParkingLot()

    def send_nowait(self, message: bytes) -> None:
        """Write a message, or queue it. Raises BrokenResourceError or ClosedResourceError."""
        if not self._bytes:
            message = self._write_now(message)
        if message:
            self._queue.send_nowait(message)
            self._bytes += len(message)

    async def room(self) -> None:
        """Wait while too much waits for a client that does not read."""
        while self._full():
            await self._waiting.park()

    def written(self, message: bytes) -> None:
        """A message has left."""
        self._bytes -= len(message)
        self._waiting.unpark_all()

    def _full(self) -> bool:
        queued = self._queue.statistics().current_buffer_used
        return queued > _MAX_QUEUED or self._bytes > _MAX_QUEUED_BYTES


class _Chunks:
    """What comes in, as it comes; ends with the input. room: waits before each."""

    def __init__(self, fd: int, room: Callable[[], Awaitable[None]]) -> None:
        self._fd = fd
        self._room = room

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await self._room()
        try:
            await trio.lowlevel.wait_readable(self._fd)
        except PermissionError:
            # A regular file, or /dev/null: never a reason to wait (epoll_ctl(2), EPERM).
            await trio.lowlevel.checkpoint()
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError as error:
            log.info("the input broke: %s", error)
            data = b""
        if not data:
            raise StopAsyncIteration
        return data


def _widen(pipe: int) -> None:
    """Let the client take a large answer in a few pieces: each is a turn of it and of us."""
    try:
        if fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) < _PIPE_BYTES:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # this user's pipes are full up to the limit: the ordinary size will do


class _Output:
    """A descriptor that is written without ever blocking the process.

    O_NONBLOCK belongs to the open file, which others may share: a terminal's shell, or our own
    stderr. So the file is opened once more where it can be, and the flag is put back elsewhere.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._blocking = os.get_blocking(fd)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return  # it never blocks for long, and opened once more it would lose its offset
        if stat.S_ISFIFO(mode):
            _widen(fd)
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            try:
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                self._fd = os.open(f"/proc/self/fd/{fd}", flags)
            except OSError:
                pass  # no /proc, or another user's pipe
            else:
                os.close(fd)
                self._blocking = False
                return
        os.set_blocking(fd, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        fd, self._fd = self._fd, -1  # whoever still has something to write must not meet another's
        if self._blocking:
            os.set_blocking(fd, True)
        os.close(fd)

    def write_now(self, data: bytes) -> bytes:
        """Write what goes without waiting; returns the rest, also if nobody will read it."""
        try:
            return data[os.write(self._fd, data) :]
        except OSError:
            return data

    async def write(self, data: bytes) -> None:
        """Write all of it; OSError when nobody will read it."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)
