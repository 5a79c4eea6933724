"""One command's judging: decide, ask where a human must, record what is worth telling.

Both ways of interception bring their execs here.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.decide import (
    Ask,
    Deny,
    Escalate,
    ExecRequest,
    Judgement,
    Run,
    resolve,
)
from codex_multitool.escalation.decide import Verdict as Decided
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.launcher.pool import Launcher

Settled = Run | Escalate | Deny
Trace = Callable[[int, ExecRequest, Decided, Settled], None]


@dataclass(frozen=True, slots=True)
class Question:
    """What a human is asked: the program, its argv and working directory, and why.

    outside: whether it leaves the sandbox if accepted.
    """

    program: str
    argv: tuple[str, ...]
    workdir: str
    because: str
    outside: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an exec, for the result of the call."""

    program: str
    argv: tuple[str, ...]
    decision: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """What the judging of one command works with.

    ask: puts a question, returns (accept | decline | cancel | unavailable, reason or None).
    record: takes every verdict worth telling; note: whatever else the reader of the result should
    know. writable: directories the sandbox may write now, or could at any time before. own_shell:
    the call's shell. trace: takes every exec, if given, as
    (process id, request, what `decide` said, final verdict).
    """

    judgement: Judgement
    launcher: Launcher
    surroundings: Surroundings
    ask: Callable[[Question], Awaitable[tuple[str, str | None]]]
    record: Callable[[Verdict], None]
    note: Callable[[str], None]
    writable: Collection[str]
    own_shell: Callable[[], OwnShell]
    trace: Trace | None = None


async def settle(
    context: Context,
    request: ExecRequest,
    verdict: Decided,
    *,
    of_own_shell: Callable[[OwnShell], bool],
    unchanged: Callable[[], bool],
) -> Settled:
    """The final verdict on one exec, given what `decide` said; asks and records.

    of_own_shell: whether the exec is done by the call's own shell itself.
    unchanged: whether the program is still the one that was judged.
    """
    if not isinstance(verdict, Ask):
        return _settled(context, request, _checked(request, verdict, unchanged), "")
    if verdict.own_shell_only and not of_own_shell(context.own_shell()):
        return Run()
    accepted = verdict.accepted
    question = Question(
        accepted.name if isinstance(accepted, Escalate) else request.programs[0],
        request.argv,
        request.workdir,
        verdict.because,
        outside=isinstance(accepted, Escalate),
    )
    action, reason = await context.ask(question)
    settled = _checked(request, resolve(verdict, action, reason), unchanged)
    return _settled(context, request, settled, verdict.because)


def _checked(request: ExecRequest, verdict: Settled, unchanged: Callable[[], bool]) -> Settled:
    if isinstance(verdict, Escalate) and not unchanged():
        return Deny(f"{request.programs[0]} was changed while it was judged")
    return verdict


def _settled(context: Context, request: ExecRequest, verdict: Settled, asked: str) -> Settled:
    match verdict:
        case Run(note=note):
            decision, reason = "run", note or asked
        case Escalate(rule=rule):
            decision, reason = "escalate", rule
        case Deny(reason=reason):
            decision = "deny"
    if reason:
        context.record(Verdict(request.programs[0], request.argv, decision, reason))
    return verdict
