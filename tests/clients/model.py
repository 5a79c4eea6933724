"""A model on loopback for every agent: it plays a script of commands, and keeps what it was told.

It speaks the four APIs that agents know: OpenAI's Responses and Chat Completions, Anthropic's
Messages, Gemini's GenerateContent. It holds no state: the results in a conversation tell how far
the script is. A request that offers no shell of ours, for a title say, gets a word.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

DONE = "The script is at its end."

# A command, or what makes one from the results before it.
Line = str | Callable[[Sequence[str]], str]


@dataclass(slots=True)
class Call:
    """What the model says next: a call of a tool, or text where there is no tool."""

    tool: str = ""
    arguments: Json = field(default_factory=dict)
    id: str = ""
    namespace: str | None = None

    @property
    def said(self) -> str:
        """The arguments as a model writes them."""
        return json.dumps(self.arguments)


class Responses:
    """OpenAI's Responses: what Codex speaks."""

    @staticmethod
    def tools(body: Json) -> list[Json]:
        """Each tool offered, as `name`, `description` and perhaps `namespace`."""
        found = []
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                found += [{**inner, "namespace": tool["name"]} for inner in tool["tools"]]
            else:
                found.append(tool)
        return found

    @staticmethod
    def results(body: Json) -> list[str]:
        """What came of each call, as the model reads it."""
        items = [it for it in body["input"] if it.get("type") == "function_call_output"]
        return [_flat(item["output"]) for item in items]

    @staticmethod
    def instructions(body: Json) -> str:
        """All the model is told besides tools and results."""
        return json.dumps([body.get("instructions"), body["input"]])

    @staticmethod
    def stream(call: Call) -> Iterator[tuple[str | None, Json]]:
        """The answer as events."""
        yield "response.created", {"response": {"id": "r"}}
        if call.tool:
            item: Json = {"type": "function_call", "id": "f" + call.id, "call_id": call.id}
            item |= {"name": call.tool, "arguments": call.said}
            if call.namespace:
                item["namespace"] = call.namespace
        else:
            content = [{"type": "output_text", "text": DONE}]
            item = {"type": "message", "role": "assistant", "id": "m", "content": content}
        yield "response.output_item.done", {"item": item}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        yield "response.completed", {"response": {"id": "r", "usage": usage}}


