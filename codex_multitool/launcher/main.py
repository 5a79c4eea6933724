"""A warm, single-threaded process that forks confined commands and reaps their trees.

The zygote is forked from the server before that starts any thread or imports anything large. For
each socket the server hands it, it forks a launcher. A launcher runs one command at a time: the
shell and the programs that left its sandbox. Both are child subreapers (prctl(2)), so whatever a
command leaves behind, by setsid or double forks, ends up below its launcher and can be found.
When the server goes, its sockets close, and every process below ends.
"""

import gc
import marshal
import os
import select
import signal
import socket
import time
from array import array
from collections.abc import Callable
from typing import Any

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

from codex_multitool.launcher import child, protocol, tree
from codex_multitool.launcher.hardening import Limits
from codex_multitool.sandbox import kernel

_CHUNK = 1 << 16
_KILL_ROUND_MS = 2  # between two rounds of killing: time for exits to be reaped
_FAREWELL_SECONDS = 5.0  # how long launchers get to end their trees when the server has gone
_MAX_JOBS = 32  # of a command's background processes, how many are named


def start_zygote(started_with: Limits = ()) -> socket.socket:
    """Fork the zygote; returns the socket on which it is asked for launchers.

    To be called before any thread is started. The zygote ends when the socket is closed.
    started_with: limits that are others in this process, and given back to what is executed.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        # A collector that looks at what forks share makes copies of it.
        gc.freeze()
        gc.disable()
        kernel.load()
        ours.close()
        _let_go(theirs.fileno())
        _run_service("codex-zygote", Zygote(theirs, started_with).serve)
    theirs.close()
    return ours


def _run_service(name: str, serve: Callable[[], None]) -> None:
    status = 1
    try:
        _prctl.prctl(_prctl.PR_SET_NAME, name)
        _prctl.prctl(_prctl.PR_SET_CHILD_SUBREAPER, 1)
        # What the terminal or the user sends to the group is for the server to act on:
        # it ends us by closing its sockets. Handled, not ignored: what a process ignores, a
        # wrapper whose parent it is would take for the shell's wish.
        for number in (
            signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE,
            signal.SIGXFSZ,
        ):  # fmt: skip
            signal.signal(number, lambda *_: None)
        serve()
        status = 0
    finally:
        os._exit(status)


def _let_go(kept: int) -> None:
    """Drop the server's streams, and whatever its starter may have left it: no command's business.

    A client that waits for the end of the output must not wait for the last launcher, too.
    """
    _close_all_but(kept)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)


def _close_all_but(kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, kept):
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself


def wakeup_on_child() -> int:
    """SIGCHLD as a readable descriptor, for poll(2)."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Whoever started the server may have blocked it, and execve(2) keeps that: timeout(1), say.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    return reader


def reap() -> tuple[list[tuple[int, int]], bool]:
    """The children that have ended as (pid, wait status), and whether none at all is left."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        ended.append((pid, status))


def _receive(connection: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Bytes and descriptors. socket.recv_fds() has no way to make them close-on-exec at once."""
    room = socket.CMSG_SPACE(most * array("i").itemsize)
    data, ancillary, _, _ = connection.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    fds = array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return data, fds.tolist()


class Zygote:
    """Forks launchers, and ends what one that was killed leaves behind."""

    def __init__(self, control: socket.socket, started_with: Limits) -> None:
        self._control = control
        self._started_with = started_with
        self._launchers: set[int] = set()

    def serve(self) -> None:
        """Serve until the server has gone, and then until nothing is left."""
        wakeup = wakeup_on_child()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        open_for_business = True
        while open_for_business:
            ready = {fd for fd, _ in poll.poll()}
            if wakeup in ready:
                os.read(wakeup, _CHUNK)
                self._bury()
            if self._control.fileno() in ready:
                open_for_business = self._grow()
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while self._launchers and time.monotonic() < deadline:
            time.sleep(_KILL_ROUND_MS / 1000)
            self._bury()
        self._launchers.clear()
        self._end_orphans()

    def _grow(self) -> bool:
        data, fds = _receive(self._control, 1, 1)
        for fd in fds:
            try:
                pid = os.fork()
            except OSError as error:
                _refuse(fd, error)
                continue
            if pid == 0:
                self._control.close()
                _close_all_but(fd)
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd)
                launcher = Launcher(connection, self._started_with)
                _run_service("codex-launcher", launcher.serve)
            self._launchers.add(pid)
            os.close(fd)
        return bool(data)

    def _bury(self) -> None:
        dead = {pid for pid, _ in reap()[0]} & self._launchers
        self._launchers -= dead
        if dead:
            self._end_orphans()

    def _end_orphans(self) -> None:
        while self._kill_orphans():
            time.sleep(_KILL_ROUND_MS / 1000)
            ended, none_left = reap()
            self._launchers -= {pid for pid, _ in ended}
            if none_left:
                return  # a subreaper's orphans are its children: prctl(2)

    def _kill_orphans(self) -> bool:
        """Whether there were any, as far as can be seen."""
        try:
            orphans = tree.descendants(os.getpid(), apart_from=self._launchers)
        except OSError:
            return True
        tree.signal_all(orphans, signal.SIGKILL)
        return bool(orphans)


