"""What rules are expected to say: a file's lines, and whether an answer holds to one — pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from codex_multitool.execpolicy.rules import Decision

NONE = "none"
WORDS = (*(decision.word for decision in Decision), NONE)
# As `explain` calls what becomes of a command.
EXPLAINED = {"escalate": "allow", "ask": "prompt", "deny": "forbidden", "run": NONE, "none": NONE}


class ExpectationError(Exception):
    """A file that states no expectations, or states one wrongly; the text says where."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line. decision: a decision's word, or none."""

    where: str
    decision: str
    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of the command, in the same words. places: of the rules that say so, if any.

    reason: in a sentence; empty where there is none, for no rule says anything.
    """

    decision: str
    places: Sequence[str]
    reason: str


def expectations(path: str, text: str) -> list[Expectation]:
    """What the text expects; raises ExpectationError."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ExpectationError(f"{where}: {error}") from None
        if not words:
            continue
        decision = EXPLAINED.get(words[0], words[0])
        if decision not in WORDS or len(words) == 1:
            raise ExpectationError(f"{where}: write one of {', '.join(WORDS)}, then a command")
        found.append(Expectation(where, decision, words[1:]))
    if not found:
        raise ExpectationError(f"{path}: no line states an expectation")
    return found


def failure(expected: Expectation, answer: Answer) -> str | None:
    """How the answer does not hold to it; None if it does."""
    if answer.decision == expected.decision:
        return None
    because = f": {answer.reason}" if answer.reason else ""
    if answer.places:
        because = f" by {', '.join(answer.places)}"
    command = shlex.join(expected.command)
    wrong = f"expected {expected.decision}, is {answer.decision}{because}"
    return f"{expected.where}: {command}: {wrong}"