class Chat:
    """OpenAI's Chat Completions: what opencode speaks with any compatible provider."""

    @staticmethod
    def tools(body: Json) -> list[Json]:
        """Each tool offered."""
        return [tool["function"] for tool in body.get("tools", [])]

    @staticmethod
    def results(body: Json) -> list[str]:
        """What came of each call."""
        return [_flat(it["content"]) for it in body["messages"] if it["role"] == "tool"]

    @staticmethod
    def instructions(body: Json) -> str:
        """All the model is told besides."""
        return json.dumps([it for it in body["messages"] if it["role"] != "tool"])

    @staticmethod
    def stream(call: Call) -> Iterator[tuple[str | None, Json]]:
        """The answer as chunks."""
        whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        delta: Json = {"role": "assistant"}
        if call.tool:
            function = {"name": call.tool, "arguments": call.said}
            called = {"index": 0, "id": call.id, "type": "function", "function": function}
            delta["tool_calls"] = [called]
        else:
            delta["content"] = DONE
        reason = "tool_calls" if call.tool else "stop"
        yield None, {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        last = {"index": 0, "delta": {}, "finish_reason": reason}
        yield None, {**whole, "choices": [last], "usage": usage}


class Messages:
    """Anthropic's Messages: what Claude Code speaks."""

    @staticmethod
    def tools(body: Json) -> list[Json]:
        """Each tool offered."""
        return list(body.get("tools", []))

    @staticmethod
    def results(body: Json) -> list[str]:
        """What came of each call."""
        turns = [it["content"] for it in body["messages"] if isinstance(it["content"], list)]
        parts = [part for turn in turns for part in turn if part.get("type") == "tool_result"]
        return [_flat(part.get("content", "")) for part in parts]

    @staticmethod
    def instructions(body: Json) -> str:
        """All the model is told besides tools."""
        return json.dumps([body.get("system"), body["messages"]])

    @staticmethod
    def stream(call: Call) -> Iterator[tuple[str | None, Json]]:
        """The answer as events."""
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
        yield "message_start", {"message": {**message, "stop_reason": None, "usage": usage}}
        if call.tool:
            block: Json = {"type": "tool_use", "id": call.id, "name": call.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": call.said}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": DONE}
        yield "content_block_start", {"index": 0, "content_block": block}
        yield "content_block_delta", {"index": 0, "delta": delta}
        yield "content_block_stop", {"index": 0}
        reason = {"stop_reason": "tool_use" if call.tool else "end_turn", "stop_sequence": None}
        yield "message_delta", {"delta": reason, "usage": {"output_tokens": 1}}
        yield "message_stop", {}


class Generate:
    """Gemini's GenerateContent."""

    @staticmethod
    def tools(body: Json) -> list[Json]:
        """Each tool offered."""
        sets = body.get("tools", [])
        return [tool for each in sets for tool in each.get("functionDeclarations", [])]

    @staticmethod
    def results(body: Json) -> list[str]:
        """What came of each call."""
        parts = [part for turn in body["contents"] for part in turn.get("parts", [])]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        return [_flat(answer["response"]) for answer in answers]

    @staticmethod
    def instructions(body: Json) -> str:
        """All the model is told besides tools."""
        return json.dumps([body.get("systemInstruction"), body["contents"]])

    @staticmethod
    def stream(call: Call) -> Iterator[tuple[str | None, Json]]:
        """The answer in one piece."""
        part: Json = {"text": DONE}
        if call.tool:
            part = {"functionCall": {"id": call.id, "name": call.tool, "args": call.arguments}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"index": 0, "content": content, "finishReason": "STOP"}
        yield None, {"candidates": [candidate], "usageMetadata": usage}


Api = type[Responses] | type[Chat] | type[Messages] | type[Generate]


def _flat(value: object) -> str:
    """A result's text: that of its parts, where it comes in parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(it, dict) and "text" in it for it in value):
        return "\n".join(it["text"] for it in value)
    return json.dumps(value, ensure_ascii=False)


def _api(path: str) -> Api | None:
    for end, api in (("/responses", Responses), ("/chat/completions", Chat)):
        if path.endswith(end):
            return api
    if path.endswith("/messages"):
        return Messages
    return Generate if "enerateContent" in path else None


class Model(ThreadingHTTPServer):
    """Plays `commands`, one call after the other."""

    daemon_threads = True

    def __init__(self, commands: Sequence[Line], workdir: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.commands = list(commands)
        self.workdir = workdir
        self.told: list[tuple[Api, Json]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def turn(self, api: Api, body: Json) -> Call:
        """What the model says to this."""
        tools = [tool for tool in api.tools(body) if is_ours(tool)]
        if not tools:
            return Call()
        self.told.append((api, body))
        results = api.results(body)
        at = len(results)
        if at >= len(self.commands):
            return Call()
        line = self.commands[at]
        command = line if isinstance(line, str) else line(results)
        arguments = {"command": command, "workdir": self.workdir, "login": False}
        tool = tools[0]
        return Call(tool["name"], arguments, f"call{at}", tool.get("namespace"))

    @property
    def results(self) -> list[str]:
        """What reached the model of each call."""
        return max((api.results(body) for api, body in self.told), key=len, default=[])

    @property
    def tools(self) -> list[Json]:
        """What it was offered at first."""
        api, body = self.told[0]
        return api.tools(body)

    @property
    def instructions(self) -> str:
        """What it was told besides, at first."""
        api, body = self.told[0]
        return api.instructions(body)


def is_ours(tool: Json) -> bool:
    """Whether this tool is the server's shell, whatever the client made of its name."""
    name = f"{tool.get('namespace', '')} {tool.get('name', '')}".replace("_", "-")
    return "shell-tool" in name and name.endswith("shell")


class _Answers(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        path, _, query = self.path.partition("?")
        self.server.paths.append(self.path)
        api = _api(path)
        if api is None:  # "/v1/messages/count_tokens", and what reports home
            self._answer("application/json", json.dumps({"input_tokens": 1}).encode())
            return
        call = self.server.turn(api, body)
        events = list(api.stream(call))
        if api is Generate and "alt=sse" not in query:
            self._answer("application/json", json.dumps(events[0][1]).encode())
            return
        self._answer("text/event-stream", b"".join(map(_event, events)))

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self._answer("application/json", b'{"data": [], "models": []}')

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _event(event: tuple[str | None, Json]) -> bytes:
    kind, data = event
    if kind is None:
        return f"data: {json.dumps(data)}\n\n".encode()
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


@contextmanager
def playing(commands: Sequence[Line], workdir: str) -> Iterator[Model]:
    """A model at work."""
    with Model(commands, workdir) as model:
        thread = threading.Thread(target=model.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join()
