"""What the reader of a result is told of one command's judging, bounded."""

from collections.abc import Sequence

from codex_multitool.escalation.question import Verdict
from codex_multitool.keeper.outcome import Decision

_MAX_NOTES = 50
_MAX_DECISIONS = 200  # of those worth telling; a loop may be denied a million times
_MAX_ARGUMENTS = 4096  # characters told of one; its arguments may have 2 MiB: execve(2)


class Report:
    """Decisions, each once with how often it was made, and notes."""

    def __init__(self) -> None:
        self._decisions: dict[Decision, int] = {}
        self._notes: list[str] = []

    def record(self, verdict: Verdict) -> None:
        """Remember a verdict worth telling."""
        argv = _shortened(verdict.argv)
        found = Decision(verdict.program, argv, verdict.decision, _cut(verdict.reason))
        if found in self._decisions or len(self._decisions) < _MAX_DECISIONS:
            self._decisions[found] = self._decisions.get(found, 0) + 1
        else:
            self.note(f"only the first {_MAX_DECISIONS} decisions are listed")

    def note(self, text: str) -> None:
        """Remember what else should be known."""
        text = _cut(text)
        if text not in self._notes and len(self._notes) < _MAX_NOTES:
            self._notes.append(text)

    def decisions(self) -> tuple[Decision, ...]:
        """All of them, in the order in which they were first made."""
        return tuple(it._replace(times=count) for it, count in self._decisions.items())

    def notes(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._notes)


def _shortened(argv: Sequence[str]) -> tuple[str, ...]:
    shown, room = list[str](), _MAX_ARGUMENTS
    for word in argv:
        if room <= 0:
            break
        shown.append(word[:room])
        room -= len(word) + 1
    left_out = _length(argv) - _length(shown)
    return (*shown, *([f"[... {left_out} characters left out ...]"] if left_out else []))


def _cut(text: str) -> str:
    """What is told of a text that may hold a sandboxed program's own words."""
    left_out = len(text) - _MAX_ARGUMENTS
    if left_out <= 0:
        return text
    return f"{text[:_MAX_ARGUMENTS]} [... {left_out} characters left out ...]"


def _length(words: Sequence[str]) -> int:
    return sum(map(len, words)) + len(words)
