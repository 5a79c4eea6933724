"""The front's end of the watch over protected names: what a keeper asks, put to a local watch.

Findings and absences are known to the keeper by the number of its message that brought them about.
"""

from collections.abc import Callable
from typing import Any

from codex_multitool.escalation.local_watch import LocalAbsence, LocalWatch
from codex_multitool.escalation.watch import Finding
from codex_multitool.keeper import protocol
from codex_multitool.loop import Task

_MAX_FINDINGS = 1000  # that somebody may still agree to


class WatchService:
    """For one command. answer: takes the number of a message and the value of its answer."""

    def __init__(self, watch: LocalWatch, answer: Callable[[int, Any], None]) -> None:
        self._watch = watch
        self._answer = answer
        self._findings: dict[int, Finding] = {}
        self._absences: dict[int, LocalAbsence] = {}

    def look(self, message: protocol.Look) -> Task[None]:
        """Look, and remember what was found."""
        finding = yield from self._watch.look(message.workdir, message.above)
        self._found(message.number, finding)

    def _found(self, number: int, finding: Finding) -> None:
        if finding:
            self._findings[number] = finding
            if len(self._findings) > _MAX_FINDINGS:
                del self._findings[next(iter(self._findings))]
        self._answer(number, (finding.changes, number, finding.moved))

    def agree(self, message: protocol.Agree) -> None:
        """A human agreed to what was found."""
        finding = self._findings.get(message.finding)
        if finding is not None:
            self._watch.agree(finding)

    def leaving(self, message: protocol.Leaving) -> Task[None]:
        """A program is about to start outside."""
        number, watch = message.number, self._watch
        workdir, words, held = message.workdir, message.words, message.held
        absence: LocalAbsence | Finding
        if message.unchanged:
            absence = yield from watch.leaving_unchanged(workdir, words, held, message.above)
        else:
            absence = yield from watch.leaving(workdir, words, held)
        if isinstance(absence, Finding):
            self._found(number, absence)
        elif absence.watched:
            self._absences[number] = absence
            self._answer(number, number)
        else:
            self._answer(number, 0)

    def handed(self, message: protocol.Handed) -> Task[None]:
        """It is to have files open."""
        absence = self._absences.get(message.absence)
        protected = (yield from absence.handed(message.files)) if absence is not None else ()
        self._answer(message.number, protected)

    def returned(self, message: protocol.Returned) -> Task[None]:
        """It has ended, and somebody waits to tell the sandbox."""
        absence = self._absences.pop(message.absence, None)
        if absence is not None:
            yield from absence.over()
        self._answer(message.number, None)

    def lost(self, absence: int) -> None:
        """It has ended, or it does not start at all, and nobody waits."""
        found = self._absences.pop(absence, None)
        if found is not None:
            found.lost()
