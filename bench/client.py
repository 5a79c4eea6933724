"""An MCP client that costs next to nothing: blocking pipes, one thread, no waiting for others."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

Json = dict[str, Any]

_CHUNK = 1 << 20
_PATIENCE = 120.0  # seconds for any one answer


class BenchError(Exception):
    """What is measured does not do what the measure takes for granted."""


class Client:
    """One server and the conversation with it; whatever it asks is accepted at once."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], workdir: Path) -> None:
        self.questions = 0
        self._command = command
        self._workdir = workdir
        self._ids = 0
        self._answers: dict[int, Json] = {}
        self._begun = b""
        self._said = TemporaryFile()  # noqa: SIM115 - what a failure quotes, until close()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=dict(env),
            cwd=workdir,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of what was started: the server, or its launcher."""
        return self._process.pid

    def close(self) -> None:
        """End the server by the end of its input."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._said.close()

    def initialize(self) -> None:
        """Shake hands."""
        self.request(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "bench", "version": "0"},
            },
        )
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: Json) -> Json:
        """Send a request and wait for its result."""
        return self._result(self._begin(method, params))

    def shell(self, command: str) -> Json:
        """Run a command: its exit_code, output and so on."""
        return self.shells([command])[0]

    def shells(self, commands: Sequence[str]) -> list[Json]:
        """Run commands at once, and wait for all of them."""
        ids = [self._begin_shell(command) for command in commands]
        return [_told(self._result(id_)) for id_ in ids]

    def _begin_shell(self, command: str) -> int:
        arguments = {
            "command": command,
            "workdir": str(self._workdir),
            "login": False,
            "timeout_ms": int(_PATIENCE * 1000),
        }
        return self._begin("tools/call", {"name": "shell", "arguments": arguments})

    def _begin(self, method: str, params: Json) -> int:
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        return self._ids

    def _result(self, id_: int) -> Json:
        end = time.monotonic() + _PATIENCE
        while id_ not in self._answers:
            self._receive(end)
        answer = self._answers.pop(id_)
        if "error" in answer or answer["result"].get("isError"):
            raise BenchError(f"{self._command[0]}: {answer}")
        result: Json = answer["result"]
        return result

    def _send(self, message: Json) -> None:
        os.write(self._in, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _receive(self, end: float) -> None:
        ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
        data = os.read(self._out, _CHUNK) if ready else b""
        if not data:
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()
            raise BenchError(f"{self._command[0]}: no answer in {_PATIENCE:.0f} s; {said}")
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message.get("method") == "elicitation/create":
                self.questions += 1
                self._send({"id": message["id"], "result": {"action": "accept", "content": {}}})
            elif "method" not in message:
                self._answers[message["id"]] = message


def _told(result: Json) -> Json:
    """What a result tells: JSON text, or words beside which it is data."""
    text: str = result["content"][0]["text"]
    found: Json = json.loads(text) if text.startswith("{") else result["structuredContent"]
    return found
