"""What execs are judged by — pure."""

from typing import NamedTuple

from codex_multitool.execpolicy.rules import Decision, Policy


class Judgement(NamedTuple):
    """How to judge: the rules and the user's options."""

    policy: Policy
    preserve_program_paths: bool = False
    ask_when_dangerous: bool = True

    @property
    def restricts(self) -> bool:
        """Whether any rule forbids or asks."""
        rules = (rule for rules in self.policy.rules.values() for rule in rules)
        return any(rule.decision is not Decision.ALLOW for rule in rules)
