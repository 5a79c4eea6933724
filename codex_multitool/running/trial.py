"""The trial of kernel interception: a command started as all are, whose exec is seen to its stop.

It waits for what may never come: whoever began the trial ends it then.
"""

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.exec_stop import (
    Expected,
    Resumed,
    Steps,
    command_line,
    resume_checked,
)
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.rights import receive, send
from codex_multitool.interception.tracee import ExecSnapshot, read_exec
from codex_multitool.launcher import spawner
from codex_multitool.sandbox.enforce import Confinement

_SHELL = b"/bin/sh"
_PAUSE_SECONDS = 0.0002
_MOST = spawner.WORD.size + spawner.MAX_TEXT
_REASONS = {
    errno.EBUSY: "another program listens to the execs of this process tree already: a sandbox "
    "around this one, or WSL's network (seccomp(2) allows one listener)",
    errno.ENOSYS: "this kernel, or the sandbox around us, has no seccomp notifications (Linux 5.5)",
    errno.EINVAL: "this kernel has no seccomp notifications (Linux 5.5)",
}
_UNWATCHED = "ptrace(2) is refused here: Yama (kernel.yama.ptrace_scope), or the sandbox around us"


class NoListenerError(Exception):
    """A process could not be put under the exec filter. errno: why, or 0: the text says it."""

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class Trial:
    """A command on trial. listener: holds its execs."""

    def __init__(self, listener: Listener, channel: socket.socket) -> None:
        self.listener = listener
        self._channel = channel

    def exec(self) -> Notification | None:
        """The next exec; None if there is none any more."""
        poll = select.poll()
        poll.register(self.listener.fd, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        while self._channel.fileno() not in dict(poll.poll()):
            found = self.listener.receive()
            if isinstance(found, Notification):
                return found
        return None

    def end(self) -> tuple[int, int]:
        """What the spawner says of its end, once it has ended: a kind and a number."""
        return _word(self._channel.recv(_MOST))[:2]


def _word(message: bytes) -> tuple[int, int, str]:
    if len(message) < spawner.WORD.size:
        return spawner.FAILED, 0, "the spawner was ended"
    kind, number = spawner.WORD.unpack_from(message)
    return kind, number, message[spawner.WORD.size :].decode(errors="replace")


@contextmanager
def trial(words: Sequence[bytes]) -> Iterator[Trial]:
    """Have a spawner start a command, under no sandbox. Raises NoListenerError, and OSError."""
    machine = architecture(os.uname().machine)
    if machine is None:
        raise NoListenerError(f"no exec filter for {os.uname().machine}", errno.ENOSYS)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        ours.close()  # a listener that nobody takes must end with the trial
        cell = spawner.Cell(Confinement(), {}, (), (), intercepted=True)
        spawner.be(cell, theirs, parent, ())
    theirs.close()
    try:
        with ours:
            message, fds = receive(ours, _MOST, 1)
            _, number, text = _word(message)
            if not fds:
                raise NoListenerError(text, number)
            killable = number == spawner.KILLABLE
            with closing(Listener(fds[0], machine, killable=killable)) as listener:
                _tell(ours, words)
                yield Trial(listener, ours)
    finally:
        os.waitpid(child, 0)


def _tell(channel: socket.socket, words: Sequence[bytes]) -> None:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        send(channel, spawner.request(words, {}, (), ()), [root])
    finally:
        os.close(root)


def refusal() -> str | None:
    """Why kernel interception is not to be had here; None if it works."""
    try:
        with trial([_SHELL, b"-c", b"exec %b -c :" % _SHELL]) as begun:
            begun.listener.sync_wake_up()
            watched = _watched(begun)
            ended = begun.end()
    except NoListenerError as error:
        return _REASONS.get(error.errno) or os.strerror(error.errno) if error.errno else str(error)
    return None if watched and ended == (spawner.ENDED, 0) else _UNWATCHED


def _watched(begun: Trial) -> bool:
    """Whether the second exec could be seen through; the first is our own, of the shell."""
    listener = begun.listener
    first = begun.exec()
    if first is None or not listener.resume(first):
        return False
    second = begun.exec()
    if second is None:
        return False
    seen = _seen_through(listener, second)
    if not seen and listener.valid(second):
        os.kill(second.tid, signal.SIGKILL)  # its exec is held, and nobody is going to answer it
    return seen


def _seen_through(listener: Listener, exec_: Notification) -> bool:
    snapshot = read_exec(listener, exec_)
    if not isinstance(snapshot, ExecSnapshot) or snapshot.executed is None:
        return False
    device, inode, *_ = snapshot.executed.identity
    expected = Expected(device, inode, command_line(snapshot.argv_executed()))
    outcome = _driven(resume_checked(listener, exec_, snapshot.tgid, expected))
    return outcome is Resumed.EXECUTED


def _driven(steps: Steps[Resumed | Refused]) -> Resumed | Refused:
    while True:
        try:
            steps.send(None)
        except StopIteration as stop:
            outcome: Resumed | Refused = stop.value
            return outcome
        time.sleep(_PAUSE_SECONDS)
