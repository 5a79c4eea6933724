"""What of the rules is about files that are not there, or have another name."""

from __future__ import annotations

import os
from collections.abc import Iterator

from codex_multitool.execpolicy.rules import Decision, Location, Policy, PrefixRule, RulesError


def warnings(policy: Policy) -> Iterator[str]:
    """What the user should know of it.

    Raises RulesError for a rule that would restrict a command line that is written as one path.
    """
    calls: dict[Location, list[PrefixRule]] = {}
    for listed in policy.rules.values():
        for rule in listed:
            if rule.location is not None and rule.pattern[0][0].startswith("/"):
                calls.setdefault(rule.location, []).append(rule)
    for location, rules in calls.items():
        yield from (f"{location}: {told}" for told in _told(policy, location, rules))
    for name, paths in policy.host_executables.items():
        if paths and not any(map(os.path.exists, paths)):
            yield f'host_executable("{name}"): no file of these is there: {", ".join(paths)}'


def _told(policy: Policy, location: Location, rules: list[PrefixRule]) -> Iterator[str]:
    there = [rule for rule in rules if os.path.exists(rule.pattern[0][0])]
    for rule in rules if not there else ():
        path = rule.pattern[0][0]
        program, blank, rest = path.partition(" ")
        if blank and os.path.isfile(program) and rule.decision is not Decision.ALLOW:
            what = f'invalid rule: "{path}" is one word, and covers no command line'
            raise RulesError(location, what, f'write "{program}", "{rest}"')
        yield f"{path} is not there: the rule covers nothing until it is"
    for rule in there:
        path = rule.pattern[0][0]
        real = os.path.realpath(path)
        if os.path.isdir(path):
            yield f"{path} is a folder: the rule covers nothing"
        elif real != path and rule.decision is not Decision.ALLOW and real not in policy.rules:
            yield f"{path} leads to {real}: who calls it by that name is not covered; write both"
