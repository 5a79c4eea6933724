"""The official SDKs of Python and the Inspector's CLI run the same script as the agents."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_multitool import roles
from tests import peer
from tests.clients.model import Json
from tests.clients.screen import DEADLINE
from tests.clients.stage import RULES, SCRIPT, Outcome, arriving_once
from tests.executables import built

PLAYERS = Path(__file__).resolve().parent.parent / "end_to_end" / "clients"
COMMANDS = {name: line for name, line in SCRIPT.items() if isinstance(line, str)}
SDKS = ["Python SDK 1.x", "Python SDK 2.x"]
INSPECTOR = "Inspector 2.x"


@contextmanager
def project() -> Iterator[Path]:
    """A project in a home directory with our rules."""
    # Not in /tmp: it is writable under workspace-write.
    with tempfile.TemporaryDirectory(prefix="codex-client-", dir="/var/tmp") as name:
        home = Path(name)
        (home / ".codex" / "rules").mkdir(parents=True)
        (home / ".codex" / "rules" / "default.rules").write_text(RULES)
        (home / ".codex" / "config.toml").write_text('sandbox_mode = "workspace-write"\n')
        (home / "project").mkdir()
        yield home / "project"


def environ(folder: Path) -> dict[str, str]:
    """What a client is started with."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "LANG": "C.UTF-8"}


def run(command: Sequence[str], folder: Path, text: str = "") -> Any:
    """What the program prints as JSON."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ(folder),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * DEADLINE,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def text_of(result: Json) -> str:
    """The text of a result."""
    return "\n".join(item["text"] for item in result["content"])


def play_sdk(major: int, answer: str) -> Outcome:
    """Let the SDK play the script, with one answer to all questions."""
    python = peer.sdk_python(major)
    with project() as folder:
        steps = [
            {
                "method": "tools/call",
                "params": {
                    "name": "shell",
                    "arguments": {"command": line, "workdir": str(folder), "login": False},
                },
            }
            for line in COMMANDS.values()
        ]
        server = {"command": str(built() / roles.MCP_SERVER), "args": [], "cwd": str(folder)}
        scenario = {
            "server": {**server, "env": environ(folder)},
            "mode": "auto",
            "answer": {"action": answer, "content": {}},
            "steps": steps,
        }
        played = run([str(python), str(PLAYERS / f"sdk_v{major}.py")], folder, json.dumps(scenario))
        outcome = Outcome(folder)
        results = map(text_of, played["results"])
        outcome.results = dict(zip(COMMANDS, results, strict=True))
        outcome.questions = [question["message"] for question in played["questions"]]
        outcome.made = sorted(path.name for path in folder.iterdir())
        return outcome


def play_inspector() -> Outcome:
    """Let the Inspector call the tool; it asks nobody, and each call is a server of its own."""
    command = [
        *peer.inspector(),
        str(built() / roles.MCP_SERVER),
        "--method=tools/call",
        "--tool-name=shell",
        "--tool-arg",
    ]
    with project() as folder:
        outcome = Outcome(folder)
        for name in ("command", "accepted", "refusal", "lines"):
            words = [f"command={COMMANDS[name]}", f"workdir={folder}", "login=false"]
            outcome.results[name] = text_of(run([*command, *words], folder))
        outcome.made = sorted(path.name for path in folder.iterdir())
        return outcome


@functools.cache
def outcome(library: str, answer: str) -> Outcome | peer.Unavailable:
    """What came of the script, or the reason why it was not played."""
    try:
        return (
            play_inspector() if library == INSPECTOR else play_sdk(1 + SDKS.index(library), answer)
        )
    except peer.Unavailable as reason:
        return reason


def came_of(library: str, answer: str = "accept") -> Outcome:
    """What came of the script."""
    found = outcome(library, answer)
    if isinstance(found, peer.Unavailable):
        pytest.skip(f"{library}: {found}")
    return found


def over(libraries: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test over these."""
    ids = [name.replace(" ", "-") for name in libraries]
    return pytest.mark.parametrize("library", libraries, ids=ids, scope="module")


@pytest.mark.feature("a command", "runs")
@over([*SDKS, INSPECTOR])
def test_a_command_runs(library: str) -> None:
    played = came_of(library)
    assert "hello" in played.results["command"]
    assert "made" in played.made


@pytest.mark.feature("a question", "reaches the callback")
@over(SDKS)
def test_a_question_reaches_the_callback(library: str) -> None:
    accepted, declined = came_of(library).questions
    assert "/mkdir accepted`" in accepted
    assert "/mkdir declined`" in declined
    assert "folders are asked about" in accepted


@pytest.mark.feature("a question", "is a no")
@over([INSPECTOR])
def test_without_a_callback_a_question_is_a_no(library: str) -> None:
    played = came_of(library)
    assert "denied" in played.results["accepted"]
    assert "accepted" not in played.made


@pytest.mark.feature("allowed", "runs")
@over(SDKS)
def test_what_is_allowed_runs(library: str) -> None:
    assert {"accepted", "declined"} <= set(came_of(library).made)


@pytest.mark.feature("denied", "refused")
@over(SDKS)
def test_what_is_denied_does_not_run_and_says_so(library: str) -> None:
    played = came_of(library, "decline")
    assert not {"accepted", "declined"} & set(played.made)
    assert "denied" in played.results["declined"]


@pytest.mark.feature("forbidden", "says why")
@over([*SDKS, INSPECTOR])
def test_what_is_forbidden_says_why(library: str) -> None:
    assert "people push" in came_of(library).results["refusal"]


@pytest.mark.feature("2,000 lines", "arrive once")
@over([*SDKS, INSPECTOR])
def test_2000_lines_arrive_once(library: str) -> None:
    arriving_once(came_of(library).results["lines"])
