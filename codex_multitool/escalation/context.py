"""One command's judging: decide, ask where a human must, record what is worth telling.

Both ways of interception bring their execs here.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.decide import (
    Ask,
    Deny,
    Escalate,
    ExecRequest,
    Run,
    leaves,
    resolve,
    unless_agreed,
)
from codex_multitool.escalation.decide import Verdict as Decided
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.protected import told
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.escalation.watch import Absence, Finding, NoWatch, Watch
from codex_multitool.escalation.workdir import above
from codex_multitool.launcher.spawn import Start
from codex_multitool.loop import Loop, Task

_MOVED = "its working directory was moved while it was judged"
_MAX_ROUNDS = 4  # questions about one exec while protected names go on changing

Settled = Run | Escalate | Deny
Trace = Callable[[int, ExecRequest, Decided, Settled], None]
Leaving = Callable[[], Task[Absence | Finding]]


class Context(NamedTuple):
    """What the judging of one command works with.

    start: starts programs outside. loop: drives what goes on meanwhile. ask: puts a question,
    returns (accept | decline | cancel | unavailable, reason or None). record: takes every verdict
    worth telling; note: whatever else the reader of the result should know. writable: directories
    the sandbox may write now, or could at any time before. roots: those it may write now; None: it
    may write everything. own_shell: the call's shell. watch:
    over the protected names. own_mounts: whether the sandbox has mounts of its own for them.
    trace: takes every exec, if given, as (process id, request, what `decide` said, final verdict).
    """

    judgement: Judgement
    surroundings: Surroundings
    start: Start
    loop: Loop
    ask: Callable[[Question], Task[tuple[str, str | None]]]
    record: Callable[[Verdict], None]
    note: Callable[[str], None]
    writable: Collection[str]
    roots: Collection[str] | None
    own_shell: Callable[[], OwnShell]
    watch: Watch = NoWatch()
    own_mounts: bool = False
    trace: Trace | None = None


def settle(
    context: Context,
    request: ExecRequest,
    verdict: Decided,
    *,
    of_own_shell: Callable[[OwnShell], bool],
    unchanged: Callable[[], bool],
    workdir: int,
    leaving: Leaving | None = None,
) -> Task[tuple[Settled, Absence | None]]:
    """The final verdict on one exec, given what `decide` said; asks and records.

    of_own_shell: whether the exec is done by the call's own shell itself.
    unchanged: whether the program is still the one that was judged. workdir: the request's, opened.
    leaving: see Watch.leaving_unchanged, where it may leave as soon as it is settled that it does;
    then its absence is returned with Escalate.
    """
    shells_only = isinstance(verdict, Ask) and verdict.own_shell_only
    if shells_only and not of_own_shell(context.own_shell()):
        return Run(), None
    asked = ""
    for _ in range(_MAX_ROUNDS):
        finding, absence = yield from _looked(context, request, verdict, workdir, leaving)
        if finding and finding.moved:
            return conclude(context, request, Deny(_MOVED), asked), None
        if finding:
            verdict = unless_agreed(verdict, told(finding.changes))
        if not isinstance(verdict, Ask):
            settled = _checked(request, verdict, unchanged)
            if absence is not None and settled is not verdict:
                absence.lost()
                absence = None
            return conclude(context, request, settled, asked), absence
        asked = verdict.because
        verdict = yield from _answered(context, request, verdict, finding)
        if isinstance(verdict, Escalate) and finding:
            context.watch.agree(finding)
    return conclude(context, request, Deny(f"{asked}, again and again"), asked), None


def _looked(
    context: Context,
    request: ExecRequest,
    verdict: Decided,
    workdir: int,
    leaving: Leaving | None,
) -> Task[tuple[Finding | None, Absence | None]]:
    """What differs, if the program shall leave; its absence, if it does so at once."""
    if not leaves(verdict):
        return None, None
    if leaving is None or not isinstance(verdict, Escalate):
        standing = above(workdir, context.roots)
        return (yield from context.watch.look(request.workdir, standing)), None
    found = yield from leaving()
    return (found, None) if isinstance(found, Finding) else (None, found)


def _answered(
    context: Context, request: ExecRequest, ask: Ask, finding: Finding | None
) -> Task[Settled]:
    rule = ask.accepted if isinstance(ask.accepted, Escalate) else None
    question = Question(
        rule.name if rule else request.programs[0],
        request.argv,
        request.workdir,
        rule.rule if rule else ask.because,
        outside=rule is not None,
        changes=finding.changes if finding else (),
        justification=rule.justification if rule else None,
    )
    action, reason = yield from context.ask(question)
    return resolve(ask, action, reason)


def _checked(request: ExecRequest, verdict: Settled, unchanged: Callable[[], bool]) -> Settled:
    if isinstance(verdict, Escalate) and not unchanged():
        return Deny(f"{request.programs[0]} was changed while it was judged")
    return verdict


def conclude(context: Context, request: ExecRequest, verdict: Settled, asked: str = "") -> Settled:
    """Record a final verdict, and return it. asked: why a human was asked, if one was."""
    match verdict:
        case Run(note=note):
            decision, reason = "run", note or asked
        case Escalate(rule=rule):
            decision, reason = "escalate", asked or rule
        case Deny(reason=reason):
            decision = "deny"
    if reason:
        context.record(Verdict(request.programs[0], request.argv, decision, reason))
    return verdict
