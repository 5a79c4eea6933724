"""A small MCP client over stdio, close to the wire: what is sent and received is in plain sight.

Every wait has a deadline. Only the server it started is ever signalled by it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.end_to_end.processes import DEADLINE

Json = dict[str, Any]
METHOD_NOT_FOUND = -32601
_READING = 0.2  # seconds; who is faster is taken for a program


@dataclass(frozen=True, slots=True)
class Question:
    """An elicitation/create request of the server."""

    message: str
    schema: Json

    @property
    def asked(self) -> str:
        """The question itself; our server tells more below it."""
        return self.message.partition("\n")[0]


Answer = Callable[[Question], Json | None]  # None: the test itself replies, or nobody does


def accept(_question: Question) -> Json:
    """A human who agrees to everything."""
    return {"action": "accept", "content": {}}


def decline(_question: Question) -> Json:
    """A human who reads what they are asked, and agrees to nothing."""
    time.sleep(_READING)
    return {"action": "decline"}


def cancel(_question: Question) -> Json:
    """A human who closes every question."""
    time.sleep(_READING)
    return {"action": "cancel"}


class RpcError(Exception):
    """The server's answer was a JSON-RPC error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]


class ToolError(Exception):
    """The tool could not do the call at all; the text says why."""


class ServerGoneError(Exception):
    """The server's output ended before it answered."""


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What a call of the tool `shell` gave."""

    exit_code: int
    output: str
    timed_out: bool
    structured: Json | None

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @classmethod
    def of(cls, result: Json) -> Self:
        """Read the tool's JSON text, or the data beside words; raises ToolError for an error's."""
        (item,) = result["content"]
        assert item["type"] == "text"
        if result["isError"]:
            raise ToolError(item["text"])
        structured: Json | None = result.get("structuredContent")
        told: Json = json.loads(item["text"]) if item["text"].startswith("{") else structured or {}
        assert set(told) >= {"exit_code", "output", "duration", "timed_out"}
        return cls(
            exit_code=told["exit_code"],
            output=told["output"],
            timed_out=told["timed_out"],
            structured=structured,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose answer may still be on its way."""

    id: int | str
    message: Future[Json] = field(default_factory=Future)

    def result(self, seconds: float = DEADLINE) -> Json:
        """The result; raises RpcError if the answer is an error."""
        answer = self.message.result(seconds)
        if "error" in answer:
            raise RpcError(answer["error"])
        result: Json = answer["result"]
        return result

    def shell_result(self, seconds: float = DEADLINE) -> ShellResult:
        """The result of a call of the tool `shell`."""
        return ShellResult.of(self.result(seconds))


class Client:
    """One server process and the conversation with it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stderr: Path,
        answer: Answer | None = None,
    ) -> None:
        self.workdir = cwd
        self.questions: list[Question] = []
        self.received: list[Json] = []
        self.noise: list[bytes] = []  # what was no JSON-RPC message
        self._answer = answer
        self._stderr = stderr
        self._pending: dict[int | str, Call] = {}
        self._lock = threading.Lock()
        self._failures: list[Exception] = []
        self._answering: list[threading.Thread] = []
        self._ids = 0
        with stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._reader = threading.Thread(target=self._read, name="mcp-reader")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Requests

    def begin(self, method: str, params: object = None, *, id_: str | None = None) -> Call:
        """Send a request without waiting for its answer."""
        with self._lock:
            self._ids += 1
            call = Call(self._ids if id_ is None else id_)
            self._pending[call.id] = call
        message: Json = {"jsonrpc": "2.0", "id": call.id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return call

    def request(self, method: str, params: object = None) -> Json:
        """Send a request and wait for its result."""
        return self.begin(method, params).result()

    def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else {**message, "params": params})

    def initialize(self, version: str = "2025-06-18") -> Json:
        """Shake hands as a client of this protocol version."""
        capabilities: Json = {} if self._answer is None else {"elicitation": {}}
        result = self.request(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": capabilities,
                "clientInfo": {"name": "end-to-end", "version": "0"},
            },
        )
        self.notify("notifications/initialized")
        return result

    def begin_shell(self, command: str, **arguments: object) -> Call:
        """Start a shell call; `login` is false and `workdir` the server's unless given."""
        given = {"command": command, "workdir": str(self.workdir), "login": False, **arguments}
        return self.begin("tools/call", {"name": "shell", "arguments": given})

    def shell(self, command: str, **arguments: object) -> ShellResult:
        """Run a command and wait for its result."""
        return self.begin_shell(command, **arguments).shell_result()

    # The wire

    def send(self, message: object) -> None:
        """Send a message on a line of its own."""
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        fd, end = self._stdin.fileno(), time.monotonic() + DEADLINE
        while data:
            _, writable, _ = select.select([], [fd], [], max(0, end - time.monotonic()))
            assert writable, "the server does not read its input"
            data = data[os.write(fd, data) :]

    def _read(self) -> None:
        for line in self._stdout:
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
            except (ValueError, TypeError, KeyError, AssertionError):
                self.noise.append(line)
                continue
            self.received.append(message)
            if "method" not in message:
                self._deliver(message)
            elif "id" in message:
                # A human takes time, and meanwhile other messages come.
                thread = threading.Thread(target=self._reply, args=[message])
                self._answering.append(thread)
                thread.start()
        for call in list(self._pending.values()):
            self._pending.pop(call.id, None)
            call.message.set_exception(ServerGoneError(self.stderr()))

    def _deliver(self, message: Json) -> None:
        call = self._pending.pop(message.get("id", ""), None)
        if call is not None:
            call.message.set_result(message)

    def _reply(self, request: Json) -> None:
        reply: Json = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            if request["method"] == "elicitation/create":
                params = request["params"]
                question = Question(params["message"], params["requestedSchema"])
                self.questions.append(question)
                if self._answer is not None:
                    result = self._answer(question)
                    if result is not None:
                        self.send({**reply, "result": result})
                    return
            error = {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            self.send({**reply, "error": error})
        except BrokenPipeError:
            pass  # the server ended while its question was open
        except Exception as failure:  # noqa: BLE001 - close() raises it where the test sees it
            self._failures.append(failure)

    # The process

    def stderr(self) -> str:
        """What the server has written to its standard error."""
        return self._stderr.read_text(errors="replace")

    def answers_to(self, call: Call) -> list[Json]:
        """Every message received that answers this call."""
        return [message for message in self.received if message.get("id") == call.id]

    def end_input(self) -> int:
        """Close the server's input and wait for its exit status."""
        self._stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Wait for the server to end, and for all it said; returns its exit status."""
        status = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        assert not self._reader.is_alive(), "somebody still holds the server's standard output"
        return status

    def close(self) -> None:
        """End the server, by force if its end of input does not; what went unseen is raised."""
        try:
            self.end_input()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise
        finally:
            self._stdout.close()
        for thread in self._answering:
            thread.join(DEADLINE)
        assert not self.noise, f"not a message: {self.noise}"
        if self._failures:
            raise self._failures[0]
