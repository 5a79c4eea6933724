"""What is remembered of one command's execs while it runs."""

import os
import time

import trio

from codex_multitool.cli import pidfd
from codex_multitool.cli.exec_tree import Exec
from codex_multitool.escalation import caller
from codex_multitool.escalation.context import Question, Settled, Trace, Verdict
from codex_multitool.escalation.decide import Ask, Deny, Escalate, ExecRequest
from codex_multitool.escalation.decide import Verdict as Decided

_MAX_EXECS = 100_000
_MAX_WATCHED = 512  # descriptors, one per living process
_MAX_VERDICTS = 1000
_MAX_NOTES = 50
_MAX_NOTE = 4096  # characters


class Record:
    """Verdicts and notes; with `every`, also each exec, its end and its status."""

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self.verdicts: list[Verdict] = []
        self.notes: list[str] = []
        self.execs: list[Exec] = []
        self._latest: dict[int, int] = {}  # by process, the index of its last exec
        self._watched: dict[int, int] = {}  # by process, its descriptor
        self._answered: set[tuple[str, tuple[str, ...]]] = set()
        self._begun = time.monotonic()
        self._nursery: trio.Nursery | None = None

    def note(self, text: str) -> None:
        """Remember what the user should know."""
        text = text[:_MAX_NOTE]
        if text not in self.notes and len(self.notes) < _MAX_NOTES:
            self.notes.append(text)

    def verdict(self, verdict: Verdict) -> None:
        """Remember a decision worth telling."""
        if len(self.verdicts) < _MAX_VERDICTS:
            self.verdicts.append(verdict)
        else:
            self.note(f"only the first {_MAX_VERDICTS} decisions are listed")
        if verdict.decision == "run" and "but it stays in the sandbox" in verdict.reason:
            self.note(verdict.reason)

    def answered(self, question: Question) -> None:
        """A human answered it."""
        self._answered.add((question.program, question.argv))

    def trace(self, nursery: trio.Nursery) -> Trace | None:
        """What is to be called for each exec, if they are wanted. nursery: waits for ends."""
        self._nursery = nursery
        return self._trace if self._every else None

    def root(self, pid: int, argv: tuple[str, ...]) -> None:
        """The shell, which was not judged."""
        if self._every:
            self._add(Exec(pid, None, argv[0], argv, "run", "", False, None, True, self._now()))

    def ended(self, pid: int, status: int) -> None:
        """A process of ours ended."""
        if pid in self._latest:
            found = self.execs[self._latest[pid]]
            found.status, found.ended = status, self._now()

    def close(self) -> None:
        """Take the last statuses there are; no process is left."""
        for pid, descriptor in list(self._watched.items()):
            self._take(pid, descriptor)
        for descriptor in self._watched.values():
            os.close(descriptor)
        self._watched.clear()

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _trace(self, pid: int, request: ExecRequest, decided: Decided, settled: Settled) -> None:
        match settled:
            case Escalate(rule=reason):
                decision = "escalate"
            case Deny(reason=reason):
                decision = "deny"
            case _:
                decision, reason = "run", settled.note or ""
        asked, prompt = False, None
        if isinstance(decided, Ask):
            # A question that is for the shell's own execs alone was perhaps not put.
            asked = (request.programs[0], request.argv) in self._answered
            prompt = decided.because if isinstance(decided.accepted, Escalate) else None
            reason = reason or (decided.because if asked else "")
        self._add(
            Exec(
                pid,
                self._caller(pid),
                request.programs[0],
                request.argv,
                decision,
                reason,
                asked,
                prompt,
                request.untrusted is None,
                self._now(),
            )
        )

    def _caller(self, pid: int) -> int | None:
        while pid > 1:
            if pid in self._latest:
                return self._latest[pid]
            pid = caller.parent(pid)
        return 0 if self.execs else None

    def _add(self, found: Exec) -> None:
        if len(self.execs) >= _MAX_EXECS:
            self.note(f"only the first {_MAX_EXECS} execs are listed")
            return
        before = self._latest.get(found.pid)
        if before is not None:
            self.execs[before].ended, self.execs[before].replaced = found.started, True
        self._latest[found.pid] = len(self.execs)
        self.execs.append(found)
        if found.pid not in self._watched and len(self._watched) < _MAX_WATCHED:
            descriptor = pidfd.open_process(found.pid)
            if descriptor is not None:
                self._watched[found.pid] = descriptor
                assert self._nursery is not None
                self._nursery.start_soon(self._wait, found.pid, descriptor)

    async def _wait(self, pid: int, descriptor: int) -> None:
        await trio.lowlevel.wait_readable(descriptor)
        found = self.execs[self._latest[pid]]
        found.ended = self._now()
        found.status = pidfd.zombie_status(pid)  # all there is before Linux 6.15
        for pause in (0.001, 0.01, 0.1, 1.0):
            # Its parent has to reap it first.
            if self._take(pid, descriptor):
                return
            await trio.sleep(pause)

    def _take(self, pid: int, descriptor: int) -> bool:
        status = pidfd.wait_status(descriptor)
        if status is None:
            return False
        found = self.execs[self._latest[pid]]
        found.status = status
        found.ended = found.ended or self._now()
        del self._watched[pid]
        # The number may be another's from now on.
        del self._latest[pid]
        os.close(descriptor)
        return True
