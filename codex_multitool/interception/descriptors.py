"""LEAF: the descriptors a caller's program would inherit, taken over by us.

pidfd_getfd(2) gives the very same open files, sockets included, where ptrace would be allowed and
no outer seccomp filter (Docker's default profile) refuses it. Elsewhere a stand-in hands them over
itself, or files, pipes and terminals are opened anew: with an offset of their own, and no sockets.
"""

import os
import socket
from collections.abc import Callable
from errno import E2BIG, EBADF, EPERM
from stat import S_ISCHR, S_ISFIFO, S_ISREG
from typing import NamedTuple

from codex_multitool.interception import rights
from codex_multitool.interception.kernel import KernelError, pidfd_getfd, pidfd_open

_PIDFD_THREAD = os.O_EXCL  # Linux 6.9
_MOST = 1024
_HIGHEST = 1 << 16
_ONE_MESSAGE = 16  # "NUMBER\n"
_MOST_AT_ONCE = 4  # one would do: more is refused
_NULL = os.makedev(1, 3)  # /dev/null: Documentation/admin-guide/devices.txt
_TO_TERMINAL = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KEPT = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DSYNC | os.O_DIRECT


class Taken(NamedTuple):
    """pairs: (our descriptor, close-on-exec; its number there). missing: numbers not to be had."""

    pairs: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]

    def close(self) -> None:
        """Close ours."""
        for ours, _ in self.pairs:
            os.close(ours)


def inheritable(tid: int) -> dict[int, int]:
    """The descriptors of the thread that are not close-on-exec, with their open(2) flags.

    Raises OSError if the thread has gone or may not be looked at.
    """
    found = {}
    for name in sorted(map(int, os.listdir(f"/proc/{tid}/fd")))[:_MOST]:
        try:
            flags = _information(tid, name)[0]
        except FileNotFoundError:
            continue  # closed by another thread
        if not flags & os.O_CLOEXEC:
            found[name] = flags
    return found


def available(tid: int) -> bool:
    """Whether pidfd_getfd works on this thread; if not, let its stand-in hand over."""
    taken = take(tid, {0: 0}, reopen=False)
    taken.close()
    return not taken.missing


def take(tid: int, numbers: dict[int, int], *, reopen: bool) -> Taken:
    """Take the descriptors `numbers` (see `inheritable`) of a blocked thread.

    reopen: open anew what pidfd_getfd refuses.
    """
    pairs, missing = [], []
    pidfd = _pidfd(tid)
    try:
        for number, flags in numbers.items():
            ours = _same(pidfd, number)
            if ours is None and reopen:
                ours = _anew(tid, number, flags)
            if ours is None:
                missing.append(number)
            else:
                pairs.append((ours, number))
    finally:
        if pidfd is not None:
            os.close(pidfd)
    return Taken(tuple(pairs), tuple(missing))


def say(tid: int, number: int, text: bytes, *, valid: Callable[[], bool]) -> int:
    """Write `text` to descriptor `number` of a blocked thread; how much of it is done with.

    That is what a pipe takes at once; all of it where nobody would hear it: the descriptor is
    closed, or /dev/null. Nothing else is written to: a socket tells its peer who wrote, some files
    act by the rights of who writes, a terminal may hold us up. valid: whether the thread is still
    the blocked one, asked once its process is pinned.
    """
    pidfd = _pidfd(tid)
    if pidfd is None:
        return 0
    try:
        if not valid():
            return 0
        ours = pidfd_getfd(pidfd, number)
    except KernelError as error:
        return len(text) if error.errno == EBADF else 0
    finally:
        os.close(pidfd)
    try:
        return _taken_at_once(ours, text)
    finally:
        os.close(ours)


def tell(ours: int, text: bytes) -> bool:
    """Write `text` to a caller's descriptor as far as nobody is held up; whether all is done with.

    Files take it as they do; a terminal or a pipe that takes no more has not heard the rest.
    """
    try:
        kind = os.fstat(ours).st_mode
        if S_ISREG(kind):
            return os.write(ours, text) == len(text)
        if os.isatty(ours):
            # Of its own, for O_NONBLOCK is everybody's who has the open file: open(2).
            terminal = os.open(f"/proc/self/fd/{ours}", _TO_TERMINAL)
            try:
                return os.write(terminal, text) == len(text)
            finally:
                os.close(terminal)
    except OSError:
        return False
    return _taken_at_once(ours, text) == len(text)


