"""One command, explained: what file it would run, by which names that is judged, which rules
were considered, and what they come to."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from codex_multitool.escalation.decide import Ask, Deny, Escalate, ExecRequest, Judgement, decide
from codex_multitool.escalation.decide import Verdict as Decided
from codex_multitool.escalation.identity import absolute, exec_request
from codex_multitool.escalation.shell_script import simple_commands
from codex_multitool.execpolicy.evaluate import judge
from codex_multitool.execpolicy.rules import PrefixRule
from codex_multitool.interception.resolve import View
from codex_multitool.interception.tracee import Opened


class ExplainError(Exception):
    """A command that cannot be explained; the text says why."""


@dataclass(frozen=True, slots=True)
class Considered:
    """A rule for one of the names. under: that name. counts: whether it covers the command and
    may have a say; because: why it has none."""

    rule: PrefixRule
    under: str
    counts: bool
    because: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """One command. request: as it is judged; None if there is no such program."""

    command: tuple[str, ...]
    request: ExecRequest | None
    considered: tuple[Considered, ...]
    decision: str
    reason: str


def commands_of(words: Sequence[str]) -> list[list[str]]:
    """The commands meant: the words, or if that is one word with blanks, those of the script."""
    if len(words) == 1 and any(character in words[0] for character in " \t\n;|&"):
        found = simple_commands(words[0])
        if not found:
            raise ExplainError("no command is found in this script")
        return found
    return [list(words)]


def explain(
    judgement: Judgement, command: Sequence[str], *, workdir: str, writable: Sequence[str]
) -> Explanation:
    """What would become of one command in `workdir`."""
    words = tuple(command)
    with ExitStack() as stack:
        view = View(os.getpid(), os.getpid())
        stack.callback(view.close)
        folder = os.open(workdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        opened = Opened(view, folder)
        stack.callback(opened.close)
        name = words[0] if "/" in words[0] else shutil.which(words[0])
        if name is not None and "\0" not in name:
            opened.find(name)
        if name is None or opened.program is None:
            why = f"no program {words[0]}: a builtin of the shell, or nothing"
            return Explanation(words, None, (), "none", why)
        opened.load(name, words, lambda: [f"{key}={value}" for key, value in os.environ.items()])
        request = exec_request(
            opened.program,
            absolute(name, workdir),
            words,
            workdir,
            writable,
            executed=opened.argv_executed(name, words),
            interpreters=opened.interpreters,
            loaded=opened.loaded,
        )
    decision, reason = _told(decide(judgement, request))
    considered = tuple(_considered(judgement, request))
    return Explanation(words, request, considered, decision, reason)


def _told(verdict: Decided) -> tuple[str, str]:
    match verdict:
        case Escalate(rule=rule):
            return "escalate", rule
        case Deny(reason=reason):
            return "deny", reason
        case Ask(accepted=accepted, because=because):
            where = "outside" if isinstance(accepted, Escalate) else "in"
            return "ask", f"{because}; if accepted, it runs {where} the sandbox"
        case _:
            return "run", verdict.note or "no rule names it: it runs in the sandbox"


def _considered(judgement: Judgement, request: ExecRequest) -> Iterator[Considered]:
    """Every rule for a name of the command, whether or not it covers it."""
    commands = [(program, *request.argv[1:]) for program in request.programs]
    for command in [*commands, *request.interpreters]:
        may_allow = command in commands
        yield from _for_command(judgement, command, may_allow)


def _for_command(
    judgement: Judgement, command: tuple[str, ...], may_allow: bool
) -> Iterator[Considered]:
    preserve = judgement.preserve_program_paths
    policy = judgement.policy
    counting = judge(policy, command[0], command[1:], preserve_program_paths=preserve)
    names = (command[0],) if preserve else (command[0], os.path.basename(command[0]))
    for name in names:
        for rule in policy.rules.get(name, ()):
            counts, because = True, ""
            if not rule.matches((name, *command[1:])):
                counts, because = False, "other words follow"
            elif not any(match.rule is rule for match in counting):
                counts, because = False, f"host_executable lists other paths for {name}"
            elif not may_allow and rule.decision.word == "allow":
                counts, because = False, "it is the interpreter's, or a name the sandbox can write"
            yield Considered(rule, name, counts, because)


def to_text(explanation: Explanation) -> str:
    """The explanation for people."""
    request = explanation.request
    lines = [shlex.join(explanation.command)]
    if request is not None:
        trust = "yes"
        if request.untrusted is not None:
            trust = f"no: {request.untrusted}"
        elif request.replaceable is not None:
            trust = f"not by its base name alone: {request.replaceable}"
        lines.append(f"  program   {request.programs[0]}")
        lines += [f"  also      {name}" for name in request.programs[1:]]
        lines += [f"  runs      {shlex.join(words)}" for words in request.interpreters]
        lines.append(f"  trusted   {trust}")
        lines += [f"  rule      {_rule_text(it)}" for it in explanation.considered]
        if not explanation.considered:
            lines.append("  rule      none for any of these names")
    lines.append(f"  decision  {explanation.decision}: {explanation.reason}")
    return "\n".join(lines)


def _rule_text(considered: Considered) -> str:
    rule = considered.rule
    left_out = "" if considered.counts else f" (does not count: {considered.because})"
    return f"{rule.location}: {_pattern(rule)}: {rule.decision.word}{left_out}"


def _pattern(rule: PrefixRule) -> str:
    return " ".join("|".join(map(shlex.quote, accepted)) for accepted in rule.pattern)


def to_object(explanation: Explanation) -> dict[str, object]:
    """The explanation as JSON."""
    request = explanation.request
    found: dict[str, object] = {"command": list(explanation.command)}
    if request is not None:
        found["programs"] = list(request.programs)
        found["interpreters"] = [list(words) for words in request.interpreters]
        found["untrusted"] = request.untrusted
        found["replaceable"] = request.replaceable
    found["rules"] = [
        {
            "location": str(it.rule.location),
            "under": it.under,
            "pattern": [list(accepted) for accepted in it.rule.pattern],
            "decision": it.rule.decision.word,
            "counts": it.counts,
            **({"because": it.because} if it.because else {}),
        }
        for it in explanation.considered
    ]
    return {**found, "decision": explanation.decision, "reason": explanation.reason}
