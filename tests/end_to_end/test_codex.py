"""Codex itself, from npm, runs a command through the server as `mcp-config` has it.

The model is a server of ours on loopback that calls the tool once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from codex_multitool import roles
from tests import peer
from tests.executables import built

CODEX = "0.169.0"
COMMAND = "touch made; git push; echo went on"
RULES = 'prefix_rule(pattern=["git", "push"], decision="forbidden", justification="people push")\n'


class Model(ThreadingHTTPServer):
    """Answers the first request with a call of the tool; `requests`: what Codex sent."""

    def __init__(self, workdir: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.requests: list[dict[str, Any]] = []
        self.arguments = json.dumps({"command": COMMAND, "workdir": str(workdir)})

    def item(self) -> dict[str, Any]:
        """What the model says next."""
        if len(self.requests) > 1:
            text = [{"type": "output_text", "text": "done"}]
            return {"type": "message", "role": "assistant", "id": "m", "content": text}
        call = {"id": "f", "call_id": "c", "name": "shell", "namespace": "mcp__shell_tool"}
        return {"type": "function_call", **call, "arguments": self.arguments}


class _Answers(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(json.loads(body))
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "item": self.server.item()},
            {"type": "response.completed", "response": {"id": "r", "usage": usage}},
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def home() -> Iterator[Path]:
    # Not in /tmp: it is writable under workspace-write, and the server is installed here.
    with tempfile.TemporaryDirectory(prefix="codex-client-", dir="/var/tmp") as folder:
        home = Path(folder)
        shutil.copytree(built(), home / "installed", symlinks=True)
        (home / "project").mkdir()
        (home / ".codex" / "rules").mkdir(parents=True)
        (home / ".codex" / "rules" / "default.rules").write_text(RULES)
        yield home


@pytest.mark.parametrize(("mode", "made"), [("workspace-write", True), ("read-only", False)])
def test_codex_runs_its_commands_through_the_server(home: Path, mode: str, made: bool) -> None:
    try:
        codex = peer.codex(CODEX)
    except peer.Unavailable as reason:
        pytest.skip(f"codex {CODEX}: {reason}")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    tool = home / "installed" / roles.CLI
    with Model(home / "project") as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{model.server_port}/v1"
        (home / ".codex" / "config.toml").write_text(
            'model = "m"\nmodel_provider = "here"\n\n[model_providers.here]\nname = "here"\n'
            f'base_url = "{url}"\nwire_api = "responses"\n'
        )
        subprocess.run([tool, "mcp-config", "codex", "--write"], env=environ, check=True)
        done = subprocess.run(
            [codex, "exec", "--skip-git-repo-check", "--sandbox", mode, "go on"],
            cwd=home / "project",
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        model.shutdown()
    assert len(model.requests) == 2, done.stderr
    told = json.dumps(model.requests[-1]["input"][-1])
    assert "people push" in told
    assert "went on" in told
    assert (home / "project" / "made").exists() == made
    # No shell of Codex's own is offered besides.
    offered = [tool.get("name") for tool in model.requests[0]["tools"]]
    assert not {"shell", "exec_command", "local_shell", "unified_exec"} & set(offered)
