"""What is remembered of one command's execs while it runs."""

import time

from codex_multitool.cli.exec_tree import Exec
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.keeper.protocol import Exited, Traced

_MAX_EXECS = 100_000
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
        self._answered: set[tuple[str, tuple[str, ...]]] = set()
        self._begun = time.monotonic()

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

    def root(self, pid: int, argv: tuple[str, ...], when: float) -> None:
        """The shell, which was not judged. when: of time.monotonic()."""
        if self._every:
            self._add(
                Exec(
                    *(pid, None, argv[0], argv, "run", ""),
                    asked=False,
                    prompt=None,
                    trusted=True,
                    started=when - self._begun,
                )
            )

    def exited(self, exited: Exited) -> None:
        """A process ended; its number may be another's from now on."""
        index = self._latest.pop(exited.pid, None)
        if index is not None:
            self.execs[index].status = exited.status
            self.execs[index].ended = exited.when - self._begun

    def traced(self, traced: Traced) -> None:
        """Remember an exec, if they are wanted."""
        if not self._every:
            return
        # A question that is for the shell's own execs alone was perhaps not put.
        asked = traced.because is not None and (traced.program, traced.argv) in self._answered
        self._add(
            Exec(
                traced.pid,
                self._caller((traced.pid, *traced.parents)),
                traced.program,
                traced.argv,
                traced.decision,
                traced.reason or (traced.because or "" if asked else ""),
                asked=asked,
                prompt=traced.because if traced.outside else None,
                trusted=traced.trusted,
                started=traced.when - self._begun,
            )
        )

    def _caller(self, pids: tuple[int, ...]) -> int | None:
        """The exec of the nearest of these processes that did one."""
        known = (self._latest[pid] for pid in pids if pid in self._latest)
        return next(known, 0 if self.execs else None)

    def _add(self, found: Exec) -> None:
        if len(self.execs) >= _MAX_EXECS:
            self.note(f"only the first {_MAX_EXECS} execs are listed")
            return
        before = self._latest.get(found.pid)
        if before is not None:
            self.execs[before].ended, self.execs[before].replaced = found.started, True
        self._latest[found.pid] = len(self.execs)
        self.execs.append(found)
