"""What rules are expected to say: a file's lines, and whether a policy holds to them — pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from codex_multitool.execpolicy.evaluate import matches, strictest
from codex_multitool.execpolicy.rules import Decision, Policy

NONE = "none"
_WORDS = (*(decision.word for decision in Decision), NONE)


class ExpectationError(Exception):
    """A file that states no expectations, or states one wrongly; the text says where."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line. decision: a decision's word, or none."""

    where: str
    decision: str
    command: Sequence[str]


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
        if words[0] not in _WORDS or len(words) == 1:
            raise ExpectationError(f"{where}: write one of {', '.join(_WORDS)}, then a command")
        found.append(Expectation(where, words[0], words[1:]))
    if not found:
        raise ExpectationError(f"{path}: no line states an expectation")
    return found


def failure(policy: Policy, expected: Expectation) -> str | None:
    """How the policy does not hold to it; None if it does."""
    matched = matches(policy, expected.command, resolve_host_executables=True)
    decision = strictest(matched)
    found = NONE if decision is None else decision.word
    if found == expected.decision:
        return None
    places = [str(match.rule.location) for match in matched if match.decision is decision]
    because = f" by {', '.join(places)}" if places else ""
    command = shlex.join(expected.command)
    return f"{expected.where}: {command}: expected {expected.decision}, is {found}{because}"
