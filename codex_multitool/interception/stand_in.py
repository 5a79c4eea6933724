"""Prepare a caller to become a script of ours (`relay`): an escalated program's stand-in, a denial.

The script is a sealed memfd that the caller gets as a descriptor and then executes (`redirect`);
so nothing of ours is in the caller's environment, arguments or file system.
"""

import os
import socket
import sys
from typing import NamedTuple

from codex_multitool.interception.exec_stop import Expected, command_line
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.program import examine
from codex_multitool.interception.redirect import Replacement
from codex_multitool.interception.relay import (
    DESCRIPTORS,
    NOT_STARTED,
    SHELL,
    denial_script,
    handing_script,
    relay_script,
)
from codex_multitool.interception.resolve import View
from codex_multitool.interception.sealed import memory_file, seal


class UnavailableError(Exception):
    """The caller cannot become a script; the text says what is missing in its file system."""


class StandIn(NamedTuple):
    """An escalated program's stand-in, not yet put in place; owns its descriptors.

    status: takes `relay.ended`. signals: gives what `relay.relayed` reads. channel: a stream
    socket on which the caller's descriptors come, see `descriptors.receive`; None if not asked.
    """

    replacement: Replacement
    status: int
    signals: int
    channel: socket.socket | None

    def close(self) -> None:
        """Close all; a stand-in that was told no status exits NOT_STARTED."""
        os.close(self.status)
        os.close(self.signals)
        if self.channel is not None:
            self.channel.close()


def stand_in(
    listener: Listener, notification: Notification, tgid: int, *, handing: bool = False
) -> StandIn:
    """Prepare the caller of `notification` to stand in for a program run elsewhere.

    handing: it shall hand over its descriptors, which takes a Python, some ten times slower than
    sh. Raises UnavailableError, KernelError (no descriptor is free), OSError; the caller may have
    got descriptors by then, so it should be ended.
    """
    program = sys.executable if handing else SHELL
    interpreter = _interpreter(notification.tid, tgid, program)
    caller = _Caller(listener, notification)
    status_out, status_in = os.pipe2(os.O_CLOEXEC)
    signals_out, signals_in = os.pipe2(os.O_CLOEXEC)
    ours, theirs = socket.socketpair()
    try:
        status, signals = caller.give(status_out), caller.give(signals_in)
        file = memory_file("stand-in")
        try:
            descriptor = caller.give(file)
            if handing:
                channel = caller.give(theirs.fileno())
                script = handing_script(program, descriptor, status, signals, channel)
            else:
                script = relay_script(status, signals)
            _fill(file, script)
        finally:
            os.close(file)
    except BaseException:
        os.close(status_in)
        os.close(signals_out)
        ours.close()
        raise
    finally:
        os.close(status_out)
        os.close(signals_in)
        theirs.close()
    if not handing:
        ours.close()
    argv = (program, *(("-IS",) if handing else ()), f"{DESCRIPTORS}/{descriptor}")
    return StandIn(
        Replacement(
            descriptor, Expected(*interpreter, command_line(argv)), NOT_STARTED, meanwhile=[]
        ),
        status_in,
        signals_out,
        ours if handing else None,
    )


def denial(
    listener: Listener, notification: Notification, tgid: int, text: str, status: int
) -> Replacement:
    """Prepare the caller to say `text` on its stderr and exit with `status`; raises as `stand_in`.

    The caller writes it itself: its stderr may be a full pipe, a stopped terminal, a socket.
    """
    interpreter = _interpreter(notification.tid, tgid, SHELL)
    file = memory_file("denial")
    try:
        _fill(file, denial_script(text, status))
        descriptor = _Caller(listener, notification).give(file)
    finally:
        os.close(file)
    argv = (SHELL, f"{DESCRIPTORS}/{descriptor}")
    return Replacement(descriptor, Expected(*interpreter, command_line(argv)), status)


class _Caller(NamedTuple):
    listener: Listener
    notification: Notification

    def give(self, fd: int) -> int:
        """Its number for our `fd`; inheritable, as a script's own descriptor must be."""
        number = self.listener.add_descriptor(self.notification, fd, close_on_exec=False)
        if number is None:
            raise ProcessLookupError(3, "the caller has gone")
        return number


def _interpreter(tid: int, tgid: int, path: str) -> tuple[int, int]:
    """Device and inode of `path` where the caller is; UnavailableError if no script can run."""
    view = View(tid, tgid)
    try:
        os.close(view.open(DESCRIPTORS, -1))
        program = examine(path, view.open(path, -1))
        os.close(program.fd)
    except OSError as error:
        raise UnavailableError(f"{path} or {DESCRIPTORS}: {error.strerror}") from None
    finally:
        view.close()
    return program.identity[0], program.identity[1]


def _fill(file: int, script: bytes) -> None:
    os.write(file, script)
    seal(file)
