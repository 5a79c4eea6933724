"""What a human is asked about an exec, and what became of one, as it is told — pure."""

from typing import NamedTuple

from codex_multitool.escalation.protected import Change


class Question(NamedTuple):
    """What a human is asked: the program, its argv and working directory, and why.

    because: the rule or the danger. outside: whether it leaves the sandbox if accepted. changes:
    what a sandboxed command did to protected names, and what an acceptance agrees to.
    justification: the rule's, in its author's words.
    """

    program: str
    argv: tuple[str, ...]
    workdir: str
    because: str
    outside: bool
    changes: tuple[Change, ...] = ()
    justification: str | None = None


class Verdict(NamedTuple):
    """What became of an exec, for the result of the call."""

    program: str
    argv: tuple[str, ...]
    decision: str
    reason: str
