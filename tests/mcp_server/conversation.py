"""A server in this process, on real descriptors, and a client that speaks to it line by line."""

import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from codex_multitool.keeper.outcome import Decision
from codex_multitool.keeper.output import STDERR, STDOUT, Capture
from codex_multitool.mcp_server.calls import (
    Asker,
    CommandResult,
    CommandSpec,
    Question,
    ToolError,
)
from codex_multitool.mcp_server.conversation import Conversation
from codex_multitool.mcp_server.server import Server
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.mcp_server.stdio import Stdio
from codex_multitool.mcp_server.words import Words

Json = dict[str, Any]
PATIENCE = 20.0
WAIT = "wait"


def pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """Descriptors of the server and of the client, each (in, out)."""
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    return (read_in, write_out), (read_out, write_in)


def sockets() -> tuple[tuple[int, int], tuple[int, int]]:
    """The same as two socket pairs, the way Node starts its children."""
    towards, back = socket.socketpair(), socket.socketpair()
    fds = [end.detach() for end in (*towards, *back)]
    return (fds[0], fds[3]), (fds[2], fds[1])


class Tool:
    """What a tool may do, in one word: the command of the call says which."""

    def __init__(self) -> None:
        self.specs: list[CommandSpec] = []
        self.states: list[SandboxState | None] = []
        self.ended: list[str] = []
        self.running = 0
        self.peak = 0
        self.asker: Asker | None = None
        self.release = trio.Event()

    async def run(
        self, spec: CommandSpec, state: SandboxState | None, asker: Asker
    ) -> CommandResult:
        self.specs.append(spec)
        self.states.append(state)
        self.asker = asker
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            return await self._run(spec, asker)
        except trio.Cancelled:
            self.ended.append(spec.command)
            raise
        finally:
            self.running -= 1

    async def _run(self, spec: CommandSpec, asker: Asker) -> CommandResult:
        capture = Capture(asker.size)
        more: Json = {}
        match spec.command.split():
            case ["echo", *words]:
                capture.feed(STDOUT, " ".join(words).encode() + b"\n")
            case ["wait", *_]:
                await self.release.wait()
            case ["stubborn", *_]:
                with trio.CancelScope(shield=True):
                    await self.release.wait()
            case ["crash"]:
                raise ZeroDivisionError("a defect of the tool")
            case ["crash", "when", "cancelled"]:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._crash_when_cancelled)
            case ["refuse"]:
                raise ToolError("it cannot be had")
            case ["ask", *words]:
                program = "/bin/" + words[0]
                question = Question(program, tuple(words), spec.workdir, "rule `x`", outside=True)
                answer = await asker.ask(question)
                capture.feed(STDERR, f"{answer.action}|{answer.reason}|{asker.can_ask}".encode())
                more = {
                    "decisions": (Decision("/bin/x", tuple(words), "deny", answer.action),),
                    "notes": ("asked",),
                }
            case ["print", count]:
                capture.feed(STDOUT, b"x" * int(count))
            case ["kill"]:
                more = {"exit_code": 128 + signal.SIGTERM, "signal": int(signal.SIGTERM)}
            case ["progress", *lines]:
                await self._tell(asker, lines)
            case _:
                raise AssertionError(spec.command)
        return self._result(capture, **more)

    @staticmethod
    async def _tell(asker: Asker, lines: list[str]) -> None:
        for line in lines:
            if asker.progress is not None:
                asker.progress(partial(str, line))
            await trio.sleep(1.0)

    @staticmethod
    async def _crash_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError("a defect in the way out")

    @staticmethod
    def _result(capture: Capture, **more: Any) -> CommandResult:
        told: Json = {"exit_code": 0, "signal": None, "timed_out": False, "duration_ns": 1, **more}
        return CommandResult(output=capture.output(), **told)


