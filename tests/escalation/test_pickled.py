"""What a front and its keepers hand each other survives the way."""

from __future__ import annotations

import pickle
from types import MappingProxyType

import pytest

from codex_multitool.escalation.decide import (
    Ask,
    Deny,
    Escalate,
    ExecRequest,
    Run,
    decide,
)
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.protected import WROTE, Change
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.escalation.watch import Finding
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Policy

RULES = """
prefix_rule(pattern=["ls", ["-l", "-a"]], decision="allow", justification="harmless")
prefix_rule(pattern=["rm"], decision="forbidden")
host_executable(name="ls", paths=["/bin/ls"])
network_rule(host="example.org", protocol="https", decision="allow")
"""
CHANGE = Change(WROTE, "/ws/.envrc", doubtful=True)
REQUEST = ExecRequest(("/bin/ls",), ("ls", "-l", "\udcff"), "/ws", (("/bin/sh", "x"),), "no", "yes")


@pytest.mark.parametrize(
    "value",
    [
        REQUEST,
        Run("note"),
        Escalate("rule", "/bin/ls", "harmless"),
        Deny("reason"),
        Ask(Escalate("rule", "/bin/ls"), "because", "how", own_shell_only=True),
        Question("/bin/ls", ("ls",), "/ws", "rule", outside=True, changes=(CHANGE,)),
        Verdict("/bin/ls", ("ls",), "escalate", "rule"),
        Finding((CHANGE,), 7),
        Finding(),
        CHANGE,
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_is_the_same_afterwards(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_rules_judge_alike_afterwards() -> None:
    judgement = Judgement(parse([Source("x.rules", RULES)]), ask_when_dangerous=False)
    again = pickle.loads(pickle.dumps(judgement))
    assert again == judgement
    assert isinstance(again.policy.rules, MappingProxyType)
    assert decide(again, REQUEST) == decide(judgement, REQUEST)
    assert pickle.loads(pickle.dumps(Policy())) == Policy()
