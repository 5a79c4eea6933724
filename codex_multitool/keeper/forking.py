"""Forks keepers, and ends what one that was killed leaves behind."""

import os
import select
import signal
import socket
import time

from codex_multitool.interception.rights import receive
from codex_multitool.keeper import frames, keeper, protocol
from codex_multitool.keeper.quiet import heard, never
from codex_multitool.keeper.zygote import close_all_but, run_service
from codex_multitool.launcher import tree
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.spawn import NO_PROCESS

_CHUNK = 1 << 16
_MOST_DESCRIPTORS = 16  # of as many requests, in one look
_KILL_ROUND_SECONDS = 0.002  # between two rounds of killing: time for exits to be reaped
_FAREWELL_SECONDS = 5.0  # how long keepers get to end their trees when the front has gone


def _wakeup_on_child() -> int:
    """SIGCHLD as a readable descriptor, for poll(2)."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Whoever started the front may have blocked it, and execve(2) keeps that: timeout(1), say.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    return reader


def _reaped() -> tuple[set[int], bool]:
    """The children that have ended, and whether none at all is left."""
    ended: set[int] = set()
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        ended.add(pid)


class Zygote:
    """Takes its front's wishes from `control`."""

    def __init__(self, control: socket.socket, started_with: Limits) -> None:
        self._control = control
        self._started_with = started_with
        self._decoder = frames.Decoder()
        self._sockets: list[int] = []
        self._begin: protocol.Begin | None = None
        self._quiet = never
        self._keepers: set[int] = set()
        self._own = tree.Children(os.getpid())

    def serve(self) -> None:
        """Serve until the front has gone, and then until nothing is left."""
        wakeup = _wakeup_on_child()
        self._bury()  # the trial may have ended before anybody was told
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
                open_for_business = self._hear()
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while self._keepers and time.monotonic() < deadline:
            time.sleep(_KILL_ROUND_SECONDS)
            self._bury()
        self._keepers.clear()
        self._end_orphans()

    def _hear(self) -> bool:
        """Whether the front is still there."""
        try:
            data, fds = receive(self._control, _CHUNK, _MOST_DESCRIPTORS)
        except ConnectionResetError:
            return False
        self._sockets += fds
        for message in self._decoder.feed(data):
            match message:
                case protocol.Begin():
                    self._begin = message
                    self._quiet = heard(self._sockets.pop(0)) if message.quiet else never
                case protocol.Grow():
                    self._grow(self._sockets.pop(0), self._begin)
                case _:
                    raise AssertionError(f"the front sent {message!r}")
        return bool(data)

    def _grow(self, fd: int, begin: protocol.Begin | None) -> None:
        assert begin is not None, "a front begins first"
        try:
            pid = os.fork()
        except OSError as error:
            _refuse(fd, error)
            return
        if pid == 0:
            self._control.close()
            close_all_but(fd)
            front = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd)
            found = keeper.Keeper(front, begin.settings, self._started_with, self._quiet)
            run_service("codex-keeper", found.serve)
        self._keepers.add(pid)
        os.close(fd)

    def _bury(self) -> None:
        dead = _reaped()[0] & self._keepers
        self._keepers -= dead
        if dead:
            self._end_orphans()

    def _end_orphans(self) -> None:
        while self._kill_orphans():
            time.sleep(_KILL_ROUND_SECONDS)
            ended, none_left = _reaped()
            self._keepers -= ended
            if none_left:
                return  # a subreaper's orphans are its children: prctl(2)

    def _kill_orphans(self) -> bool:
        """Whether there were any. What one leaves behind is our child next."""
        try:
            orphans = {*self._own.pids()} - self._keepers
        except OSError:
            return True  # no memory, or no descriptor
        tree.signal_all(orphans, signal.SIGKILL)
        return bool(orphans)


def _refuse(fd: int, error: OSError) -> None:
    """Tell the front that there will be no keeper at the other end of `fd`, and close it."""
    text = f"{NO_PROCESS}: {error.strerror}"
    refusal = frames.encode(protocol.Refused(text, error.errno or 0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd) as connection:
        try:
            connection.send(refusal, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the front has let go of it