def _taken_at_once(ours: int, text: bytes) -> int:
    """How much of `text` a pipe takes without waiting; all, where it is /dev/null."""
    try:
        status = os.fstat(ours)
        if S_ISCHR(status.st_mode) and status.st_rdev == _NULL:
            return len(text)
        if not S_ISFIFO(status.st_mode):
            return 0
        # Never blocks, whatever the flags of the open file, which its owners share: Linux 6.4.
        return os.pwritev(ours, [text], -1, os.RWF_NOWAIT)
    except OSError:
        return 0  # full, without a reader, not open for writing, or an older kernel


class Handing:
    """Descriptors as a stand-in hands them over, each with its number. It is not trusted.

    pairs: (our descriptor, close-on-exec; its number there), as far as they have come.
    """

    def __init__(self) -> None:
        self._found: dict[int, int] = {}
        self._text = b""
        self._fds: list[int] = []

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """See the class."""
        return tuple((ours, number) for number, ours in self._found.items())

    def close(self) -> None:
        """Close ours."""
        for fd in (*self._fds, *self._found.values()):
            os.close(fd)
        self._fds, self._found = [], {}

    def receive(self, channel: socket.socket) -> bool:
        """Take in what is there; False: no more comes. The channel must not block.

        Raises OSError: EPERM for anything but one number with each descriptor, E2BIG for too many,
        EMSGSIZE for too many at once.
        """
        try:
            while True:
                text, fds = rights.receive(channel, 1, _MOST_AT_ONCE)
                self._fds += fds
                self._text += text
                if not text or text == b"\n" or len(self._text) >= _ONE_MESSAGE:
                    if not text and not self._text and not self._fds:
                        return False
                    self._take()
        except BlockingIOError:
            return True

    def _take(self) -> None:
        number = self._text[:-1]
        if not (self._text.endswith(b"\n") and number.isdigit() and int(number) < _HIGHEST):
            raise OSError(EPERM, "not a descriptor's number")
        if len(self._fds) != 1 or int(number) in self._found:
            raise OSError(EPERM, "not a descriptor with its number")
        if len(self._found) == _MOST:
            raise OSError(E2BIG, "too many descriptors")
        self._found[int(number)] = self._fds.pop()
        self._text = b""


def _pidfd(tid: int) -> int | None:
    for flags in (0, _PIDFD_THREAD):
        try:
            return pidfd_open(tid, flags)
        except KernelError:
            continue  # a thread that is not a leader, on an older kernel; or no pidfd at all
    return None


def _same(pidfd: int | None, number: int) -> int | None:
    if pidfd is None:
        return None
    try:
        return pidfd_getfd(pidfd, number)
    except KernelError:
        return None


def _anew(tid: int, number: int, flags: int) -> int | None:
    """Not blocking: a pipe without its other end, a leased file would; fifo(7), fcntl(2)."""
    wanted = flags & _KEPT
    try:
        position = _information(tid, number)[1]
        fd = os.open(
            f"/proc/{tid}/fd/{number}", wanted | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        )
    except OSError:
        return None
    os.set_blocking(fd, not wanted & os.O_NONBLOCK)
    try:
        os.lseek(fd, position, os.SEEK_SET)
    except OSError:
        pass  # no position: a pipe, a terminal
    return fd


def _information(tid: int, number: int) -> tuple[int, int]:
    """Flags and position, proc_pid_fdinfo(5)."""
    fd = os.open(f"/proc/{tid}/fdinfo/{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        words = os.read(fd, 4096).split(None, 4)  # they come first, whatever else there is
    finally:
        os.close(fd)
    fields = dict(zip(words[:4:2], words[1:4:2], strict=True))
    return int(fields[b"flags:"], 8), int(fields[b"pos:"])
