"""Shells that ask our server themselves: a wrapper is started for what is more than Run, alone."""

from __future__ import annotations

import pytest

from tests.end_to_end.client import ShellResult
from tests.end_to_end.rig import (
    FULL_ACCESS,
    ONLY_WORKSPACE,
    ORIGINAL,
    OUR_WRAPPED_PAIRINGS,
    READ_ONLY,
    Pairing,
    Start,
    over,
)

NO_WRAPPER = ("--execve", "/bin/false")
RULES = """
prefix_rule(pattern=["env", "allowed"], decision="allow")
prefix_rule(pattern=["env", "asked"], decision="prompt")
prefix_rule(pattern=["env", "forbidden"], decision="forbidden")
"""
SCRIPT = """
for i in 1 2 3; do /bin/echo $i | /bin/cat; done
env forbidden; echo $?
env asked; echo $?
env allowed; echo $?
exec env echo end
"""


def decisions(result: ShellResult) -> list[str]:
    assert result.structured is not None
    return [decision["decision"] for decision in result.structured["decisions"]]


@over(OUR_WRAPPED_PAIRINGS)
@pytest.mark.parametrize("policy", [READ_ONLY, ONLY_WORKSPACE, FULL_ACCESS], ids=str)
def test_what_simply_runs_starts_no_wrapper(
    pairing: Pairing, start: Start, policy: dict[str, object]
) -> None:
    client = start(pairing, rules=RULES, policy=policy, options=NO_WRAPPER)
    result = client.shell(SCRIPT)
    assert result.output == "1\n2\n3\n1\n1\n1\nend\n"
    assert client.questions == []
    assert decisions(result) == []


@over(OUR_WRAPPED_PAIRINGS)
def test_all_else_is_asked_and_told_once(pairing: Pairing, start: Start) -> None:
    client = start(pairing, rules=RULES)
    result = client.shell(SCRIPT)
    # 127: there is no program of that name, but env ran
    statuses = [line for line in result.lines if line.isdecimal() or line == "end"]
    assert statuses == ["1", "2", "3", "1", "127", "127", "end"]
    assert result.output.count("Execution denied: ") == 1
    assert len(client.questions) == 1
    assert decisions(result) == ["deny", "escalate", "escalate"]


@over(OUR_WRAPPED_PAIRINGS)
def test_a_shell_that_is_told_not_to_ask_starts_the_wrapper(pairing: Pairing, start: Start) -> None:
    client = start(pairing, options=NO_WRAPPER, env={"EXEC_WRAPPER_ALWAYS": "1"})
    assert client.shell("/bin/echo ran; echo $?").output == "1\n"


@over([Pairing(server=ORIGINAL), Pairing(server=ORIGINAL, shell="zsh")])
def test_a_server_of_another_make_is_never_asked_by_a_shell(pairing: Pairing, start: Start) -> None:
    """Though its shell inherits what one of ours told, as in a command of ours."""
    env = {"CODEX_ESCALATE_SHELL_SOCKET": "197"}
    client = start(pairing, rules=RULES, env=env)
    result = client.shell("env echo $CODEX_ESCALATE_SHELL_SOCKET; env asked; echo $?")
    assert "197\n" in result.output
    assert len(client.questions) == 1
