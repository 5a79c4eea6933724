"""One script, played by every client: what of it reached the model, and what a human saw."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codex_multitool import roles
from tests.clients.agents import PROMPT, Agent, Home, Way
from tests.clients.model import DONE, Line, Model, is_ours, playing
from tests.clients.screen import DEADLINE, Screen, gone, shown
from tests.executables import built

RULES = """\
prefix_rule(pattern=["mkdir"], decision="prompt", justification="folders are asked about")
prefix_rule(pattern=["git", "push"], decision="forbidden", justification="people push")
"""
LINES = 2000


def _rest(results: Sequence[str]) -> str:
    """Count the lines of the file that the last result names."""
    named = [name for name in re.findall(r"/[\w./+@-]+", results[-1]) if Path(name).is_file()]
    return f"wc -l < {named[-1]}" if named else "echo no file is named"


# In this order; the keys name what is seen of each.
SCRIPT: dict[str, Line] = {
    "command": "echo hello; touch made",
    "accepted": "mkdir accepted",
    "declined": "mkdir declined; echo went on",
    "refusal": "git push; echo went on",
    "lines": f"seq -f line-%g {LINES}",
    "rest": _rest,
}


def arriving_once(text: str) -> int:
    """How many of the lines are there; the first and the last must be, and none twice."""
    numbers = [int(it) for it in re.findall(r"line-(\d+)", text)]
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (1, LINES)
    return len(numbers)


@dataclass(slots=True)
class Outcome:
    """What came of the script."""

    project: Path
    results: dict[str, str] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)  # besides ours
    made: list[str] = field(default_factory=list)  # in the project


def configure(agent: Agent, home: Home) -> dict[str, str]:
    """Set it up as a user does who has it already, and then `mcp-config`; gives its variables."""
    environ = home.environ(**agent.set_up(home))
    program = Path(agent.install()[0])
    tool = built() / roles.CLI
    subprocess.run(
        [tool, "mcp-config", agent.config, "--write"],
        env={**environ, "PATH": f"{program.parent}:{environ['PATH']}"},
        cwd=home.project,
        capture_output=True,
        check=True,
        timeout=DEADLINE,
    )
    return environ


def play(
    agent: Agent, way: Way, script: Mapping[str, Line] = SCRIPT, options: Sequence[str] = ()
) -> Outcome:
    """Let the agent play the script."""
    # Not in /tmp: it is writable under workspace-write.
    with tempfile.TemporaryDirectory(
        prefix="codex-client-", dir="/var/tmp", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        project = folder / "project"
        project.mkdir()
        with playing(list(script.values()), str(project)) as model:
            home = Home(folder, project, model.url)
            home.write(".codex/rules/default.rules", RULES)
            environ = configure(agent, home)
            outcome = Outcome(project)
            if way is Way.TERMINAL:
                outcome.questions = _in_terminal(agent, home, environ, model)
            else:
                _headless(agent, home, environ, options)
        outcome.results = dict(zip(script, model.results, strict=False))
        outcome.offered = [str(tool.get("name")) for tool in model.tools if not is_ours(tool)]
        outcome.made = sorted(path.name for path in project.iterdir())
        return outcome


def _headless(agent: Agent, home: Home, environ: dict[str, str], options: Sequence[str]) -> None:
    done = subprocess.run(
        [*agent.install(), *agent.headless, *options, PROMPT],
        cwd=home.project,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * DEADLINE,
    )
    assert DONE in done.stdout, done.stdout + done.stderr


def _in_terminal(agent: Agent, home: Home, environ: dict[str, str], model: Model) -> list[str]:
    """Gives the questions as they stood on the screen."""
    dialog = agent.dialog
    assert dialog is not None
    questions = []
    command = [*agent.install(), PROMPT]
    with Screen(command, environ, home.project, home.folder / "tmux") as screen:
        _begin(screen, model)
        for what in ("accepted", "declined"):
            asked = f"/mkdir {what}` in"
            questions.append(screen.until(shown(dialog.shown, asked)))
            time.sleep(dialog.deaf)
            if what == "declined":
                key, chosen = dialog.deny
                screen.press_until(key, shown(chosen))
            screen.press_until("Enter", gone(dialog.shown, asked))
        screen.until(lambda _: len(model.results) == len(SCRIPT))
    return questions


def _begin(screen: Screen, model: Model) -> None:
    """Give the prompt again where it came before the tool was there."""
    for said in itertools.count():
        screen.until(functools.partial(_answered, model, said))
        if model.told:
            return
        screen.press(PROMPT, "Enter")


def _answered(model: Model, said: int, text: str) -> bool:
    return bool(model.told) or text.count(DONE) > said