def _refuse(fd: int, error: OSError) -> None:
    """Tell the server that there will be no launcher at the other end of `fd`, and close it."""
    refusal = protocol.encode((protocol.REFUSED, error.errno))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd) as connection:
        try:
            connection.send(refusal, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the server has let go of it


class Launcher:
    """Runs one command at a time for the server at the other end of `connection`."""

    def __init__(self, connection: socket.socket, started_with: Limits) -> None:
        self._connection = connection
        self._started_with = started_with
        self._decoder = protocol.Decoder()
        self._descriptors: list[list[int]] = []
        self._numbers: dict[int, int] = {}  # pid -> the server's number for it
        self._reports: dict[int, int] = {}  # pid -> pipe on which its set-up may fail
        self._busy = False
        self._killing = False

    def serve(self) -> None:
        """Serve until the server has gone, and then until nothing is left."""
        wakeup = wakeup_on_child()
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        connected = True
        while connected or self._busy:
            ready = {fd for fd, _ in poll.poll(_KILL_ROUND_MS if self._killing else None)}
            if wakeup in ready:
                os.read(wakeup, _CHUNK)
            if connected and self._connection.fileno() in ready:
                connected = self._receive()
                if not connected:
                    poll.unregister(self._connection)
                    self._killing = self._busy
            if self._busy:
                self._bury()
            if self._killing:
                self._kill(signal.SIGKILL)

    def _receive(self) -> bool:
        try:
            data, fds = _receive(self._connection, _CHUNK, protocol.MAX_DESCRIPTORS)
        except ConnectionResetError:
            return False
        if fds:
            self._descriptors.append(fds)
        for message in self._decoder.feed(data):
            self._obey(message)
        return bool(data)

    def _tell(self, *messages: protocol.Message) -> None:
        try:
            self._connection.sendall(b"".join(map(protocol.encode, messages)))
        except OSError:
            pass  # the server has gone; the main loop sees that too

    def _obey(self, message: Any) -> None:
        match message:
            case (protocol.SPAWN, number, spec):
                self._spawn(number, spec, self._descriptors.pop(0))
            case (protocol.SIGNAL, number, signum):
                self._signal_group(number, signum)
            case (protocol.KILL, signum):
                self._killing = self._busy and signum == signal.SIGKILL
                self._kill(signum)
                if not self._busy:
                    self._tell((protocol.EMPTY,))
            case (protocol.JOBS,):
                pids = _below_us()[:_MAX_JOBS]
                jobs = tuple((pid, tree.command_line(pid)) for pid in pids)
                self._tell((protocol.LIST, jobs))
            case _:
                raise AssertionError(f"the server sent {message!r}")

    def _spawn(self, number: int, spec: dict[str, Any], received: list[int]) -> None:
        ours = list(received)
        try:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            ours += (reader, writer)
            pid = os.fork()
        except OSError as error:
            self._not_started(number, error)
        else:
            if pid == 0:
                child.run(spec, received, writer, self._started_with)
            ours.remove(reader)
            self._busy = True
            self._numbers[pid] = number
            self._reports[pid] = reader
            self._tell((protocol.FORKED, number, pid, os.getpid()))
        for fd in ours:
            os.close(fd)

    def _not_started(self, number: int, error: OSError) -> None:
        failure = (protocol.FAILED, number, protocol.NO_PROCESS, error.errno, "")
        self._tell(failure, (protocol.EXITED, number, child.FAILED_STATUS << 8))
        if not self._busy:
            self._tell((protocol.EMPTY,))

    def _signal_group(self, number: int, signum: int) -> None:
        for pid, known in self._numbers.items():
            if known == number:
                try:
                    os.killpg(pid, signum)
                except (ProcessLookupError, PermissionError):
                    pass  # it has just ended, or is a setuid program that is not ours to signal

    def _kill(self, signum: int) -> None:
        pids = _below_us()
        tree.signal_all(pids, signum)
        if signum != signal.SIGKILL:
            tree.signal_all(pids, signal.SIGCONT)  # a stopped process acts on nothing else

    def _bury(self) -> None:
        ended, none_left = reap()
        news: list[protocol.Message] = []
        for pid, status in ended:
            number = self._numbers.pop(pid, None)
            if number is None:
                continue  # adopted: a background job of the command
            failure = _read_report(self._reports.pop(pid))
            if failure:
                news.append((protocol.FAILED, number, *marshal.loads(failure)))
            news.append((protocol.EXITED, number, status))
        if none_left:
            self._busy = self._killing = False
            news.append((protocol.EMPTY,))
        if news:
            self._tell(*news)


def _below_us() -> list[int]:
    """All that can be seen now; killing goes on until nobody is left to be waited for."""
    try:
        return tree.descendants(os.getpid())
    except OSError:
        return []  # no descriptor to be had: proc(5) cannot be listed


def _read_report(reader: int) -> bytes:
    """What a process that has ended told of its set-up: one write, or nothing."""
    try:
        return os.read(reader, _CHUNK)
    finally:
        os.close(reader)
