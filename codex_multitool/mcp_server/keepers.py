"""The server's side of its keepers: the zygote makes them, each runs one command at a time.

A few are kept for the next calls. A call that finds none waits for one to be made, or to come
free: as long as some do, commands are short, and more keepers would only be in each other's way.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

import trio

from codex_multitool.interception.rights import send
from codex_multitool.keeper.frames import Decoder, encode
from codex_multitool.keeper.protocol import (
    Begin,
    Grow,
    Hello,
    Message,
    Order,
    Prepare,
    Refused,
    Sandbox,
)
from codex_multitool.keeper.quiet import made
from codex_multitool.launcher.spawn import NO_PROCESS
from codex_multitool.running.settings import Settings

_CHUNK = 1 << 16
_MAX_KEEPERS = 512  # 256 calls, and as many more that left something running
_MAX_IDLE = 32  # kept for the next burst of calls
_KEPT = 2  # of them, how many stay when none comes
_AT_FIRST = 1  # before any has come: each takes 5 MiB, and another is made beside the first call
_IDLE_SECONDS = 30.0
_SANDBOXES = 3  # for so many a keeper stays prepared
# Made without more ado; what a processor is busy with may wait for another as well.
_AT_ONCE = 2 * len(os.sched_getaffinity(0))
_TICK_SECONDS = 0.005  # if none has come free for so long, more are made: about what making takes


class KeeperError(Exception):
    """There is no keeper, or no longer. errno: int, or 0."""

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class Keeper:
    """One keeper. pid: its own, 0 until it has said so.

    sandboxes: those that it is prepared for, the last one first.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._decoder = Decoder()
        self._heard = deque[Any]()
        self._sending = trio.Lock()
        self.pid = 0
        self.sandboxes: tuple[Sandbox, ...] = ()

    async def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Say something. Raises KeeperError when nobody hears it."""
        view = memoryview(encode(message))
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            sent = self._sent(view, descriptors)
            if sent < len(view):
                await self._send_rest(view, descriptors, sent)
        except (OSError, trio.ClosedResourceError):
            raise _killed() from None
        finally:
            self._sending.release()

    async def _send_rest(self, view: memoryview, descriptors: Sequence[int], sent: int) -> None:
        # A message half sent would garble all that follow: once begun it is sent whole.
        with trio.CancelScope(shield=True):
            while sent < len(view):
                await trio.lowlevel.wait_writable(self._socket)
                sent += self._sent(view[sent:], () if sent else descriptors)

    def _sent(self, view: memoryview, descriptors: Sequence[int]) -> int:
        """Bytes taken by the socket now, the descriptors with the first."""
        try:
            return send(self._socket, view, descriptors)
        except BlockingIOError:
            return 0

    async def receive(self) -> Any:
        """What it says next. Raises KeeperError when nothing more comes."""
        while not self._heard:
            try:
                # Not trio's socket: it goes round the event loop once more for every message.
                await trio.lowlevel.wait_readable(self._socket)
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError):
                data = b""
            if not data:
                raise _killed()
            self._heard += self._decoder.feed(data)
        return self._heard.popleft()

    def prepared(self, sandbox: Sandbox) -> None:
        """It is prepared for this one from now on."""
        if not self.sandboxes or self.sandboxes[0] != sandbox:
            others = [it for it in self.sandboxes if it != sandbox]
            self.sandboxes = (sandbox, *others[: _SANDBOXES - 1])

    def close(self) -> None:
        """Let it go; it ends whatever it still runs."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


def _killed() -> KeeperError:
    return KeeperError("the process that ran this command was killed")


class _Place:
    """In the line of the calls that wait for a keeper."""

    def __init__(self) -> None:
        self.served = trio.Event()
        self.keeper: Keeper | None = None
        self.failure: KeeperError | None = None


