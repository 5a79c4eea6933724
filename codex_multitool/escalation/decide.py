"""May this exec run, and where? One pure and total function for both ways of interception.

The strictest rule wins. `allow` means outside the sandbox, and only for a program the sandbox
could not have written; whatever no rule names runs inside.
"""

from collections.abc import Sequence
from os.path import basename
from typing import NamedTuple

from codex_multitool.escalation.dangerous import danger
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.evaluate import judge, strictest
from codex_multitool.execpolicy.rules import Decision, Policy, RuleMatch


class ExecRequest(NamedTuple):
    """One exec, as the server itself saw it.

    programs: the absolute paths the program goes by, canonical path first, then the path asked
    for if it is another. argv: argv[0] included, perhaps empty; argv[0] is never trusted.
    interpreters: further commands this exec amounts to (a script's interpreter, what an ELF
    loader loads), each a program path and its arguments: rules can forbid or ask by them, never
    allow. untrusted: why an allow rule must not lift the program out of the sandbox, or None.
    replaceable: why one that only knows its base name must not.
    """

    programs: tuple[str, ...]
    argv: tuple[str, ...]
    workdir: str
    interpreters: tuple[tuple[str, ...], ...] = ()
    untrusted: str | None = None
    replaceable: str | None = None


class Run(NamedTuple):
    """Runs inside the sandbox. note: why it does not leave it although a rule allows, or None."""

    note: str | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.note == other.note

    def __hash__(self) -> int:
        return hash(self.note)


class Escalate(NamedTuple):
    """Runs outside the sandbox.

    name: which of the request's programs the rule is about. Many a program does what argv[0] says,
    so it has to be called by this one. justification: the rule's, in its author's words.
    """

    rule: str
    name: str = ""
    justification: str | None = None

    def called(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The argv with which it may run."""
        if argv and basename(argv[0]) == basename(self.name):
            return argv
        return (self.name, *argv[1:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Escalate) and self.rule == other.rule

    def __hash__(self) -> int:
        return hash(self.rule)


class Deny(NamedTuple):
    """Does not run. reason: for the program's stderr and the result."""

    reason: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deny) and self.reason == other.reason

    def __hash__(self) -> int:
        return hash(self.reason)


class Ask(NamedTuple):
    """A human decides. accepted: what an acceptance means. because: the rule or the danger.

    how_to_allow: what to do when nobody can be asked; a model reads it, so it names what only the
    user can do. own_shell_only: asked only if the call's own shell does the exec; what a script or
    make does below it runs unasked, inside.
    """

    accepted: Run | Escalate
    because: str
    how_to_allow: str
    own_shell_only: bool = False


Verdict = Run | Escalate | Deny | Ask


def decide(judgement: Judgement, request: ExecRequest) -> Verdict:
    """The verdict on one exec."""
    matches = _matches(judgement, request)
    match strictest(matches):
        case Decision.FORBIDDEN:
            return Deny(_forbidden(matches))
        case Decision.PROMPT:
            escalate = _escalate(request, matches, Decision.PROMPT)
            return Ask(
                escalate,
                because=escalate.rule,
                how_to_allow='only the user can give it decision="allow", or a client that asks',
            )
        case Decision.ALLOW:
            escalate = _escalate(request, matches, Decision.ALLOW)
            if request.untrusted is not None:
                why = f"it stays in the sandbox: {request.untrusted}"
                return Run(f"{escalate.rule} allows it, but {why}")
            if request.replaceable is not None and not _named(judgement.policy, matches):
                path = request.programs[0]
                name = f'host_executable(name="{basename(path)}", paths=["{path}"])'
                why = f"it stays in the sandbox: {request.replaceable}; a rule {name} trusts it"
                return Run(f"{escalate.rule} allows it by its base name, but {why}")
            return escalate
        case None:
            return _unmatched(judgement, request)


def resolve(ask: Ask, action: str, reason: str | None = None) -> Run | Escalate | Deny:
    """What an answer to `ask` means; action is accept, decline, cancel, or anything else."""
    match action:
        case "accept":
            return ask.accepted
        case "decline":
            return Deny(_because("User declined execution", reason))
        case "cancel":
            return Deny(_because("User cancelled execution", reason))
        case _:
            return Deny(f"nobody can be asked ({ask.because}): {reason or ask.how_to_allow}")