class Client:
    """The other end: what it sends and receives is in plain sight."""

    def __init__(self, descriptors: tuple[int, int], tool: Tool) -> None:
        self.tool = tool
        self.input = trio.lowlevel.FdStream(descriptors[0])
        self.output = trio.lowlevel.FdStream(descriptors[1])
        self.finished = trio.Event()  # when the server has returned
        self.received: list[Json] = []
        self.heard: list[Json] = []  # of the tools that have changed
        self._buffer = b""
        self._ids = 0

    async def send_raw(self, data: bytes) -> None:
        await self.output.send_all(data)

    async def send(self, **message: Any) -> None:
        await self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def receive(self) -> Json:
        """The next message."""
        while b"\n" not in self._buffer:
            data = await self.input.receive_some()
            assert data, "the server has closed its output"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: Any = json.loads(line)
        assert all(
            it["jsonrpc"] == "2.0" for it in (message if isinstance(message, list) else [message])
        )
        found: Json = message
        self.received.append(found)
        return found

    async def begin(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._ids += 1
        more = {} if params is None else {"params": params}
        await self.send(id=self._ids, method=method, **more)
        return self._ids

    async def request(self, method: str, params: Any = None) -> Json:
        """Send a request; the next message but about tools must answer it."""
        number = await self.begin(method, params)
        answer = await self.receive()
        while answer.get("method") == "notifications/tools/list_changed":
            self.heard.append(answer)
            answer = await self.receive()
        assert answer.get("id") == number, answer
        return answer

    async def initialize(
        self, version: str = "2025-11-25", name: str = "conversation", **capabilities: Any
    ) -> Json:
        hello = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": name, "version": "0"},
        }
        answer = await self.request("initialize", hello)
        await self.send(method="notifications/initialized")
        result: Json = answer["result"]
        return result

    async def begin_shell(self, command: str, meta: Json | None = None, **more: Any) -> int:
        arguments = {"command": command, "workdir": "/", **more}
        params: Json = {"name": "shell", "arguments": arguments}
        return await self.begin("tools/call", params if meta is None else {**params, "_meta": meta})

    async def shell(self, command: str, meta: Json | None = None, **more: Any) -> Json:
        """A call; the next message must answer it."""
        number = await self.begin_shell(command, meta, **more)
        answer = await self.receive()
        assert answer.get("id") == number, answer
        return answer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until the tool has come that far."""
        while not condition():  # noqa: ASYNC110 — a list tells of no change
            await trio.sleep(0.001)

    async def end(self) -> bytes:
        """Close the server's input; what it still says until it closes its output."""
        await self.output.aclose()
        data = self._buffer
        while chunk := await self.input.receive_some():
            data += chunk
        await self.finished.wait()
        return data


@asynccontextmanager
async def serving(
    descriptors: Callable[[], tuple[tuple[int, int], tuple[int, int]]] = pipes,
    patience: float = PATIENCE,
) -> AsyncIterator[Client]:
    """A client of a fresh server; in the end the server must return by itself."""
    ours, theirs = descriptors()
    tool = Tool()
    client = Client(theirs, tool)
    conversation = Conversation(Words(kernel=True))
    server = Server(tool.run, conversation, patience=patience, cwd="/server")

    async def serve() -> None:
        await Stdio(ours).serve(server.serve)
        client.finished.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with client.input, client.output:
            yield client
            await client.output.aclose()
            with trio.fail_after(PATIENCE):
                try:
                    while await client.input.receive_some():
                        pass
                except trio.ClosedResourceError:
                    pass  # a client that reads no more
                await client.finished.wait()


def run(scenario: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Run a scenario on a server of its own."""

    async def session() -> None:
        with trio.fail_after(2 * PATIENCE):
            async with serving(**options) as client:
                await scenario(client)

    trio.run(session)


def text(answer: Json) -> str:
    (item,) = answer["result"]["content"]
    found: str = item["text"]
    return found


def error(answer: Json) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["message"]
