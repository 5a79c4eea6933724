"""One command's exec requests in wrapper mode: receive, decide, ask, answer, run outside.

Whoever holds the command's datagram socket may speak, so every word is an enemy's: frames are
bounded, each message is taken only when it is due, and what runs is what was opened and judged.
A connection that breaks a rule is closed, and a closed connection means that nothing runs.
"""

import os
import select
import socket
import struct
import time
from contextlib import ExitStack
from functools import partial
from math import inf
from signal import SIGKILL
from stat import S_ISDIR

from codex_multitool.escalation import caller, requests, wire
from codex_multitool.escalation.child import Escalated, Outside, start_outside
from codex_multitool.escalation.context import Context, Settled, settle
from codex_multitool.escalation.decide import (
    Deny,
    Escalate,
    ExecRequest,
    Run,
    decide,
    leaves_untrusted,
    unfixed,
)
from codex_multitool.escalation.identity import absolute, exec_request
from codex_multitool.interception import rights
from codex_multitool.interception.resolve import View
from codex_multitool.interception.sealed import sealed
from codex_multitool.interception.tracee import Opened
from codex_multitool.loop import Event, Running, Task, Wait

_MAX_SESSIONS = 64  # judged at a time; more wait in the socket's queue
_REQUEST_SECONDS = 30.0  # for a whole request to arrive; the wrapper sends it at once
# Bytes; of requests above it few are dealt with at a time, or they would eat up the memory.
_LARGE = 1 << 18
_MAX_LARGE = 2
_CHUNK = 1 << 16
_PEERCRED = struct.Struct("iII")  # struct ucred, unix(7)


class Slots:
    """So many at a time; who comes later waits."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._freed = Event()

    def acquire(self, until: float = inf) -> Task[bool]:
        """Take one, to `release` it; False: there was none until then, see Wait."""
        while not self._free:
            if not (yield Wait(event=self._freed, until=until)):
                return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Give one back."""
        self._free += 1
        freed, self._freed = self._freed, Event()
        freed.set()


class Broker:
    """Answers the wrappers of one command, on the server's end of its datagram socket."""

    def __init__(self, context: Context, datagrams: socket.socket) -> None:
        datagrams.setblocking(False)
        self._context = context
        self._datagrams = datagrams
        self._slots = Slots(_MAX_SESSIONS)
        self._large = Slots(_MAX_LARGE)
        self._sessions: set[Running] = set()

    def close(self) -> None:
        """Answer nobody any more, and close the socket; to be called when `serve` has ended."""
        for session in list(self._sessions):
            session.cancel()
        self._datagrams.close()

    def serve(self) -> Task[None]:
        """Answer until nobody can ask any more; who has asked is answered until `close`."""
        while True:
            yield from self._slots.acquire()
            connection = yield from self._next()
            if connection is None:
                return
            connection.setblocking(False)
            session = self._context.loop.start(self._session(connection))
            self._sessions.add(session)
            session.done.on_set(partial(self._end, session, connection))

    def _next(self) -> Task[socket.socket | None]:
        """The connection of the next who asks; None: nobody can any more."""
        while True:
            yield Wait(readable=self._datagrams.fileno())
            try:
                data, fds = rights.receive(self._datagrams, len(wire.HANDSHAKE), 1)
                if fds:
                    return _stream(fds[0])
                if not data and self._hung_up():
                    return None
                self._context.note("a handshake was dropped: no descriptor came along")
            except BlockingIOError:
                continue
            except OSError as error:
                self._context.note(f"a handshake was dropped: {error}")

    def _hung_up(self) -> bool:
        # An empty message of a live peer looks the same to recvmsg.
        poll = select.poll()
        poll.register(self._datagrams.fileno(), 0)
        return any(found & select.POLLHUP for _, found in poll.poll(0))

    def _session(self, connection: socket.socket) -> Task[None]:
        try:
            with ExitStack() as stack:
                yield from Session(self._context, connection, self._large, stack).run()
        except (wire.WireError, OSError) as error:
            self._context.note(f"an exec request was dropped: {str(error) or type(error).__name__}")

    def _end(self, session: Running, connection: socket.socket) -> None:
        self._sessions.discard(session)
        connection.close()
        self._slots.release()


