"""What is known of a command that has ended — pure."""

from typing import NamedTuple

from codex_multitool.keeper.output import Output


class Decision(NamedTuple):
    """An exec that was not simply run in the sandbox, why, and how often."""

    program: str
    argv: tuple[str, ...]
    decision: str
    reason: str
    times: int = 1


class Outcome(NamedTuple):
    """What is known when the command's first process has ended. status: as wait(2) gives it.

    file: with the whole output, if that is more than is kept. background: as (process id, command
    line). left: whether programs have left its sandbox.
    """

    status: int
    timed_out: bool
    duration_ns: int
    output: Output
    file: str | None = None
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = ()
    background: tuple[tuple[int, str], ...] = ()
    left: bool = False
