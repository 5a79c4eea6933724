"""The official Python SDK, both majors, and the Inspector's CLI as clients."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import peer
from tests.end_to_end.client import Json
from tests.end_to_end.processes import marked, wait_until
from tests.end_to_end.rig import (
    KERNEL,
    ORIGINAL,
    ORIGINAL_PAIRING,
    OURS,
    READ_ONLY,
    Box,
    Pairing,
    over,
    programs,
    server_command,
)

CLIENTS = Path(__file__).resolve().parent / "clients"
SERVERS = [Pairing(), KERNEL, ORIGINAL_PAIRING]
SECONDS = 120


@functools.cache
def installed(install: Callable[[], Any]) -> Any:
    """What `install` gives, or the reason why it cannot; asked once per run."""
    try:
        return install()
    except peer.Unavailable as reason:
        return reason


def need(what: Any) -> Any:
    """Skip the test where the installation failed."""
    if isinstance(what, peer.Unavailable):
        pytest.skip(str(what))
    return what


@functools.cache
def sdk(major: int) -> Any:
    """The Python with this SDK, or why there is none."""
    return installed(functools.partial(peer.sdk_python, major))


@pytest.fixture(params=[1, 2], ids=["sdk-1", "sdk-2"])
def major(request: pytest.FixtureRequest) -> int:
    """The SDK's major version."""
    return int(request.param)


def play(
    major: int, box: Box, pairing: Pairing, steps: Sequence[Json], answer: Json | None = None
) -> dict[str, Any]:
    """Let the SDK play a scenario with the pairing's server; gives the transcript."""
    command = server_command(pairing)
    scenario = {
        "server": {
            "command": command[0],
            "args": command[1:],
            "env": box.environment(),
            "cwd": str(box.ws),
        },
        # Before initialize the original answers nothing, the probe of newer clients included.
        "mode": "legacy" if pairing.server is ORIGINAL else "auto",
        "answer": answer,
        "steps": steps,
    }
    done = subprocess.run(
        [need(sdk(major)), CLIENTS / f"sdk_v{major}.py"],
        check=False,
        input=json.dumps(scenario),
        capture_output=True,
        text=True,
        env=box.environment(),
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    transcript: dict[str, Any] = json.loads(done.stdout)
    return transcript


def state(box: Box, pairing: Pairing) -> Json:
    """The step that makes the sandbox read-only."""
    helper = str(programs(pairing).helper)
    return {
        "method": "codex/sandbox-state/update",
        "params": box.state(READ_ONLY, codexLinuxSandboxExe=helper),
    }


def shell(box: Box, command: str) -> Json:
    """The step that runs a command."""
    arguments = {"command": command, "workdir": str(box.ws), "login": False}
    return {"method": "tools/call", "params": {"name": "shell", "arguments": arguments}}


def told(result: Json) -> Json:
    """The JSON in a tool's text."""
    (item,) = result["content"]
    text: Json = json.loads(item["text"])
    return text


@over(SERVERS)
def test_the_sdk_lists_and_calls_the_tool(pairing: Pairing, major: int, box: Box) -> None:
    steps = [{"method": "tools/list"}, state(box, pairing), shell(box, "echo hi; exit 3")]
    transcript = play(major, box, pairing, steps)
    listed, updated, called = transcript["results"]
    assert [tool["name"] for tool in listed["tools"]] == ["shell"]
    assert updated == {}
    assert called["isError"] is False
    assert (told(called)["exit_code"], told(called)["output"]) == (3, "hi\n")
    if pairing.server is OURS:
        # The SDK has held it against the outputSchema.
        assert called["structuredContent"]["exit_code"] == 3
        assert transcript["initialize"]["protocolVersion"] == "2025-11-25"
    wait_until(lambda: not marked(box.mark), "the server's end")


@over(SERVERS)
def test_the_sdk_is_asked_and_accepts(pairing: Pairing, major: int, box: Box) -> None:
    box.rules.write_text('prefix_rule(pattern=["git", "init"], decision="prompt")\n')
    steps = [state(box, pairing), shell(box, "git init .")]
    answer = {"action": "accept", "content": {"approve": True}}
    transcript = play(major, box, pairing, steps, answer)
    _, called = transcript["results"]
    assert told(called)["exit_code"] == 0
    (question,) = transcript["questions"]
    assert question["message"].partition("\n")[0].endswith(f"/git init .` in `{box.ws}`?")
    assert (box.ws / ".git").is_dir()


@over([Pairing(), KERNEL])
def test_the_sdk_gets_results_where_something_went_wrong(
    pairing: Pairing, major: int, box: Box
) -> None:
    box.rules.write_text('prefix_rule(pattern=["git", "init"], decision="prompt")\n')
    late = shell(box, "echo partial; sleep 631")
    late["params"]["arguments"]["timeout_ms"] = 1500
    steps = [
        state(box, pairing),
        shell(box, "git init ."),
        late,
        shell(box, "kill -KILL $$"),
        shell(box, "echo permission denied; exit 1"),
        {"method": "no/such"},
    ]
    _, denied, timed_out, killed, failed, unknown = play(major, box, pairing, steps)["results"]
    assert denied["structuredContent"]["exit_code"] == 1
    assert "Execution denied: " in denied["structuredContent"]["output"]
    assert timed_out["structuredContent"]["exit_code"] == 124
    assert timed_out["structuredContent"]["output"] == "partial\n"
    assert timed_out["structuredContent"]["timed_out"] is True
    assert killed["structuredContent"]["exit_code"] == 137
    assert failed["structuredContent"]["exit_code"] == 1
    assert unknown["error"]["code"] == -32601


def inspect(box: Box, pairing: Pairing, *options: str) -> Json:
    """Let the Inspector do one thing with the pairing's server; gives what it prints."""
    done = subprocess.run(
        [*need(installed(peer.inspector)), *server_command(pairing), *options],
        check=False,
        capture_output=True,
        text=True,
        env=box.environment(),
        cwd=box.ws,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    printed: Json = json.loads(done.stdout)
    return printed


@over(SERVERS)
def test_the_inspector_lists_the_tool(pairing: Pairing, box: Box) -> None:
    strict = ["--strict"] if pairing.server is OURS else []
    listed = inspect(box, pairing, "--method", "tools/list", *strict)
    assert [tool["name"] for tool in listed["tools"]] == ["shell"]


@over([Pairing(), KERNEL])  # the original runs nothing before it is told a sandbox state
def test_the_inspector_calls_the_tool(pairing: Pairing, box: Box) -> None:
    called = inspect(
        box,
        pairing,
        "--method=tools/call",
        "--tool-name=shell",
        "--tool-arg",
        "command=env echo hi; touch file",
        f"workdir={box.ws}",
        "login=false",
    )
    assert called["isError"] is False
    (words,) = called["content"]
    assert words["text"].startswith("hi\n")
    assert "\n[exit status 1]" in words["text"]
    assert called["structuredContent"]["exit_code"] == 1
    assert not (box.ws / "file").exists()
    wait_until(lambda: not marked(box.mark), "the server's end")