class Session:
    """One exec request, from its frame to its answer and, escalated, to its status.

    large: held by a large request until `stack` is left.
    """

    def __init__(
        self, context: Context, stream: socket.socket, large: Slots, stack: ExitStack
    ) -> None:
        self._context = context
        self._stream = stream
        self._large = large
        self._stack = stack
        self._is_large = False
        self._until = time.monotonic() + _REQUEST_SECONDS
        credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
        self._peer = int(_PEERCRED.unpack(credentials)[0])

    def run(self) -> Task[None]:
        """Serve the request; raises WireError or OSError when the peer misbehaves."""
        request = requests.decode_request((yield from self._frame())[0])
        with ExitStack() as stack:
            # As the caller sees them: its working directory, its /proc/self.
            view = View(self._peer, self._peer)
            stack.callback(view.close)
            workdir = _directory(view, request.workdir)
            stack.callback(os.close, workdir)
            opened = _open(view, workdir, request)
            if opened is None:
                # The kernel will tell the caller what is wrong with it, in the sandbox.
                yield from self._answer(request, Run())
                return
            stack.callback(opened.close)
            cwd = os.readlink(f"/proc/self/fd/{workdir}")
            verdict = yield from self._judge(request, opened, workdir, cwd)
            if verdict is None:
                return
            if not isinstance(verdict, Escalate):
                yield from self._answer(request, verdict)
                return
            # Once told, the wrapper holds signals back while it lends its descriptors.
            inherited = caller.inherited(self._peer)
            yield from self._answer(request, verdict)
            fds, targets = yield from self._lent()
            for fd in fds:
                stack.callback(os.close, fd)
            escalated = Escalated(
                program=opened.found,
                asked=absolute(request.file, cwd),
                argv=verdict.called(tuple(request.argv)),
                workdir=workdir,
                cwd=cwd,
                environment=request.env,
                descriptors=tuple(zip(fds, targets, strict=True)),
                inherited=inherited,
            )
            result = yield from self._run(escalated)
            if not request.extended and result.signal is not None:
                result = wire.SuperExecResult(result.exit_code)
            yield from self._send(wire.frame(wire.encode_result(result)))

    def _judge(
        self, request: wire.EscalateRequest, opened: Opened, workdir: int, cwd: str
    ) -> Task[Settled | None]:
        """The verdict; None, and nobody is asked, if a shell asks and may not simply run it."""
        pid = self._peer
        subject = self._subject(request, opened, cwd)
        decided = decide(self._context.judgement, subject)
        if request.by_shell and not isinstance(decided, Run):
            return None
        if leaves_untrusted(subject, decided):
            try:
                opened.program = sealed(opened.found)
            except OSError as error:
                decided = unfixed(subject, error)
        verdict, _ = yield from settle(
            self._context,
            subject,
            decided,
            of_own_shell=lambda shell: pid == shell.pid or shell.includes(caller.parent(pid)),
            unchanged=opened.found.unchanged,
            workdir=workdir,
        )
        if self._context.trace is not None:
            self._context.trace(pid, subject, decided, verdict)
        return verdict

    def _subject(self, request: wire.EscalateRequest, opened: Opened, cwd: str) -> ExecRequest:
        argv = tuple(request.argv)
        return exec_request(
            opened.found,
            absolute(request.file, cwd),
            argv,
            cwd,
            self._context.writable,
            executed=opened.argv_executed(request.file, argv),
            interpreters=opened.interpreters,
            linker=opened.linker,
            loaded=opened.loaded,
        )

    def _answer(self, request: wire.EscalateRequest, verdict: Settled) -> Task[None]:
        reason = verdict.reason if isinstance(verdict, Deny) else None
        response = wire.EscalateResponse(type(verdict).__name__, reason, request.extended)
        yield from self._send(wire.frame(wire.encode_response(response)))

    def _lent(self) -> Task[tuple[list[int], list[int]]]:
        """The descriptors that the wrapper lends, and their numbers in the program."""
        self._until = time.monotonic() + _REQUEST_SECONDS
        payload, fds = yield from self._frame(wire.MAX_DESCRIPTORS)
        try:
            return fds, requests.decode_descriptors(payload, len(fds))
        except BaseException:
            _close(fds)
            raise

    def _run(self, escalated: Escalated) -> Task[wire.SuperExecResult]:
        outside = yield from start_outside(self._context, escalated)
        relaying = self._context.loop.start(self._relay(outside))
        try:
            return (yield from outside.result())
        finally:
            relaying.cancel()
            outside.end()

    def _relay(self, outside: Outside) -> Task[None]:
        """Pass on the signals the stand-in relays; once it has gone, nobody awaits the program."""
        self._until = inf
        try:
            while True:
                # One that sends them without end keeps nobody else waiting.
                yield Wait(readable=self._stream.fileno())
                outside.signal(requests.decode_signal((yield from self._frame())[0]))
        except (wire.WireError, OSError):
            outside.signal(SIGKILL)

    def _frame(self, descriptors: int = 0) -> Task[tuple[bytes, list[int]]]:
        header, fds = yield from self._exactly(wire.HEADER_SIZE, descriptors)
        try:
            length = wire.payload_length(header)
            if length > _LARGE and not self._is_large:
                _in_time((yield from self._large.acquire(self._until)))
                self._is_large = True
                self._stack.callback(self._large.release)
            payload, _ = yield from self._exactly(length, 0)
        except BaseException:
            _close(fds)
            raise
        return payload, fds

    def _exactly(self, length: int, descriptors: int) -> Task[tuple[bytes, list[int]]]:
        # Made once, at its size: one that grows is copied, and leaves holes twice as large.
        data, fds, filled = bytearray(length), list[int](), 0
        try:
            while filled < length:
                size = min(length - filled, _CHUNK)
                try:
                    text, more = rights.receive(self._stream, size, descriptors - len(fds))
                except BlockingIOError:
                    _in_time((yield Wait(readable=self._stream.fileno(), until=self._until)))
                    continue
                fds += more
                if not text:
                    raise wire.WireError("the peer closed the connection within a frame")
                data[filled : filled + len(text)] = text
                filled += len(text)
        except BaseException:
            _close(fds)
            raise
        return bytes(data), fds

    def _send(self, data: bytes) -> Task[None]:
        view = memoryview(data)
        while view:
            try:
                view = view[self._stream.send(view) :]
            except BlockingIOError:
                yield Wait(writable=self._stream.fileno())


def _in_time(came: bool) -> None:
    if not came:
        raise TimeoutError("it did not come in time")


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _stream(fd: int) -> socket.socket:
    """The connection that was handed over; raises OSError, and closes it, if it is none."""
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd)
    except OSError:
        os.close(fd)
        raise


def _directory(view: View, path: str) -> int:
    fd = view.open(path, -1)
    if not S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise wire.WireError("EscalateRequest: workdir is no directory")
    return fd


def _open(view: View, workdir: int, request: wire.EscalateRequest) -> Opened | None:
    """What the exec opens; None if it cannot succeed."""
    opened = Opened(view, workdir)
    try:
        opened.find(request.file)
        variables = [f"{name}={value}" for name, value in request.env.items()]
        opened.load(request.file, tuple(request.argv), lambda: variables)
    except BaseException:
        opened.close()
        raise
    if opened.failure is None:
        return opened
    opened.close()
    return None
