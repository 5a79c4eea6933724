"""One command judged as a keeper does it: the supervisor of the product, in its loop, by rules."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.interception.precedents import Precedents
from codex_multitool.interception.supervisor import Supervisor
from codex_multitool.interception.waiting import Children
from codex_multitool.launcher.spawn import Process, Spawn
from codex_multitool.launcher.start import Starter
from codex_multitool.loop import Loop, Task
from tests.interception.supervise import SECONDS, confined

Answer = tuple[str, str | None]
Ask = Callable[[Question], Task[Answer]]


def never(_: Question) -> Task[Answer]:
    """Fail: nothing is to be asked."""
    raise AssertionError("a question")
    yield


class Judging:
    """Start `command` under the filter; its execs are judged while `until` turns the loop."""

    def __init__(
        self, command: Sequence[str], rules: str = "", *, ask: Ask = never, **options: Any
    ) -> None:
        self._options = {
            "confined": options.pop("in_sandbox", True),
            "first": options.pop("first", lambda _: True),
        }
        self._judgement = Judgement(parse([Source("my.rules", rules)]), ask_when_dangerous=False)
        self._out = os.memfd_create("out", os.MFD_CLOEXEC)
        self._ask = ask
        self.process, self.listener = confined(
            command, stdout=self._out, stderr=self._out, **options
        )
        self._ended = os.pidfd_open(self.process.pid)
        # From now on: the command is not to have it blocked.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
        self.loop = Loop()
        self.children = Children(self.loop, self._reap)
        self._starter = Starter(())
        self._started: dict[int, int] = {}  # process id: its pidfd
        self.recorded: list[Verdict] = []
        self.notes: list[str] = []
        self.outside: list[Process] = []
        self.supervisor = self.supervised()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.supervisor.close()
        self.loop.forget(self.listener.fd)
        self.listener.close()
        if not self.over():
            self.process.kill()
        self.process.wait()
        self.until(lambda: not self._starter.running())
        os.close(self._ended)
        os.close(self._out)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def supervised(self, **options: Any) -> Supervisor:
        """A supervisor that the loop calls, in place of any other."""
        context = Context(
            judgement=self._judgement,
            surroundings=Surroundings(os.environ),
            start=self._start,
            loop=self.loop,
            ask=self._ask,
            record=self.recorded.append,
            note=self.notes.append,
            writable=(),
            roots=None,
            own_shell=lambda: OwnShell(0, ()),
        )
        known = Precedents(our_view=True)
        options = {**self._options, "precedents": known, **options}
        supervisor = Supervisor(context, self.listener, self.children, **options)
        self.loop.forget(self.listener.fd)
        self.loop.watch(self.listener.fd, supervisor.attend)
        return supervisor

    def over(self) -> bool:
        """Whether the command has ended."""
        return bool(select.select([self._ended], [], [], 0)[0])

    def until(self, done: Callable[[], bool]) -> None:
        """Turn the loop until this has come true."""
        limit = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < limit, self.text()
            self.loop.at(time.monotonic() + 0.01, lambda: None)
            self.loop.turn()

    def run(self) -> tuple[int, str]:
        """Until the command has ended: its status and what it wrote."""
        self.until(self.over)
        return self.process.wait(), self.text()

    def text(self) -> str:
        """What the command wrote so far."""
        return os.pread(self._out, os.fstat(self._out).st_size, 0).decode()

    def _start(self, spawn: Spawn) -> Process:
        process = self._starter.start(spawn)
        self.outside.append(process)
        pidfd = self._started[process.pid] = os.pidfd_open(process.pid)
        self.loop.watch(pidfd, lambda _: self.children.tell())
        return process

    def _reap(self) -> None:
        for pid in self._starter.running():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                pidfd = self._started.pop(pid)
                self.loop.forget(pidfd)
                os.close(pidfd)
                self._starter.ended(pid, status)


@contextmanager
def no_descriptor_is_left() -> Iterator[None]:
    """See that as many are open afterwards as before."""
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before
