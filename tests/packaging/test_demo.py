"""`make run`: the demonstration passes with the built server, and notices when it should not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import ROOT, built
from tests.machine import kernel_refusal
from tests.mcp_server.tool import patched_shell

DEMO = ROOT / "packaging" / "demo.py"

# A server that answers with what it is given, whatever it is asked.
ANSWERING = """\
import json, sys
experimental = {"codex/sandbox-state": {}}
for line in sys.stdin:
    message = json.loads(line)
    result = {"initialize": {"capabilities": {"experimental": experimental}},
              "tools/call": json.loads(sys.argv[1])}.get(message["method"], {})
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DEMO, *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def answered(result: str) -> subprocess.CompletedProcess[str]:
    """The demonstration of a server whose every call comes to `result`."""
    return demo("--server", sys.executable, "--", "-c", ANSWERING, result)


@pytest.fixture(params=["kernel", "wrapper"])
def mode(request: pytest.FixtureRequest) -> list[str]:
    """The server's options for a mode: the system's shell, or the patched one."""
    if request.param == "wrapper":
        return ["--intercept=wrapper", "--shell", patched_shell()]
    refused = kernel_refusal()
    if refused is not None:
        pytest.skip(f"no kernel interception: {refused}")
    return ["--intercept=kernel"]


def test_all_is_as_told(mode: list[str]) -> None:
    done = demo("--server", built() / roles.MCP_SERVER, "--", *mode)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("  checked: ") == 18
    assert "All of it was as told." in done.stdout


def test_rule_that_does_not_take_effect_is_noticed(mode: list[str]) -> None:
    # With this option the rule for `mkdir` does not cover /usr/bin/mkdir.
    options = (*mode, "--preserve-program-paths")
    done = demo("--server", built() / roles.MCP_SERVER, "--", *options)
    assert done.returncode == 1
    assert "not true" in done.stderr
    assert "All of it was as told." not in done.stdout


def test_server_that_ends_at_once_is_noticed() -> None:
    done = demo("--server", "/bin/false")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_server_that_does_not_start_is_quoted_where_a_patched_shell_is_needed() -> None:
    options = ("--intercept=wrapper", "--shell", "/bin/sh")
    done = demo("--server", built() / roles.MCP_SERVER, "--", *options)
    assert done.returncode == 1
    *words, told = done.stderr.splitlines()
    assert "make shells" in words[-1]
    assert told == "demo: the server ended with status 1; its words are above"


def test_server_that_cannot_run_commands_is_quoted() -> None:
    words = "the sandbox could not be set up: no Landlock"
    done = answered(json.dumps({"isError": True, "content": [{"type": "text", "text": words}]}))
    assert (done.returncode, done.stderr) == (1, f"demo: the server runs no command: {words}\n")


@pytest.mark.parametrize("text", ['{"exit_code": 3, "output": "seen"}', "seen\nin words"])
def test_result_is_that_for_programs_or_text_that_is_json(text: str) -> None:
    result: dict[str, object] = {"content": [{"type": "text", "text": text}]}
    if not text.startswith("{"):
        result["structuredContent"] = {"exit_code": 3, "output": "seen"}
    done = answered(json.dumps(result))
    assert "  | seen\n  exit code 3\n" in done.stdout


def test_make_run_needs_no_patched_shell() -> None:
    command = ["make", "--dry-run", "--always-make", "run"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "packaging/demo.py" in planned
    assert "shells" not in planned