def leaves(verdict: Verdict) -> bool:
    """Whether the program leaves the sandbox, at once or if a human agrees."""
    accepted = verdict.accepted if isinstance(verdict, Ask) else verdict
    return isinstance(accepted, Escalate)


def unless_agreed(verdict: Verdict, changes: str) -> Verdict:
    """The verdict where the sandbox wrote what programs outside obey, told as a sentence."""
    accepted = verdict.accepted if isinstance(verdict, Ask) else verdict
    if not isinstance(accepted, Escalate):
        return verdict
    return Ask(
        accepted,
        because=f"{accepted.rule}; {changes}",
        how_to_allow="undo that; or the user has to agree, in a client that asks",
    )


def leaves_untrusted(request: ExecRequest, verdict: Verdict) -> bool:
    """Whether a human is about to be asked to let out what the sandbox could change meanwhile."""
    return (
        isinstance(verdict, Ask)
        and isinstance(verdict.accepted, Escalate)
        and request.untrusted is not None
    )


def unfixed(request: ExecRequest, error: OSError) -> Deny:
    """The verdict on a program that could change while a human is asked about it."""
    why = error.strerror
    return Deny(f"{request.programs[0]} cannot be kept as it is while you are asked: {why}")


def describe(match: RuleMatch) -> str:
    """A rule as people know it: file, line and the words it matched."""
    words = " ".join(match.matched_prefix)
    where = match.rule.location
    return f"rule `{words}`" + (f" ({where.path}:{where.line})" if where else "")


def _matches(judgement: Judgement, request: ExecRequest) -> tuple[RuleMatch, ...]:
    preserve = judgement.preserve_program_paths
    arguments = request.argv[1:]
    found: list[RuleMatch] = []
    for program in request.programs:
        found += judge(judgement.policy, program, arguments, preserve_program_paths=preserve)
    for command in request.interpreters:
        found += (
            match
            for match in judge(
                judgement.policy, command[0], command[1:], preserve_program_paths=preserve
            )
            if match.decision is not Decision.ALLOW
        )
    return tuple(found)


def _unmatched(judgement: Judgement, request: ExecRequest) -> Run | Ask:
    if not judgement.ask_when_dangerous:
        return Run()
    dangers = (danger((program, *request.argv[1:])) for program in request.programs)
    why = next(filter(None, dangers), None)
    if why is None:
        return Run()
    return Ask(
        Run(),
        because=why,
        how_to_allow="only the user can allow it: by a rule, in a client that asks, or by starting "
        "the server with --dangerous-commands=run",
        own_shell_only=True,
    )


def _escalate(request: ExecRequest, matches: Sequence[RuleMatch], decision: Decision) -> Escalate:
    deciding = _deciding(matches, decision)
    names = [
        match.resolved_program or match.matched_prefix[0]
        for match in matches
        if match.decision is decision and match.rule is deciding.rule
    ]
    names = [name for name in names if name in request.programs] or [request.programs[0]]
    called = basename(request.argv[0]) if request.argv else ""
    name = next((name for name in names if basename(name) == called), names[0])
    return Escalate(describe(deciding), name, deciding.rule.justification)


def _deciding(matches: Sequence[RuleMatch], decision: Decision) -> RuleMatch:
    return max(
        (match for match in matches if match.decision is decision),
        key=lambda match: len(match.matched_prefix),
    )


def _named(policy: Policy, matches: Sequence[RuleMatch]) -> bool:
    """Whether the user has named the very file: in an allow rule, or as a host executable."""
    return any(
        match.resolved_program is None
        or basename(match.resolved_program) in policy.host_executables
        for match in matches
        if match.decision is Decision.ALLOW
    )


def _forbidden(matches: Sequence[RuleMatch]) -> str:
    match = _deciding(matches, Decision.FORBIDDEN)
    return _because(
        "Execution forbidden by policy",
        "; ".join(filter(None, (match.rule.justification, describe(match)))),
    )


def _because(what: str, why: str | None) -> str:
    return f"{what}: {why}" if why else what
