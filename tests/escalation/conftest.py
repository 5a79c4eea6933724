"""What judging works with, in one process: a loop that starts programs and waits for them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.escalation.watch import NoWatch, Watch
from codex_multitool.execpolicy.rules import Decision, Policy, PrefixRule
from codex_multitool.launcher.spawn import NotStartedError, Process, Spawn
from codex_multitool.launcher.start import Starter
from codex_multitool.loop import Event, Loop, Task, Wait

SECONDS = 60


@dataclass
class House:
    """A keeper without a command. answer: the human's; None: he thinks until `thought`.

    refusal: why no program can be started.
    """

    loop: Loop = field(default_factory=Loop)
    answer: str | None = "accept"
    thought: Event = field(default_factory=Event)
    refusal: NotStartedError | None = None
    questions: list[Question] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    writable: tuple[str, ...] = ("/ws",)
    roots: tuple[str, ...] | None = None
    watch: Watch = field(default_factory=NoWatch)
    started: list[Spawn] = field(default_factory=list)
    starter: Starter = field(default_factory=lambda: Starter(()))

    def start(self, spawn: Spawn) -> Process:
        """As a keeper starts programs; who ends is told to it by a descriptor here."""
        self.started.append(spawn)
        if self.refusal is not None:
            raise self.refusal
        process = self.starter.start(spawn)
        pidfd = os.pidfd_open(process.pid)

        def ended(_: int) -> None:
            self.loop.forget(pidfd)
            os.close(pidfd)
            self.starter.ended(*os.waitpid(process.pid, 0))

        self.loop.watch(pidfd, ended)
        return process

    def ask(self, question: Question) -> Task[tuple[str, str | None]]:
        self.questions.append(question)
        if self.answer is None:
            yield Wait(event=self.thought)
        return self.answer or "decline", None

    def context(self, **rules: Decision) -> Context:
        """rules: decisions by base name."""
        policy = Policy({it: (PrefixRule(((it,),), rules[it]),) for it in rules})
        return Context(
            judgement=Judgement(policy),
            surroundings=Surroundings(dict(os.environ)),
            start=self.start,
            loop=self.loop,
            ask=self.ask,
            record=self.verdicts.append,
            note=self.notes.append,
            writable=self.writable,
            roots=self.roots,
            own_shell=lambda: OwnShell(0, ()),
            watch=self.watch,
        )

    def until(self, event: Event) -> None:
        """Turn until then, within reason."""
        late: list[bool] = []
        self.loop.at(time.monotonic() + SECONDS, lambda: late.append(True))
        while not event.is_set:
            self.loop.turn()
            assert not late


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    here = os.getcwd()
    yield made
    os.chdir(here)  # a starter of programs is nowhere in particular
    for pid in made.starter.running():
        os.killpg(pid, 9)
        os.waitpid(pid, 0)
