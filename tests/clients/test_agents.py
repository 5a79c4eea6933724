"""Agents from npm run a script through the server: in a terminal where they have a human to ask.

What each needs is what `mcp-config --write` gives it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from tests import peer
from tests.clients import agents
from tests.clients.agents import Agent, Way
from tests.clients.stage import LINES, Outcome, arriving_once, play
from tests.executables import ROOT

OWN_SHELLS = {"shell", "exec_command", "local_shell", "unified_exec", "Bash", "bash"} | {
    "run_shell_command"
}

TERMINALS = [(agent, Way.TERMINAL) for agent in agents.AGENTS if agent.dialog]
HEADLESS = [(agent, Way.HEADLESS) for agent in agents.AGENTS]


@functools.cache
def outcome(agent: Agent, way: Way) -> Outcome | peer.Unavailable | str:
    """What came of the script, or the reason why nothing did; played once."""
    try:
        agent.install()
        if way is Way.TERMINAL and shutil.which("tmux") is None:
            return peer.Unavailable("tmux is not installed")
        return play(agent, way)
    except peer.Unavailable as reason:
        return reason
    except (AssertionError, OSError, subprocess.SubprocessError) as reason:
        return str(reason)


def came_of(agent: Agent, way: Way) -> Outcome:
    """What came of the script; skips, or fails, where nothing did."""
    found = outcome(agent, way)
    if isinstance(found, peer.Unavailable):
        pytest.skip(f"{agent.name} {agent.version}: {found}")
    if isinstance(found, str):
        pytest.fail(found)
    return found


def over(ways: Sequence[tuple[Agent, Way]]) -> pytest.MarkDecorator:
    """Run the test over these agents, each in its way."""
    ids = [f"{agent.config}-{agent.version}-{way.name.lower()}" for agent, way in ways]
    return pytest.mark.parametrize(("agent", "way"), ways, ids=ids, scope="module")


@pytest.mark.feature("a command", "runs")
@over([*TERMINALS, *HEADLESS])
def test_a_command_runs(agent: Agent, way: Way) -> None:
    played = came_of(agent, way)
    assert "hello" in played.results["command"]
    assert "made" in played.made


@pytest.mark.feature("its own shell", "not offered")
@over([*TERMINALS, *HEADLESS])
def test_its_own_shell_is_not_offered(agent: Agent, way: Way) -> None:
    assert not OWN_SHELLS & set(came_of(agent, way).offered)


@pytest.mark.feature("a question", "shown")
@over(TERMINALS)
def test_a_question_is_shown(agent: Agent, way: Way) -> None:
    played = came_of(agent, way)
    assert len(played.questions) == 2
    for what, shown in zip(("accepted", "declined"), played.questions, strict=True):
        assert f"/mkdir {what}" in shown
        assert str(played.project) in shown
        assert "default.rules:1" in shown
        assert "folders are asked about" in shown
        assert "leaves the sandbox" in shown


@pytest.mark.feature("allowed", "runs")
@over(TERMINALS)
def test_what_is_allowed_runs(agent: Agent, way: Way) -> None:
    assert "accepted" in came_of(agent, way).made


@pytest.mark.feature("denied", "refused")
@over(TERMINALS)
def test_what_is_denied_does_not_run_and_says_so(agent: Agent, way: Way) -> None:
    played = came_of(agent, way)
    assert "declined" not in played.made
    assert "denied" in played.results["declined"]


@pytest.mark.feature("a question", "is a no")
@over(HEADLESS)
def test_without_a_human_a_question_is_a_no(agent: Agent, way: Way) -> None:
    played = came_of(agent, way)
    assert not {"accepted", "declined"} & set(played.made)
    assert "denied" in played.results["accepted"]


@pytest.mark.feature("forbidden", "says why")
@over([*TERMINALS, *HEADLESS])
def test_what_is_forbidden_says_why(agent: Agent, way: Way) -> None:
    refused = came_of(agent, way).results["refusal"]
    assert "people push" in refused
    assert "went on" in refused


@pytest.mark.feature("2,000 lines", "arrive once")
@over([*TERMINALS, *HEADLESS])
def test_2000_lines_arrive_once_and_the_rest_is_named(agent: Agent, way: Way) -> None:
    played = came_of(agent, way)
    count = arriving_once(played.results["lines"])
    assert count == LINES or str(LINES) in played.results["rest"]


def test_the_sandbox_is_the_one_chosen_in_codex() -> None:
    try:
        agents.CODEX.install()
    except peer.Unavailable as reason:
        pytest.skip(f"{agents.CODEX}: {reason}")
    script = {"command": "touch made; echo went on"}
    played = play(agents.CODEX, Way.HEADLESS, script, ["--sandbox", "read-only"])
    assert played.made == []
    assert "went on" in played.results["command"]


@pytest.mark.parametrize("agent", agents.AGENTS, ids=str)
def test_the_page_speaks_of_this_version(agent: Agent) -> None:
    page = (ROOT / "docs" / "how-to" / "clients.md").read_text()
    assert f"| {agent} {Way.HEADLESS} |" in page
    assert f"| {agent} | " in page
