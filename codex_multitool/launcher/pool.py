"""The server's side of the launchers: hires one per command, hears of its processes."""

import errno
import os
import signal
import socket
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import trio

from codex_multitool.launcher import protocol
from codex_multitool.sandbox.enforce import Confinement

_CHUNK = 1 << 16
_MAX_LAUNCHERS = 512  # 256 calls, and as many more that left something running
_MAX_IDLE = 32  # launchers kept for the next burst of calls
_KEPT = 2  # of them, how many stay when none comes
_IDLE_SECONDS = 30.0


_Rights = list[tuple[int, int, "array[int]"]]


class LauncherError(Exception):
    """A launcher is gone, or a command could not be set up or executed. errno: int, or 0."""

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


@dataclass(frozen=True, slots=True)
class Spawn:
    """One process to start.

    path: absolute; executed by name unless `program`, a descriptor of the very file, is given.
    script: `program` starts with `#!`. argv, environment: bytes as execve(2) takes them.
    workdir: directory descriptor. descriptors: pairs (ours, number in the process); 0 to 2 are
    /dev/null where not named. confinement: None runs outside any sandbox. umask, nice, limits
    ((kind, soft, hard)...), blocked and ignored signals: as the process shall find them.
    die_with_launcher: killed at once when its launcher is. listener: socket on which the process,
    put under the exec filter, hands over the listener. mounts: paths that it cannot rename or
    remove, each with whether it cannot write it either; they are in a mount namespace of its own.
    """

    path: bytes
    argv: Sequence[bytes]
    environment: dict[bytes, bytes]
    workdir: int
    descriptors: Sequence[tuple[int, int]]
    program: int | None = None
    script: bool = False
    confinement: Confinement | None = None
    umask: int = protocol.NONE
    nice: int = -20
    limits: Sequence[tuple[int, int, int]] = ()
    blocked: Sequence[int] = ()
    ignored: Sequence[int] = ()
    die_with_launcher: bool = True
    listener: int | None = None
    mounts: Sequence[tuple[bytes, bool]] = ()


@dataclass
class Process:
    """A process a launcher started: `pid` and `ended` are set when it says so."""

    number: int
    pid: int = 0
    status: int = 0
    failure: LauncherError | None = None
    forked: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)

    async def wait(self) -> int:
        """The wait status once it has ended; LauncherError if it never became the program."""
        await self.ended.wait()
        if self.failure is not None:
            raise self.failure
        return self.status


