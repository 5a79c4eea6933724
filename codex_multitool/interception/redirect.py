"""LEAF: turn a caller blocked in an exec into something else: its end, or another program.

Only registers are changed, never memory: a vfork or posix_spawn child shares its parent's, and
below its stack pointer may lie another thread's data (goroutine stacks are small and on the heap).
The other program is therefore a descriptor, executed by execveat(2) with AT_EMPTY_PATH, whose
empty path is the NUL that ends the path the caller gave, and with null argv and envp.
"""

import enum
import os
import signal
from errno import EACCES
from typing import NamedTuple

from codex_multitool.interception.architecture import Architecture
from codex_multitool.interception.exec_stop import (
    Awaited,
    Expected,
    Steps,
    as_expected,
    destroy,
    next_event,
    release,
    take_hold,
)
from codex_multitool.interception.hold import Ended, Hold, Refused, Stop, Stopped
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.tracee import AT_EMPTY_PATH, ExecSnapshot, Repeated

# include/linux/errno.h: results with which the kernel restarts a call, out of the caller's sight.
_ERESTARTNOINTR = 513
_RESTARTS = (-512, -513, -514, -516)


class Turned(enum.Enum):
    """How a redirection ended."""

    DONE = "it is as asked"
    FAILED = "the other program did not start; the caller has been ended"
    KILLED = "another program than the given one was started, and killed"
    STRAYED = "the caller did something else; its next exec is notified anew"
    GONE = "the caller died, or was interrupted and may ask again"


class Replacement(NamedTuple):
    """What a caller becomes. descriptor: its number there. expected: what then runs.

    otherwise: exit status if it cannot be started. meanwhile: takes the signals that come before
    it runs, instead of the caller, whom they would end; None delivers them.
    """

    descriptor: int
    expected: Expected
    otherwise: int
    meanwhile: list[int] | None = None


def end(
    listener: Listener,
    notification: Notification,
    tgid: int,
    status: int,
    hold: Hold | Refused | None = None,
) -> Steps[Turned | Refused]:
    """Make the caller's process exit with `status`. hold: the caller, if it is held already.

    After Refused, and only then, the caller still waits for an answer.
    """
    if hold is None:
        hold = yield from take_hold(notification.tid, tgid)
    if isinstance(hold, Refused):
        return hold if listener.valid(notification) else Turned.GONE
    with hold:
        registers = yield from _answer_and_stop(hold, listener, notification)
        if registers is None:
            return Turned.GONE
        return (yield from _exit(hold, listener, registers, notification, status)) or Turned.DONE


def refused(
    listener: Listener, notification: Notification, tgid: int, status: int
) -> Steps[Turned]:
    """The same; a caller that may not be held gets an errno instead."""
    if isinstance((yield from end(listener, notification, tgid, status)), Refused):
        listener.fail(notification, EACCES)
    return Turned.DONE


def redirect(
    listener: Listener,
    notification: Notification,
    snapshot: ExecSnapshot | Repeated,
    replacement: Replacement,
    hold: Hold | Refused | None = None,
) -> Steps[Turned | Refused]:
    """Make the caller execute a descriptor of its own, a script or an ELF program.

    That exec is notified too: `send` the next notification of this thread into the generator.
    hold: the caller, if it is held already. After Refused, and only then, the caller still waits
    for an answer.
    """
    if hold is None:
        hold = yield from take_hold(notification.tid, snapshot.tgid)
    if isinstance(hold, Refused):
        return hold if listener.valid(notification) else Turned.GONE
    with hold:
        registers = yield from _answer_and_stop(hold, listener, notification)
        if registers is None:
            return Turned.GONE
        arguments = (
            replacement.descriptor,
            _empty_path(listener.architecture, notification, snapshot),
            0,
            0,
            AT_EMPTY_PATH,
        )
        architecture = listener.architecture
        hold.set_registers(
            architecture.calling(registers, notification.after, architecture.execveat, arguments)
        )
        return (yield from _replace(hold, listener, notification, replacement, arguments))


