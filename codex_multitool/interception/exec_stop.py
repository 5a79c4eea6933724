"""LEAF: let an exec happen, and see at its exec stop that it was the judged one.

After CONTINUE the kernel reads path and arguments again, and others may have changed them. At
PTRACE_EVENT_EXEC the new program stands in memory nobody else has, and not one instruction of it
has run: what is there then is what runs, or it is killed.

Everything is a generator that yields what it awaits when there is nothing else to do, and returns
its outcome. One thread drives them all, see `hold`. Closing one early kills.
"""

import enum
import os
from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from codex_multitool.interception.hold import Ended, Hold, Refused, Stop, Stopped, seize
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.stack import executed_as


class Awaited(enum.Enum):
    """What steps wait for. None is certain to come: after a moment they want to look again."""

    STOP = "a held thread stops or ends, and SIGCHLD comes"
    NOTIFICATION = "the thread's next notification, to be sent into the generator"


T = TypeVar("T")
Steps = Generator[Awaited, Notification | None, T]


class Resumed(enum.Enum):
    """How a resumed exec ended."""

    EXECUTED = "the expected program runs"
    KILLED = "it was not the expected program"
    RETURNED = "the kernel refused the exec; the caller runs on with its errno"
    GONE = "the caller died, or was interrupted and may ask again"


class Expected(NamedTuple):
    """The program judged. command_line: the arguments that it will find, see command_line().

    unseen: the file may be executed but not read, so its process does not show which it runs.
    path: the path executed, where it leads every caller to this file, no script, and nobody in
    the sandbox can change that; else None.
    """

    device: int
    inode: int
    command_line: bytes
    unseen: bool = False
    path: bytes | None = None


def command_line(argv: Sequence[str]) -> bytes:
    """Arguments as in /proc. They have no NUL inside, so each ended by one they say all."""
    return os.fsencode("\0".join(argv)) + b"\0" if argv else b""


def resume_checked(
    listener: Listener, notification: Notification, tgid: int, expected: Expected
) -> Steps[Resumed | Refused]:
    """Answer with CONTINUE and watch the exec.

    After Refused, and only then, the caller still waits for an answer.
    """
    hold = yield from take_hold(notification.tid, tgid)
    if isinstance(hold, Refused):
        return hold if listener.valid(notification) else Resumed.GONE
    with hold:
        # If the exec fails, the interrupt stops the caller before its next instruction. A wait
        # that is not killable would be broken off by it.
        if listener.killable:
            hold.interrupt()
        answered = listener.resume(notification)
        if not (answered and listener.killable):
            hold.interrupt()
        yield Awaited.STOP  # it takes longer than to look
        return (yield from watch(hold, expected))


def watch(hold: Hold, expected: Expected) -> Steps[Resumed]:
    """See a held, interrupted thread through its exec, and let go of it."""
    event = yield from next_event(hold)
    if isinstance(event, Ended):
        return Resumed.GONE
    if event.stop is not Stop.EXECUTED:
        let_go = yield from release(hold, event.signal)
        return Resumed.RETURNED if let_go else Resumed.GONE
    if as_expected(hold.tid, expected):
        return Resumed.EXECUTED if (yield from release(hold)) else Resumed.GONE
    yield from destroy(hold)
    return Resumed.KILLED


def take_hold(tid: int, tgid: int) -> Steps[Hold | Refused]:
    """Seize a thread, after any other thread of its process has been let go."""
    while (hold := seize(tid, tgid)) is None:
        yield Awaited.STOP
    return hold


def next_event(hold: Hold) -> Steps[Stopped | Ended]:
    """The next thing that happens to a held thread."""
    while (event := hold.poll()) is None:
        yield Awaited.STOP
    return event


def release(hold: Hold, number: int = 0) -> Steps[bool]:
    """Let a stopped thread go; False if it has been killed instead."""
    if hold.release(number):
        return True
    yield from _until_ended(hold)
    return False


def destroy(hold: Hold) -> Steps[None]:
    """Kill a held process; returns when its parent has been told."""
    hold.kill()
    yield from _until_ended(hold)


def _until_ended(hold: Hold) -> Steps[None]:
    while not isinstance((yield from next_event(hold)), Ended):
        pass


def as_expected(tid: int, expected: Expected) -> bool:
    """Whether the thread, at its exec stop, is about to run this; False if it cannot be seen."""
    return _by_path(tid, expected) or _by_identity(tid, expected)


def _by_path(tid: int, expected: Expected) -> bool:
    """Whether its stack shows it, and the path still leads to the file.

    A name below /proc/TID costs as much as all the rest: it is made, and thrown away as the
    process ends. So the usual exec is known without one.
    """
    path = expected.path
    if path is None or not executed_as(tid, path, expected.command_line):
        return False
    try:
        return _same(os.stat(path), expected)
    except OSError:
        return False


def _by_identity(tid: int, expected: Expected) -> bool:
    wanted = expected.command_line
    try:
        if not _runs(tid, expected):
            return False
        file = os.open(f"/proc/{tid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _begins(file, len(wanted) + 1) == wanted
    except OSError:
        return False
    finally:
        os.close(file)


def _runs(tid: int, expected: Expected) -> bool:
    try:
        return _same(os.stat(f"/proc/{tid}/exe"), expected)
    except PermissionError:
        return expected.unseen


def _same(file: os.stat_result, expected: Expected) -> bool:
    return (file.st_dev, file.st_ino) == (expected.device, expected.inode)


def _begins(file: int, size: int) -> bytes:
    """Its first `size` bytes, or all there are: a read may be short."""
    text = b""
    while more := os.read(file, size - len(text)):
        text += more
    return text