class Keepers:
    """All that there are. zygote: ours to talk to; it begins with these settings."""

    def __init__(
        self,
        zygote: socket.socket,
        settings: Settings,
        nursery: trio.Nursery,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._zygote = zygote
        self._nursery = nursery
        self._idle: list[Keeper] = []
        self._line = deque[_Place]()
        self._hired = self._growing = 0
        self._freed = 0  # how often one has come free
        self._lacking = trio.Event()
        self._expected: Sandbox | None = None
        self._quiet = made()
        try:
            self._begin(settings)
        except OSError:
            pass  # it has ended, which is told to who needs it
        nursery.start_soon(self._supply)
        nursery.start_soon(self._shrink, idle_seconds)

    async def give(self, order: Order) -> Keeper:
        """Have a command run. The keeper is the caller's until `dismiss`. Raises KeeperError."""
        while (keeper := self._ready(order.sandbox)) is not None:
            try:
                await self._ordered(keeper, order)
            except KeeperError:
                continue  # killed while it had nothing to do
            return keeper
        if self._hired + len(self._line) >= _MAX_KEEPERS:
            raise KeeperError(
                f"{_MAX_KEEPERS} commands have processes that run: those left in the background "
                "end with the server"
            )
        keeper = await self._in_line()
        await self._ordered(keeper, order)
        return keeper

    def quiet(self, quiet: bool) -> None:
        """Whether there is nothing to be watched, from now on: see Guard."""
        if self._quiet is not None:
            self._quiet.tell(quiet)

    def expect(self, sandbox: Sandbox | None) -> None:
        """Calls will come. sandbox: theirs, as far as it is known."""
        self._expected = sandbox
        for keeper in self._idle[-_KEPT:]:
            self._nursery.start_soon(self._prepare, keeper)
        self._make(_AT_FIRST - len(self._idle) - self._growing)

    def dismiss(self, keeper: Keeper) -> None:
        """Take back a keeper that is free again."""
        self._hired -= 1
        self._freed += 1
        self._put(keeper)

    def lose(self, keeper: Keeper) -> None:
        """Let go of one that is not: killed, or no longer to be relied on."""
        self._hired -= 1
        keeper.close()

    def close(self) -> None:
        """Let go of those that are free; the others are told no more what is quiet."""
        while self._idle:
            self._idle.pop().close()
        if self._quiet is not None:
            self._quiet.close()
            self._quiet = None

    def _begin(self, settings: Settings) -> None:
        quiet = [] if self._quiet is None else [self._quiet.descriptor]
        begin = encode(Begin(settings, bool(quiet)))
        try:
            self._zygote.sendall(memoryview(begin)[send(self._zygote, begin, quiet) :])
        finally:
            for descriptor in quiet:
                os.close(descriptor)

    def _ready(self, sandbox: Sandbox) -> Keeper | None:
        """One that is free, best one that is prepared."""
        if not self._idle:
            return None
        found = self._idle[-1]
        for keeper in reversed(self._idle):
            if sandbox in keeper.sandboxes:
                found = keeper
                break
        self._idle.remove(found)
        self._hired += 1
        if not self._idle:
            self._lacking.set()
        return found

    async def _ordered(self, keeper: Keeper, order: Order) -> None:
        try:
            await keeper.send(order)
        except BaseException:
            self.lose(keeper)
            raise
        keeper.prepared(order.sandbox)

    async def _in_line(self) -> Keeper:
        place = _Place()
        self._line.append(place)
        self._lacking.set()
        try:
            await place.served.wait()
        except trio.Cancelled:
            if place.keeper is not None:
                self.dismiss(place.keeper)
            elif place.failure is None:
                self._line.remove(place)
            raise
        if place.failure is not None:
            raise place.failure
        assert place.keeper is not None
        return place.keeper

    def _put(self, keeper: Keeper) -> None:
        """Give one that is free to the call that waits the longest, if any does."""
        if self._line:
            self._hired += 1
            place = self._line.popleft()
            place.keeper = keeper
            place.served.set()
        elif len(self._idle) < _MAX_IDLE:
            self._idle.append(keeper)
        else:
            keeper.close()

    async def _supply(self) -> None:
        """Have as many made as are needed, and one to spare."""
        while True:
            await self._lacking.wait()
            self._lacking = trio.Event()
            self._make(min(len(self._line), _AT_ONCE - self._hired) - self._growing)
            step = 1
            while self._line or not self._idle:
                freed = self._freed
                await trio.sleep(_TICK_SECONDS)
                if self._freed != freed:
                    step = 1
                elif self._growing:
                    continue  # forks take as long as they take
                elif self._line:
                    self._make(min(step, len(self._line)))
                    step *= 2
                else:
                    self._make(int(not self._idle))
                    break

    def _make(self, count: int) -> None:
        room = _MAX_KEEPERS - self._hired - self._growing - len(self._idle)
        for _ in range(min(count, room)):
            try:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
                with theirs:
                    try:
                        send(self._zygote, encode(Grow()), [theirs.fileno()])
                    except OSError:
                        ours.close()
                        raise
            except OSError as error:
                self._fail(_unheard(error))
            else:
                self._growing += 1
                self._nursery.start_soon(self._welcome, Keeper(ours))

    async def _welcome(self, keeper: Keeper) -> None:
        """Wait for a keeper's first word: it is free, or there is none."""
        try:
            match await keeper.receive():
                case Hello(pid):
                    keeper.pid = pid
                case Refused(text, number):
                    raise KeeperError(text, number)
                case message:
                    raise AssertionError(f"a keeper sent {message!r}")
            if not self._line:
                await self._prepare(keeper)
        except KeeperError as error:
            keeper.close()
            self._fail(error)
        except BaseException:
            keeper.close()
            raise
        else:
            self._put(keeper)
        finally:
            self._growing -= 1

    async def _prepare(self, keeper: Keeper) -> None:
        """Have it get ready for what is expected."""
        sandbox = self._expected
        if sandbox is None or sandbox in keeper.sandboxes:
            return
        keeper.prepared(sandbox)
        try:
            await keeper.send(Prepare(sandbox))
        except KeeperError:
            pass  # the next call finds that out, and takes another

    def _fail(self, failure: KeeperError) -> None:
        """One that was to be made is not: the call that waits the longest is told why."""
        if self._line:
            place = self._line.popleft()
            place.failure = failure
            place.served.set()

    async def _shrink(self, idle_seconds: float) -> None:
        """Let go of those that no call has used for a while; the last one dismissed is last."""
        while True:
            used = set(self._idle)
            await trio.sleep(idle_seconds)
            for keeper in [found for found in self._idle[:-_KEPT] if found in used]:
                self._idle.remove(keeper)
                keeper.close()


def _unheard(error: OSError) -> KeeperError:
    """Why the zygote cannot be asked. A new one must be forked before any thread is started."""
    if error.errno in (errno.EPIPE, errno.ECONNRESET):
        text = "the process that starts commands has ended; start the server anew"
    else:
        text = f"{NO_PROCESS}: {error.strerror}"
    return KeeperError(text, error.errno or 0)
