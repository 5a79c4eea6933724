"""One command, explained: what file it would run, by which names that is judged, which rules
were considered, and what they come to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from codex_multitool.escalation.decide import ExecRequest
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.evaluate import judge
from codex_multitool.execpolicy.rules import PrefixRule
from codex_multitool.running.judged import Judged


@dataclass(frozen=True, slots=True)
class Considered:
    """A rule for one of the names. under: that name. counts: whether it covers the command and
    may have a say; because: why it has none."""

    rule: PrefixRule
    under: str
    counts: bool
    because: str


def considered(judgement: Judgement, request: ExecRequest) -> Iterator[Considered]:
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


def to_text(judgement: Judgement, judged: Judged) -> str:
    """The explanation for people."""
    request = judged.request
    rules = list(considered(judgement, request))
    lines = [shlex.join(judged.command)]
    if judged.installed:
        lines.append(f"  program   {request.programs[0]}")
    else:
        lines.append(f"  program   none here; by its name, as {request.programs[0]}")
    lines += [f"  also      {name}" for name in request.programs[1:]]
    lines += [f"  runs      {shlex.join(words)}" for words in request.interpreters]
    lines.append(f"  trusted   {_trust(request)}")
    lines += [f"  rule      {_rule_text(it)}" for it in rules]
    if not rules:
        lines.append("  rule      none for any of these names")
    lines += [f"  starts    {shlex.join(it.command)}: {it.decision}" for it in judged.starts]
    lines.append(f"  decision  {judged.decision}: {judged.reason}")
    return "\n".join(lines)


def _trust(request: ExecRequest) -> str:
    if request.untrusted is not None:
        return f"no: {request.untrusted}"
    if request.replaceable is not None:
        return f"not by its base name alone: {request.replaceable}"
    return "yes"


def _rule_text(considered: Considered) -> str:
    rule = considered.rule
    left_out = "" if considered.counts else f" (does not count: {considered.because})"
    return f"{rule.location}: {_pattern(rule)}: {rule.decision.word}{left_out}"


def _pattern(rule: PrefixRule) -> str:
    return " ".join("|".join(map(shlex.quote, accepted)) for accepted in rule.pattern)


def to_object(judgement: Judgement, judged: Judged) -> dict[str, object]:
    """The explanation as JSON."""
    request = judged.request
    return {
        "command": list(judged.command),
        "installed": judged.installed,
        "programs": list(request.programs),
        "interpreters": [list(words) for words in request.interpreters],
        "untrusted": request.untrusted,
        "replaceable": request.replaceable,
        "rules": [
            {
                "location": str(it.rule.location),
                "under": it.under,
                "pattern": [list(accepted) for accepted in it.rule.pattern],
                "decision": it.rule.decision.word,
                "counts": it.counts,
                **({"because": it.because} if it.because else {}),
            }
            for it in considered(judgement, request)
        ],
        "starts": [to_object(judgement, it) for it in judged.starts],
        "decision": judged.decision,
        "reason": judged.reason,
    }
