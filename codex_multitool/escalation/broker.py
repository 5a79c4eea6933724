"""One command's exec requests in wrapper mode: receive, decide, ask, answer, run outside.

Whoever holds the command's datagram socket may speak, so every word is an enemy's: frames are
bounded, each message is taken only when it is due, and what runs is what was opened and judged.
A connection that breaks a rule is closed, and a closed connection means that nothing runs.
"""

import logging
import os
import select
import socket
import struct
from contextlib import ExitStack
from stat import S_ISDIR

import trio

from codex_multitool.escalation import caller, requests, wire
from codex_multitool.escalation.child import Escalated, run_outside
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
from codex_multitool.interception.resolve import View
from codex_multitool.interception.sealed import sealed
from codex_multitool.interception.tracee import Opened

log = logging.getLogger(__name__)

_MAX_SESSIONS = 64  # judged at a time; more wait in the socket's queue
_REQUEST_SECONDS = 30.0  # for a whole request to arrive; the wrapper sends it at once
# Bytes; of requests above it few are dealt with at a time, or they would eat up the memory.
_LARGE = 1 << 18
_MAX_LARGE = 2
_CHUNK = 1 << 16
_PEERCRED = struct.Struct("iII")  # struct ucred, unix(7)


class Broker:
    """Answers the wrappers of one command, on the server's end of its datagram socket."""

    def __init__(self, context: Context, datagrams: socket.socket) -> None:
        self._context = context
        self._datagrams = trio.socket.from_stdlib_socket(datagrams)
        self._slots = trio.Semaphore(_MAX_SESSIONS)
        self._large = trio.Semaphore(_MAX_LARGE)

    def close(self) -> None:
        """Close the socket; to be called when `serve` has ended."""
        self._datagrams.close()

    async def serve(self) -> None:
        """Answer until nobody can ask any more, or until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._slots.acquire()
                try:
                    stream = await self._handshake()
                except EOFError:
                    self._slots.release()
                    return
                if stream is None:
                    self._slots.release()
                else:
                    nursery.start_soon(self._session, stream)

    async def _handshake(self) -> socket.socket | None:
        data, ancillary, _, _ = await self._datagrams.recvmsg(
            len(wire.HANDSHAKE), socket.CMSG_SPACE(4 * wire.MAX_DESCRIPTORS)
        )
        fds = received_descriptors(ancillary)
        if not data and not fds and self._hung_up():
            raise EOFError
        if len(fds) == 1:
            try:
                return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fds[0])
            except OSError as error:
                log.warning("the handshake carried no socket: %s", error)
        else:
            log.warning("expected 1 fd in datagram handshake, got %d", len(fds))
        for fd in fds:
            os.close(fd)
        return None

    def _hung_up(self) -> bool:
        # An empty message of a live peer looks the same to recvmsg.
        poll = select.poll()
        poll.register(self._datagrams.fileno(), 0)
        return any(found & select.POLLHUP for _, found in poll.poll(0))

    async def _session(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            with trio.socket.from_stdlib_socket(connection) as stream, ExitStack() as stack:
                await Session(self._context, stream, self._large, stack).run()
        except (wire.WireError, OSError, trio.TooSlowError) as error:
            log.warning("an exec request was dropped: %s", str(error) or type(error).__name__)
        finally:
            self._slots.release()


class Session:
    """One exec request, from its frame to its answer and, escalated, to its status.

    large: held by a large request until `stack` is left.
    """

    def __init__(
        self,
        context: Context,
        stream: trio.socket.SocketType,
        large: trio.Semaphore,
        stack: ExitStack,
    ) -> None:
        self._context = context
        self._stream = stream
        self._large = large
        self._stack = stack
        self._is_large = False

    async def run(self) -> None:
        """Serve the request; raises WireError, OSError or TooSlowError when the peer misbehaves."""
        with trio.fail_after(_REQUEST_SECONDS):
            request = requests.decode_request((await self._frame())[0])
        with ExitStack() as stack:
            # As the caller sees them: its working directory, its /proc/self.
            view = View(self._peer(), self._peer())
            stack.callback(view.close)
            workdir = _directory(view, request.workdir)
            stack.callback(os.close, workdir)
            opened = _open(view, workdir, request)
            if opened is None:
                # The kernel will tell the caller what is wrong with it, in the sandbox.
                await self._answer(request, Run())
                return
            stack.callback(opened.close)
            verdict = await self._judge(request, opened, os.readlink(f"/proc/self/fd/{workdir}"))
            if verdict is None:
                return
            if not isinstance(verdict, Escalate):
                await self._answer(request, verdict)
                return
            # Once told, the wrapper holds signals back while it lends its descriptors.
            inherited = caller.inherited(self._peer())
            await self._answer(request, verdict)
            request.argv = list(verdict.called(tuple(request.argv)))
            await self._escalate(request, opened, workdir, inherited, stack)

    async def _judge(
        self, request: wire.EscalateRequest, opened: Opened, cwd: str
    ) -> Settled | None:
        """The verdict; None, and nobody is asked, if a shell asks and may not simply run it."""
        pid = self._peer()
        subject = self._subject(request, opened, cwd)
        decided = decide(self._context.judgement, subject)
        if request.by_shell and not isinstance(decided, Run):
            return None
        if leaves_untrusted(subject, decided):
            try:
                opened.program = sealed(opened.found)
            except OSError as error:
                decided = unfixed(subject, error)
        verdict = await settle(
            self._context,
            subject,
            decided,
            of_own_shell=lambda shell: pid == shell.pid or shell.includes(caller.parent(pid)),
            unchanged=opened.found.unchanged,
        )
        if self._context.trace is not None:
            self._context.trace(pid, subject, decided, verdict)
        return verdict

    def _peer(self) -> int:
        credentials = self._stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
        return int(_PEERCRED.unpack(credentials)[0])

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
            loaded=opened.loaded,
        )

    async def _answer(self, request: wire.EscalateRequest, verdict: Settled) -> None:
        reason = verdict.reason if isinstance(verdict, Deny) else None
        response = wire.EscalateResponse(type(verdict).__name__, reason, request.extended)
        await self._send(wire.frame(wire.encode_response(response)))

    async def _escalate(
        self,
        request: wire.EscalateRequest,
        opened: Opened,
        workdir: int,
        inherited: caller.Inherited,
        stack: ExitStack,
    ) -> None:
        with trio.fail_after(_REQUEST_SECONDS):
            payload, fds = await self._frame(wire.MAX_DESCRIPTORS)
        for fd in fds:
            stack.callback(os.close, fd)
        targets = requests.decode_descriptors(payload, len(fds))
        escalated = Escalated(
            program=opened.found,
            asked=absolute(request.file, os.readlink(f"/proc/self/fd/{workdir}")),
            argv=tuple(request.argv),
            workdir=workdir,
            environment=request.env,
            descriptors=tuple(zip(fds, targets, strict=True)),
            inherited=inherited,
        )
        result = await run_outside(self._context, escalated, self._signals)
        if not request.extended and result.signal is not None:
            result = wire.SuperExecResult(result.exit_code)
        await self._send(wire.frame(wire.encode_result(result)))

    async def _signals(self) -> int | None:
        """The next signal the stand-in relays; None once it has gone."""
        try:
            return requests.decode_signal((await self._frame())[0])
        except (wire.WireError, OSError):
            return None

    async def _frame(self, descriptors: int = 0) -> tuple[bytes, list[int]]:
        header, fds = await self._exactly(wire.HEADER_SIZE, descriptors)
        try:
            length = wire.payload_length(header)
            if length > _LARGE and not self._is_large:
                await self._large.acquire()
                self._is_large = True
                self._stack.callback(self._large.release)
            payload, _ = await self._exactly(length, 0)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return payload, fds

    async def _exactly(self, length: int, descriptors: int) -> tuple[bytes, list[int]]:
        space = socket.CMSG_SPACE(4 * descriptors) if descriptors else 0
        # Made once, at its size: one that grows is copied, and leaves holes twice as large.
        data, fds, filled = bytearray(length), list[int](), 0
        try:
            while filled < length:
                free = memoryview(data)[filled : filled + _CHUNK]
                count, ancillary, flags, _ = await self._stream.recvmsg_into(
                    [free], space, socket.MSG_CMSG_CLOEXEC
                )
                fds += received_descriptors(ancillary)
                if flags & socket.MSG_CTRUNC and descriptors:
                    raise wire.WireError(f"more than {descriptors} fds in one message")
                if not count:
                    raise wire.WireError("the peer closed the connection within a frame")
                filled += count
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return bytes(data), fds

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[await self._stream.send(view) :]


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


def received_descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors in the control messages of one recvmsg, made close-on-exec: unix(7)."""
    fds = [
        fd
        for level, kind, data in ancillary
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
        for (fd,) in struct.iter_unpack("i", data[: len(data) // 4 * 4])
    ]
    for fd in fds:
        os.set_inheritable(fd, False)
    return fds
