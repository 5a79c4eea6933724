"""Agents from npm run a script through the server: in a terminal where they have a human to ask.

What each needs is what `mcp-config --write` gives it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests import peer
from tests.clients import agents
from tests.clients.agents import Agent
from tests.clients.stage import Outcome, play

Cell = Callable[[str], None]
OWN_SHELLS = {"shell", "exec_command", "local_shell", "unified_exec", "Bash", "bash"} | {
    "run_shell_command"
}

TERMINALS = [agents.CODEX, agents.CODEX_FIRST, agents.CLAUDE]
HEADLESS = list(agents.AGENTS)


@functools.cache
def outcome(agent: Agent, terminal: bool) -> Outcome | peer.Unavailable | str:
    """What came of the script, or the reason why nothing did; played once."""
    try:
        agent.install()
        if terminal and shutil.which("tmux") is None:
            return peer.Unavailable("tmux is not installed")
        return play(agent, terminal=terminal)
    except peer.Unavailable as reason:
        return reason
    except (AssertionError, OSError, subprocess.SubprocessError) as reason:
        return str(reason)


def came_of(agent: Agent, terminal: bool) -> Outcome:
    """What came of the script; skips, or fails, where nothing did."""
    found = outcome(agent, terminal)
    if isinstance(found, peer.Unavailable):
        pytest.skip(f"{agent.name} {agent.version}: {found}")
    if isinstance(found, str):
        pytest.fail(found)
    return found


def _named(agent: Agent) -> str:
    return f"{agent.config}-{agent.version}"


over_terminals = pytest.mark.parametrize("agent", TERMINALS, ids=_named)
over_headless = pytest.mark.parametrize("agent", HEADLESS, ids=_named)


def both(test: Callable[..., None]) -> Callable[..., None]:
    """Run the test over each agent in a terminal, and over each without one."""
    ways = [(agent, True) for agent in TERMINALS] + [(agent, False) for agent in HEADLESS]
    ids = [f"{_named(agent)}-{'terminal' if way else 'headless'}" for agent, way in ways]
    run: Callable[..., None] = pytest.mark.parametrize(("agent", "terminal"), ways, ids=ids)(test)
    return run


@both
def test_a_command_runs(agent: Agent, terminal: bool) -> None:
    played = came_of(agent, terminal)
    assert "hello" in played.results["command"]
    assert "made" in played.made


@both
def test_its_own_shell_is_not_offered(agent: Agent, terminal: bool) -> None:
    assert not OWN_SHELLS & set(came_of(agent, terminal).offered)


@over_terminals
def test_a_question_is_shown(agent: Agent) -> None:
    played = came_of(agent, True)
    assert len(played.questions) == 2
    for what, shown in zip(("accepted", "declined"), played.questions, strict=True):
        assert f"/mkdir {what}" in shown
        assert str(played.project) in shown
        assert "default.rules:1" in shown
        assert "folders are asked about" in shown
        assert "leaves the sandbox" in shown


@over_terminals
def test_what_is_allowed_runs(agent: Agent) -> None:
    assert "accepted" in came_of(agent, True).made


@over_terminals
def test_what_is_declined_does_not_run_and_says_so(agent: Agent) -> None:
    played = came_of(agent, True)
    assert "declined" not in played.made
    assert "denied" in played.results["declined"]
    assert "went on" in played.results["declined"]


@over_headless
def test_without_a_human_a_question_is_a_no(agent: Agent) -> None:
    played = came_of(agent, False)
    assert not {"accepted", "declined"} & set(played.made)
    assert "denied" in played.results["accepted"]


@both
def test_what_is_forbidden_says_why(agent: Agent, terminal: bool) -> None:
    refused = came_of(agent, terminal).results["refusal"]
    assert "people push" in refused
    assert "went on" in refused
