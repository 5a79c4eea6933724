"""A blocking supervisor for the tests: one command under the exec filter, every exec decided."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from errno import EACCES
from pathlib import Path
from typing import Any, Self

from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.descriptors import Handing
from codex_multitool.interception.exec_stop import (
    Expected,
    Steps,
    command_line,
    resume_checked,
)
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.listener import Absent, Listener, Notification
from codex_multitool.interception.redirect import Replacement, end, redirect
from codex_multitool.interception.tracee import ExecSnapshot, Gone, Unreadable, read_exec

ROOT = Path(__file__).resolve().parents[2]
CONFINED = Path(__file__).with_name("confined.py")
SECONDS = 60


@dataclass
class Run:
    """CONTINUE, watched at the exec stop, which is `expecting` what was asked for or this."""

    expecting: Expected | None = None


@dataclass
class Plain:
    """CONTINUE and no check."""


@dataclass
class Errno:
    number: int


@dataclass
class End:
    status: int


@dataclass
class Become:
    """Redirect; prepare gives the replacement once the snapshot is known."""

    prepare: Callable[[Listener, Notification, ExecSnapshot], Replacement]


Decision = Run | Plain | Errno | End | Become
Decide = Callable[[ExecSnapshot], Decision]


@dataclass
class Finished:
    status: int
    out: bytes
    err: bytes
    asked: list[tuple[str, tuple[str, ...]]]  # file and argv of every exec
    outcomes: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class _Running:
    steps: Steps[Any]
    notification: Notification
    redirecting: bool
    started: bool = False


class NoListenerError(Exception):
    """The filter was not installed; the text is `errno class`."""


def confined(
    command: Sequence[str],
    *,
    killable: bool = True,
    python: str = sys.executable,
    before: Sequence[str] = (),
    **popen: Any,
) -> tuple[subprocess.Popen[bytes], Listener]:
    """A process under the exec filter that is about to execute `command`, and its listener."""
    machine = architecture(os.uname().machine)
    assert machine is not None
    ours, theirs = socket.socketpair()
    options = "k" if killable else "-"
    process = subprocess.Popen(
        [*before, python, "-IS", CONFINED, ROOT, str(theirs.fileno()), options, *command],
        pass_fds=[theirs.fileno(), *popen.pop("pass_fds", ())],
        **popen,
    )
    theirs.close()
    told, fds, _, _ = socket.recv_fds(ours, 100, 1)
    ours.close()
    if not fds:
        process.wait()
        raise NoListenerError(told.decode())
    return process, Listener(fds[0], machine, killable=told == b"k")


class Supervisor:
    """Start `command` under the filter and decide its execs by `decide`."""

    def __init__(
        self,
        command: Sequence[str],
        decide: Decide,
        *,
        killable: bool = True,
        python: str = sys.executable,
        before: Sequence[str] = (),
        **popen: Any,
    ) -> None:
        self._out = os.memfd_create("out", os.MFD_CLOEXEC)
        self._err = os.memfd_create("err", os.MFD_CLOEXEC)
        popen = {"stdout": self._out, "stderr": self._err, **popen}
        try:
            self.process, self.listener = confined(
                command, killable=killable, python=python, before=before, **popen
            )
        except NoListenerError:
            os.close(self._out)
            os.close(self._err)
            raise
        # Popen.poll would take a traced child's stops for its own: waitpid(2) reports them.
        self.ended = os.pidfd_open(self.process.pid)
        self.decide = decide
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.outcomes: list[Any] = []
        self.running: list[_Running] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close all; a command that is still there dies."""
        self.listener.close()
        if not self._over():
            self.process.kill()
        self.process.wait()
        for fd in (self.ended, self._out, self._err):
            os.close(fd)

    def run(self, seconds: float = SECONDS) -> Finished:
        """Serve until the command has ended; fails if it takes longer than `seconds`."""
        limit = time.monotonic() + seconds
        while self.running or not self._over():
            assert time.monotonic() < limit, f"still running: {self.asked[-5:]}"
            self.serve()
        return Finished(
            self.process.wait(), _all(self._out), _all(self._err), self.asked, self.outcomes
        )

    def serve_until(self, done: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Serve until something has come true."""
        limit = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < limit, f"still waiting: {self.asked[-5:]}"
            self.serve()

    def _over(self) -> bool:
        return bool(select.select([self.ended], [], [], 0)[0])

    def serve(self) -> None:
        """One turn: what is waiting, and a step of all that is under way."""
        wait = 0 if self.running else 0.01
        if select.select([self.listener.fd], [], [], wait)[0]:
            found = self.listener.receive()
            if isinstance(found, Notification):
                self._notified(found)
            elif found is Absent.ENDED:
                time.sleep(0.001)
        for running in list(self.running):
            if running in self.running:
                self._advance(running, None)

    def _notified(self, notification: Notification) -> None:
        for running in self.running:
            if running.redirecting and running.notification.tid == notification.tid:
                self._advance(running, notification)
                return
        snapshot = read_exec(self.listener, notification)
        if isinstance(snapshot, Gone | Unreadable):
            self.outcomes.append(snapshot)
            self.listener.fail(notification, EACCES)
            return
        self.asked.append((snapshot.file, snapshot.argv))
        try:
            begun = self._answer(notification, snapshot, self.decide(snapshot))
        finally:
            snapshot.close()
        if begun is not None:
            self.running.append(begun)
            self._advance(begun, None)

    def _answer(
        self, notification: Notification, snapshot: ExecSnapshot, decision: Decision
    ) -> _Running | None:
        tgid = snapshot.tgid
        match decision:
            case Plain():
                self.listener.resume(notification)
                return None
            case Errno(number):
                self.listener.fail(notification, number)
                return None
            case Run(None) if snapshot.errno is not None:
                self.listener.fail(notification, snapshot.errno)
                return None
            case Run(expecting):
                expecting = expecting or expected(snapshot)
                steps = resume_checked(self.listener, notification, tgid, expecting)
                return _Running(steps, notification, redirecting=False)
            case End(status):
                ending = end(self.listener, notification, tgid, status)
                return _Running(ending, notification, redirecting=False)
            case Become(prepare):
                try:
                    replacement = prepare(self.listener, notification, snapshot)
                except OSError as error:
                    self.outcomes.append(error.errno)
                    return None
                turning = redirect(self.listener, notification, snapshot, replacement)
                return _Running(turning, notification, redirecting=True)

    def _advance(self, running: _Running, sent: Notification | None) -> None:
        try:
            if not running.started:
                running.started = True
                next(running.steps)
            else:
                running.steps.send(sent)
        except StopIteration as stop:
            self.running.remove(running)
            self.outcomes.append(stop.value)
            if isinstance(stop.value, Refused):
                self.listener.fail(running.notification, EACCES)


def expected(snapshot: ExecSnapshot) -> Expected:
    program = snapshot.executed
    assert program is not None
    device, inode, *_ = program.identity
    return Expected(device, inode, command_line(snapshot.argv_executed()))


def supervise(command: Sequence[str], decide: Decide, **options: Any) -> Finished:
    """Run `command` to its end."""
    seconds = options.pop("seconds", SECONDS)
    with Supervisor(command, decide, **options) as supervisor:
        return supervisor.run(seconds)


def handed_over(channel: socket.socket) -> dict[int, int]:
    """What a stand-in hands over, by its number there; the caller's to close."""
    handing = Handing()
    channel.setblocking(False)
    while handing.receive(channel):
        assert select.select([channel], [], [], SECONDS)[0]
    return {number: ours for ours, number in handing.pairs}


def _all(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
