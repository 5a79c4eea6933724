"""Every kind of message the server sends, held against the types of the official SDK."""

import json
import subprocess

import pytest

from tests import peer
from tests.mcp_server.conversation import Client, Json, run

# Run by a Python that has the SDK: reads [[method or null, message], ...], raises at the first
# message that is not as the schema of its version has it.
CHECK = """
import json, sys
from mcp_types import jsonrpc, methods

version = sys.argv[1]
for method, message in json.load(sys.stdin):
    parsed = jsonrpc.jsonrpc_message_adapter.validate_python(message, by_name=False)
    kind = type(parsed).__name__
    if "method" in message and "id" in message:
        assert kind == "JSONRPCRequest", kind
        methods.parse_server_request(message["method"], version, message["params"])
    elif "method" in message:
        assert kind == "JSONRPCNotification", kind
        methods.parse_server_notification(message["method"], version, message["params"])
    elif "error" in message:
        assert kind == "JSONRPCError", kind
    else:
        assert kind == "JSONRPCResponse", kind
        methods.parse_server_result(method, version, message["result"])
print("checked")
"""


async def every_kind(client: Client, version: str) -> list[tuple[str | None, Json]]:
    """A session in which the server says whatever it can say, each with what it answers."""
    said: list[tuple[str | None, Json]] = []

    async def next_is(method: str | None = None) -> Json:
        said.append((method, await client.receive()))
        return said[-1][1]

    await client.begin("server/discover")
    await next_is()
    hello = {"protocolVersion": version, "capabilities": {"elicitation": {}}, "clientInfo": {}}
    await client.begin("initialize", hello)
    await next_is("initialize")
    await client.begin("ping")
    await next_is("ping")
    await client.begin("tools/list")
    await next_is("tools/list")
    for command in ("echo hi", "kill", "refuse", "print 3000000"):
        await client.begin_shell(command)
        await next_is("tools/call")
    for command in ("true\0", "crash"):
        await client.begin_shell(command)
        await next_is("tools/call")
    await client.begin_shell("true", timeout_ms="soon")
    await next_is("tools/call")

    await client.begin_shell("ask git init 'a b'")
    question = await next_is()
    await client.send(id=question["id"], result={"action": "decline"})
    await next_is("tools/call")
    number = await client.begin_shell("ask git init")
    await next_is()
    await client.send(method="notifications/cancelled", params={"requestId": number})
    await next_is()
    number = await client.begin_shell("progress one two", meta={"progressToken": 7})
    while (await next_is("tools/call")).get("id") != number:
        pass

    await client.begin("codex/sandbox-state/update", {"sandboxPolicy": 7})
    await next_is()
    await client.begin("nope")
    await next_is()
    return said


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_messages_are_of_the_official_types(version: str) -> None:
    try:
        python = peer.sdk_python(2)
    except peer.Unavailable as reason:
        pytest.skip(f"the official SDK: {reason}")
    said: list[tuple[str | None, Json]] = []

    async def scenario(client: Client) -> None:
        said.extend(await every_kind(client, version))

    run(scenario)
    kinds = {message.get("method", "answer") for _, message in said}
    assert kinds == {
        "answer", "elicitation/create", "notifications/cancelled", "notifications/progress",
    }  # fmt: skip
    done = subprocess.run(
        [python, "-c", CHECK, version],
        input=json.dumps(said),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "checked\n", done.stderr