def _replace(
    hold: Hold,
    listener: Listener,
    notification: Notification,
    replacement: Replacement,
    arguments: tuple[int, ...],
) -> Steps[Turned]:
    """See the caller, about to execute its new program, through that exec."""
    architecture = listener.architecture
    while True:
        hold.proceed()
        second = yield from _second(hold, replacement.meanwhile)
        if second is None:
            return Turned.GONE
        if second.number != architecture.execveat or second.arguments[:5] != arguments:
            return (yield from _let_go(hold, listener, second))
        event = yield from _resume(hold, listener, second)
        if isinstance(event, Ended):
            return Turned.GONE
        registers = hold.registers()
        if registers is None:
            yield from destroy(hold)  # killed already: see its zombie buried
            return Turned.GONE
        if event.stop is Stop.EXECUTED:
            if as_expected(hold.tid, replacement.expected):
                return Turned.DONE if (yield from release(hold)) else Turned.GONE
            yield from destroy(hold)
            return Turned.KILLED
        if architecture.result_of(registers) not in _RESTARTS:
            status = replacement.otherwise
            ended = yield from _exit(hold, listener, registers, notification, status)
            return ended or Turned.FAILED


def _answer_and_stop(
    hold: Hold, listener: Listener, notification: Notification
) -> Steps[bytes | None]:
    """Stop the caller right behind its call: its registers; None if it is not there any more."""
    hold.interrupt()
    listener.fail(notification, EACCES)
    event = yield from next_event(hold)
    if isinstance(event, Ended):
        return None
    registers = hold.registers()
    if (
        event.stop is Stop.INTERRUPTED
        and registers is not None
        and listener.architecture.at_call(registers, notification.after)
    ):
        return registers
    yield from release(hold, event.signal)
    return None


def _exit(
    hold: Hold, listener: Listener, registers: bytes, notification: Notification, status: int
) -> Steps[Turned | None]:
    """Let the caller go to its end; GONE if it died before."""
    machine = listener.architecture
    call = machine.calling(registers, notification.after, machine.exit_group, (status,))
    hold.set_registers(call)
    return None if (yield from release(hold)) else Turned.GONE


def _second(hold: Hold, meanwhile: list[int] | None) -> Steps[Notification | None]:
    """The caller's next notification."""
    while True:
        notification = yield Awaited.NOTIFICATION
        if notification is not None:
            return notification
        event = hold.poll()
        if isinstance(event, Ended):
            return None
        if event is None:
            continue
        if meanwhile is not None and event.signal and not _stops(event.signal):
            meanwhile.append(event.signal)
            hold.proceed()
        else:
            hold.proceed(event.signal)


def _resume(hold: Hold, listener: Listener, notification: Notification) -> Steps[Stopped | Ended]:
    """Let the exec happen; the stop after it, or after its failure."""
    if listener.killable:
        hold.interrupt()
    listener.resume(notification)
    if not listener.killable:
        hold.interrupt()
    return (yield from next_event(hold))


def _let_go(hold: Hold, listener: Listener, notification: Notification) -> Steps[Turned]:
    """Send the caller back to before the call it is blocked in, free."""
    hold.interrupt()
    listener.fail(notification, _ERESTARTNOINTR)
    event = yield from next_event(hold)
    if isinstance(event, Ended):
        return Turned.GONE
    return Turned.STRAYED if (yield from release(hold, event.signal)) else Turned.GONE


def _stops(number: int) -> bool:
    """Whether a signal acts on the process as a job; it has to be delivered: signal(7)."""
    return number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def _empty_path(
    architecture: Architecture, notification: Notification, snapshot: ExecSnapshot | Repeated
) -> int:
    """The address of the NUL that ends the path of an exec."""
    start = notification.arguments[0 if notification.number == architecture.execve else 1]
    return start + len(os.fsencode(snapshot.file))