class Launcher:
    """One launcher, for one command at a time. `empty` is set while it has no process.

    pid: its own, known once it has forked.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._sending = trio.Lock()
        self._processes: dict[int, Process] = {}
        self._numbers = 0
        self._listing: trio.Event | None = None
        self._gone = trio.Event()
        self._jobs: tuple[tuple[int, str], ...] = ()
        self.empty = trio.Event()
        self.empty.set()
        self.lost: LauncherError | None = None  # why nothing more comes of it
        self.pid = 0

    async def spawn(self, spawn: Spawn) -> Process:
        """Start a process; returns once it is forked. Raises LauncherError."""
        sent = [ours for ours, _ in spawn.descriptors]

        def index(fd: int | None) -> int:
            if fd is None:
                return protocol.NONE
            sent.append(fd)
            return len(sent) - 1

        confinement = spawn.confinement
        message = {
            "path": spawn.path,
            "argv": tuple(spawn.argv),
            "environment": dict(spawn.environment),
            "targets": [target for _, target in spawn.descriptors],
            "workdir": index(spawn.workdir),
            "program": index(spawn.program),
            "script": spawn.script,
            "confinement": confinement
            and (index(confinement.ruleset), confinement.restrict_flags, confinement.filter),
            "listener": index(spawn.listener),
            "umask": spawn.umask,
            "nice": spawn.nice,
            "limits": tuple(spawn.limits),
            "blocked": tuple(map(int, spawn.blocked)),
            "ignored": tuple(map(int, spawn.ignored)),
            "die_with_launcher": spawn.die_with_launcher,
            "mounts": tuple(spawn.mounts),
        }
        if len(sent) > protocol.MAX_DESCRIPTORS:
            text = f"{len(sent)} descriptors, of which {protocol.MAX_DESCRIPTORS} can be handed on"
            raise LauncherError(text, errno.E2BIG)
        self._numbers += 1
        process = self._processes[self._numbers] = Process(self._numbers)
        if first := self.empty.is_set():
            self.empty = trio.Event()  # else somebody may wait for the one there is
        try:
            await self._send((protocol.SPAWN, process.number, message), sent)
        except LauncherError:
            self._processes.pop(process.number, None)
            if first:
                self.empty.set()
            raise
        await process.forked.wait()
        if process.failure is not None and process.pid == 0:
            raise process.failure
        return process

    async def signal(self, process: Process, signum: int) -> None:
        """Send a signal to the process group that `process` leads."""
        await self._send((protocol.SIGNAL, process.number, int(signum)))

    async def kill(self, signum: int) -> None:
        """Signal every process of the command; SIGKILL goes on until none is left."""
        await self._send((protocol.KILL, int(signum)))

    async def end(self, grace: float) -> None:
        """End every process of the command: SIGTERM, `grace` seconds, SIGKILL. Waits for it."""
        if not self.empty.is_set() and grace > 0:
            await self.kill(signal.SIGTERM)
            with trio.move_on_after(grace):
                await self.empty.wait()
        if not self.empty.is_set():
            await self.kill(signal.SIGKILL)
            await self.empty.wait()

    async def jobs(self) -> tuple[tuple[int, str], ...]:
        """The processes of the command that live: (pid, command line), at most a few dozen."""
        listing = self._listing
        if listing is None:
            listing = self._listing = trio.Event()
            await self._send((protocol.JOBS,))
        await listing.wait()  # the answer may have come while we sent
        return self._jobs

    async def listen(self) -> None:
        """Take in what the launcher tells, until it is gone."""
        decoder = protocol.Decoder()
        try:
            while True:
                # Not trio's socket: it goes round the event loop once more for every message.
                await trio.lowlevel.wait_readable(self._socket)
                try:
                    data = self._socket.recv(_CHUNK)
                except BlockingIOError:
                    continue
                if not data:
                    break
                for message in decoder.feed(data):
                    self._hear(message)
        except (OSError, trio.ClosedResourceError):
            pass  # killed, or let go
        finally:
            self._lose()
            self.close()

    def close(self) -> None:
        """Let the launcher go; it ends whatever it still runs."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def _send(self, message: protocol.Message, descriptors: Sequence[int] = ()) -> None:
        if self.lost is not None:
            raise self.lost
        view = memoryview(protocol.encode(message))
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        )
        try:
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            sent = self._sent(view, rights)
            if sent < len(view):
                await self._send_rest(view, rights, sent)
        except trio.ClosedResourceError:
            raise LauncherError("the launcher was let go") from None
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                text = f"{protocol.NO_PROCESS}: {error.strerror}"
                raise LauncherError(text, error.errno or 0) from None
            await self._gone.wait()  # for its last words: why it is not there
            assert self.lost is not None, "what has gone is lost"
            raise self.lost from None
        finally:
            self._sending.release()

    async def _send_rest(self, view: memoryview, rights: _Rights, sent: int) -> None:
        # A frame half sent would garble all that follow: once begun it is sent whole.
        with trio.CancelScope(shield=True):
            while sent < len(view):
                await trio.lowlevel.wait_writable(self._socket)
                sent += self._sent(view[sent:], [] if sent else rights)

    def _sent(self, view: memoryview, rights: _Rights) -> int:
        """Bytes taken by the socket now, the descriptors with the first."""
        try:
            return self._socket.sendmsg([view], rights)
        except BlockingIOError:
            return 0

    def _hear(self, message: Any) -> None:
        match message:
            case (protocol.FORKED, number, pid, own):
                self.pid = own
                process = self._processes[number]
                process.pid = pid
                process.forked.set()
            case (protocol.FAILED, number, step, code, text):
                reason = os.strerror(code) if code else text
                self._processes[number].failure = LauncherError(f"{step}: {reason}", code)
            case (protocol.EXITED, number, status):
                process = self._processes.pop(number)
                process.status = status
                process.forked.set()  # which it never was if none could be
                process.ended.set()
            case (protocol.EMPTY,):
                if not self._processes:
                    self.empty.set()
            case (protocol.REFUSED, code):
                reason = f"{protocol.NO_PROCESS}: {os.strerror(code)}"
                self.lost = LauncherError(reason, code)
            case (protocol.LIST, jobs):
                self._jobs = jobs
                self._listed()
            case _:
                raise AssertionError(f"a launcher sent {message!r}")

    def _listed(self) -> None:
        if self._listing is not None:
            self._listing.set()
            self._listing = None

    def _lose(self) -> None:
        self.lost = self.lost or LauncherError("the launcher was killed")
        for process in self._processes.values():
            process.failure = self.lost
            process.status = signal.SIGKILL
            process.forked.set()
            process.ended.set()
        self._processes.clear()
        self._gone.set()
        self.empty.set()
        self._listed()


def _unheard(error: OSError) -> str:
    """Why the zygote cannot be asked. A new one must be forked before any thread is started."""
    if error.errno in (errno.EPIPE, errno.ECONNRESET):
        return "the process that starts commands has ended; start the server anew"
    return f"{protocol.NO_PROCESS}: {error.strerror}"


class Pool:
    """Hires launchers from the zygote and keeps a few warm; the others end when long idle."""

    def __init__(
        self, zygote: socket.socket, nursery: trio.Nursery, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._zygote = zygote
        self._nursery = nursery
        self._idle: list[Launcher] = []
        self._hired = 0
        nursery.start_soon(self._shrink, idle_seconds)

    def hire(self) -> Launcher:
        """A launcher with no process. Raises LauncherError."""
        while self._idle:
            launcher = self._idle.pop()
            if launcher.lost is None:
                return launcher
        if self._hired >= _MAX_LAUNCHERS:
            raise LauncherError(
                f"{_MAX_LAUNCHERS} commands have processes that run: those left in the background "
                "end with the server"
            )
        with ExitStack() as stack:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            stack.callback(theirs.close)
            try:
                socket.send_fds(self._zygote, [protocol.GROW], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise LauncherError(_unheard(error), error.errno or 0) from None
        launcher = Launcher(ours)
        self._hired += 1
        self._nursery.start_soon(self._listen, launcher)
        return launcher

    async def _listen(self, launcher: Launcher) -> None:
        try:
            await launcher.listen()
        finally:
            self._hired -= 1

    def dismiss(self, launcher: Launcher) -> None:
        """Take back a launcher whose command has ended; one with processes left ends them."""
        if launcher.empty.is_set() and launcher.lost is None and len(self._idle) < _MAX_IDLE:
            self._idle.append(launcher)
        else:
            launcher.close()

    async def _shrink(self, idle_seconds: float) -> None:
        """Let go of launchers that no call has used for a while; the last one dismissed is last."""
        while True:
            used = set(self._idle)
            await trio.sleep(idle_seconds)
            for launcher in [found for found in self._idle[:-_KEPT] if found in used]:
                self._idle.remove(launcher)
                launcher.close()
