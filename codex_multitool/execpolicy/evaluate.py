"""What a policy says about a command: every rule that covers it, and the strictest decision.

Two questions are answered. `matches` speaks the rules language: what `execpolicy check`
prints and what examples are tested by. `judge` is for a program that is about to run and
whose real path is known; there a rule may restrict by name but not be fooled by one.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence

from codex_multitool.execpolicy.rules import (
    Decision,
    Policy,
    PrefixRule,
    RuleMatch,
    normal_path,
)


def matches(
    policy: Policy,
    command: Sequence[str],
    *,
    resolve_host_executables: bool,
    cwd: str | None = None,
) -> tuple[RuleMatch, ...]:
    """The rules that cover `command`, in file order.

    Rules are looked up under the first token as it stands. Only if none covers the command,
    and `resolve_host_executables` is set, the first token is taken as a path (relative ones
    start at `cwd`; without it they are no path) and rules for its base name count, unless a
    host_executable for that name lists other paths only.
    """
    exact = _covering(policy, command, resolved_program=None)
    if exact or not resolve_host_executables or not command:
        return exact
    program = _absolute(command[0], cwd)
    if program is None or not _may_be(policy, program):
        return ()
    named = (os.path.basename(program), *command[1:])
    return _covering(policy, named, resolved_program=program)


def judge(
    policy: Policy, program: str, arguments: Sequence[str], *, preserve_program_paths: bool
) -> tuple[RuleMatch, ...]:
    """The rules that count for running the file `program`; the strictest one decides.

    program: absolute path of the file that would run. arguments: argv without argv[0].

    Rules on the full path and rules on its base name count together, so that neither kind
    hides the other: a prompt or forbidden rule on the base name holds wherever the file
    lies; an allow rule on the base name holds unless a host_executable for that name lists
    other paths only. With `preserve_program_paths` only rules on the full path count.
    """
    by_path = _covering(policy, (program, *arguments), resolved_program=None)
    if preserve_program_paths:
        return by_path
    named = (os.path.basename(program), *arguments)
    by_name = _covering(policy, named, resolved_program=program)
    if not _may_be(policy, program):
        by_name = tuple(match for match in by_name if match.decision is not Decision.ALLOW)
    return by_path + by_name


def strictest(matched: Iterable[RuleMatch]) -> Decision | None:
    """The strictest decision among matches; None if there are none."""
    return max((match.decision for match in matched), default=None)


def to_object(matched: Sequence[RuleMatch]) -> dict[str, object]:
    """The JSON object that `execpolicy check` prints for these matches."""
    listed: dict[str, object] = {
        "matchedRules": [{"prefixRuleMatch": _match_object(match)} for match in matched]
    }
    decision = strictest(matched)
    return listed if decision is None else {**listed, "decision": decision.word}


def _match_object(match: RuleMatch) -> dict[str, object]:
    members: dict[str, object] = {
        "matchedPrefix": list(match.matched_prefix),
        "decision": match.decision.word,
    }
    if match.resolved_program is not None:
        members["resolvedProgram"] = match.resolved_program
    if match.rule.justification is not None:
        members["justification"] = match.rule.justification
    return members


def _covering(
    policy: Policy, command: Sequence[str], *, resolved_program: str | None
) -> tuple[RuleMatch, ...]:
    rules: tuple[PrefixRule, ...] = policy.rules.get(command[0], ()) if command else ()
    return tuple(
        RuleMatch(tuple(command[: len(rule.pattern)]), rule.decision, resolved_program, rule)
        for rule in rules
        if rule.matches(command)
    )


def _absolute(program: str, cwd: str | None) -> str | None:
    if program.startswith("/"):
        return normal_path(program)
    return None if cwd is None else normal_path(f"{cwd}/{program}")


def _may_be(policy: Policy, program: str) -> bool:
    """Whether the file `program` may count as what its base name says."""
    listed = policy.host_executables.get(os.path.basename(program))
    return listed is None or normal_path(program) in listed
