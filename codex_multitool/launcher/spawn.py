"""What a program outside any sandbox is started with, and what is known of it then."""

import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from codex_multitool.loop import Event

AS_OURS = -1  # in place of a umask


NO_PROCESS = "no process can be started"  # what fork(2) and all it takes is called to people
_SETTING_UP = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class NotStartedError(Exception):
    """A program could not be set up or executed; the text says at which step. errno: int, or 0."""

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


def not_started(number: int, name: str = "") -> NotStartedError:
    """What a failed fork(2), or execve(2), is told as. name: the file that it is about."""
    step = NO_PROCESS if number in _SETTING_UP else "execve"
    return NotStartedError(f"{name or step}: {os.strerror(number)}", number)


class Spawn(NamedTuple):
    """One program to start.

    path: absolute; executed by name unless `program`, a descriptor of the very file, is given.
    script: `program` starts with `#!`. argv, environment: as execve(2) takes them.
    workdir: directory descriptor. descriptors: pairs (ours, number in the program); 0 to 2 are
    /dev/null where not named. umask, nice, limits ((kind, soft, hard)...), blocked and ignored
    signals: as the program shall find them.
    """

    path: bytes
    argv: list[bytes]
    environment: Mapping[str, str] | Mapping[bytes, bytes]
    workdir: int
    descriptors: Sequence[tuple[int, int]]
    program: int | None = None
    script: bool = False
    umask: int = AS_OURS
    nice: int = -20
    limits: Sequence[tuple[int, int, int]] = ()
    blocked: Sequence[int] = ()
    ignored: Sequence[int] = ()


class Process:
    """A program that was started. status: as wait(2) has it, once `ended` is set."""

    def __init__(self, pid: int, send: Callable[[int, int], None]) -> None:
        self.pid = pid
        self.status: int | None = None
        self.ended = Event()
        self._send = send

    def signal(self, number: int) -> None:
        """Send its process group a signal, unless it has ended."""
        if not self.ended.is_set:
            self._send(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, likewise."""
        self.signal(signal.SIGKILL)

    def end(self, status: int) -> None:
        """It was reaped."""
        self.status = status
        self.ended.set()


# Starts one; raises NotStartedError.
Start = Callable[[Spawn], Process]
