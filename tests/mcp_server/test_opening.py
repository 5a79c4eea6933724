"""What is answered before there is a server, and what is kept for it."""

import fcntl
import json
import os
import select
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from codex_multitool.mcp_server.conversation import Conversation
from codex_multitool.mcp_server.opening import Opening
from codex_multitool.mcp_server.server import Server
from codex_multitool.mcp_server.session import Notification, Request
from codex_multitool.mcp_server.stdio import Stdio
from codex_multitool.mcp_server.words import Words
from tests.mcp_server.conversation import PATIENCE, Tool, pipes, sockets

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}}
CALL = {"name": "shell", "arguments": {"command": "echo hi", "workdir": "/"}}
UPDATE = {"sandboxPolicy": {"type": "read-only"}, "sandboxCwd": "/a"}


class Meeting:
    """An opening and its client."""

    def __init__(self, descriptors: Callable[[], tuple[tuple[int, int], tuple[int, int]]]) -> None:
        ours, (self.reader, self.writer) = descriptors()
        self.opening = Opening(Conversation(Words(kernel=True)), ours)

    def say(self, method: str, params: Any = None, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        told = {name: value for name, value in message.items() if value is not None}
        os.write(self.writer, json.dumps(told).encode() + b"\n")

    def answers(self) -> list[Any]:
        """What has been answered by now; a line is never told in part."""
        found = b""
        while select.select([self.reader], [], [], 0)[0] and (more := os.read(self.reader, 65536)):
            found += more
        return [json.loads(line) for line in found.splitlines()]

    def close(self) -> None:
        for fd in (self.reader, self.writer):
            os.close(fd)


@pytest.fixture(params=[pipes, sockets])
def meeting(request: pytest.FixtureRequest) -> Iterator[Meeting]:
    """A client just met. The server's descriptors are closed by whoever serves it on."""
    found = Meeting(request.param)
    yield found
    found.close()


def serve(meeting: Meeting) -> Tool:
    """Hand over to a server; returns when the client, who says no more, has been served."""
    opening, tool = meeting.opening, Tool()
    server = Server(
        tool.run, opening.conversation, patience=PATIENCE, cwd="/", begun=opening.unanswered
    )

    async def main() -> None:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                stdio = Stdio(opening.descriptors, opening.unsent)
                nursery.start_soon(stdio.serve, server.serve)
                while not tool.specs:  # noqa: ASYNC110 — a list tells of no change
                    await trio.sleep(0.01)
                os.close(meeting.writer)  # the end of its input
                meeting.writer = os.open(os.devnull, os.O_WRONLY)

    trio.run(main)
    return tool


def test_nothing_said_is_nothing_to_answer(meeting: Meeting) -> None:
    meeting.opening.attend()
    assert (meeting.answers(), meeting.opening.unanswered) == ([], [])


def test_what_is_always_known_is_answered(meeting: Meeting) -> None:
    meeting.say("initialize", INITIALIZE, 1)
    meeting.opening.attend()
    assert meeting.answers()[0]["result"]["protocolVersion"] == "2025-06-18"
    meeting.say("notifications/initialized")
    meeting.say("tools/list", number=2)
    meeting.say("ping", number=3)
    os.write(meeting.writer, b'{"jsonrpc":"1.0","id":4,"method":"m"}\n')
    meeting.opening.attend()
    tools, pong, wrong = meeting.answers()
    assert tools["result"]["tools"][0]["name"] == "shell"
    assert (pong["id"], pong["result"]) == (3, {})
    assert (wrong["id"], wrong["error"]["code"]) == (4, -32600)
    assert meeting.opening.unanswered == []


def test_half_a_message_waits_for_its_rest(meeting: Meeting) -> None:
    os.write(meeting.writer, b'{"jsonrpc":"2.0","id":1,')
    meeting.opening.attend()
    assert meeting.answers() == []
    os.write(meeting.writer, b'"method":"ping"}\n')
    meeting.opening.attend()
    assert meeting.answers() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_what_is_for_a_server_is_kept_with_all_behind_it(meeting: Meeting) -> None:
    meeting.say("initialize", INITIALIZE, 1)
    meeting.say("tools/call", CALL, 2)
    meeting.say("codex/sandbox-state/update", UPDATE, 3)
    meeting.say("notifications/cancelled", {"requestId": 9})
    meeting.opening.attend()
    assert [answer["id"] for answer in meeting.answers()] == [1]
    call, update, cancelled = meeting.opening.unanswered
    assert isinstance(call, Request)
    assert isinstance(update, Request)
    assert isinstance(cancelled, Notification)
    assert (call.method, update.id) == ("tools/call", 3)
    # Nor is anything more read.
    meeting.say("ping", number=4)
    meeting.opening.attend()
    assert meeting.answers() == []


def test_a_server_goes_on_where_it_was_left(meeting: Meeting) -> None:
    meeting.say("initialize", INITIALIZE, 1)
    meeting.say("tools/call", CALL, 2)
    meeting.say("codex/sandbox-state/update", UPDATE, 3)
    meeting.opening.attend()
    tool = serve(meeting)
    assert tool.states == [None]
    assert {answer["id"] for answer in meeting.answers()} >= {1, 3}


def test_a_client_that_does_not_read_holds_nothing_up() -> None:
    meeting = Meeting(pipes)
    source, target = meeting.opening.descriptors
    size = fcntl.fcntl(target, fcntl.F_GETPIPE_SZ)
    os.write(target, b"\n" * size)
    meeting.say("ping", number=1)
    meeting.opening.attend()
    assert len(meeting.opening.unsent) == 1
    assert os.read(meeting.reader, size) == b"\n" * size
    meeting.opening.attend()
    assert meeting.answers() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    meeting.close()
    os.close(source)
    os.close(target)


def test_a_client_that_has_gone_is_the_servers_to_find(meeting: Meeting) -> None:
    meeting.say("ping", number=1)
    os.close(meeting.reader)
    meeting.opening.attend()
    assert len(meeting.opening.unsent) == 1
    meeting.reader = os.open(os.devnull, os.O_RDONLY)
