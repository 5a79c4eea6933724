"""Whatever a client sends, the server answers what is after it, and its state is its own."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcp_server.conversation import Client, run

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
names = st.sampled_from(
    [
        "name", "arguments", "command", "workdir", "timeout_ms", "login", "_meta", "progressToken",
        "codex/sandbox-state-meta", "sandboxPolicy", "sandboxCwd", "type", "writable_roots",
        "requestId", "protocolVersion", "capabilities", "elicitation", "action", "content",
        "reason", "cursor",
    ]
)  # fmt: skip
likely = st.sampled_from(
    ["shell", "echo hi", "ask x", "crash", "refuse", "/", "read-only", "workspace-write",
     "2025-06-18", "2025-11-25", "accept", "file:///a%", "server-1", 1]
)  # fmt: skip
params = st.recursive(
    values | likely,
    lambda inner: st.dictionaries(names, inner | likely, max_size=6),
    max_leaves=15,
)
methods = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "codex/sandbox-state/update",
     "notifications/cancelled", "notifications/initialized", "server/discover"]
)  # fmt: skip
message = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers(0, 3) | texts | values,
        "method": methods | texts,
        "params": params,
        "result": params,
        "error": params,
    },
)
call = st.fixed_dictionaries(
    {"command": likely, "workdir": st.just("/")}, optional={"timeout_ms": values, "login": values}
).map(lambda arguments: {"name": "shell", "arguments": arguments})
real_call = st.builds(
    lambda number, its: {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": its},
    st.integers(0, 3),
    call,
)
line = (message | real_call).map(lambda it: json.dumps(it).encode()) | st.binary(max_size=60)


@settings(max_examples=60)
@given(st.lists(line, max_size=12), st.booleans())
def test_the_server_lives_on(lines: list[bytes], initialized: bool) -> None:
    async def scenario(client: Client) -> None:
        if initialized:
            await client.initialize(elicitation={})
        await client.send_raw(b"".join(line + b"\n" for line in lines))
        await client.send(id="the last", method="ping")
        answer: Any = {}
        while answer.get("id") != "the last" or "result" not in answer:
            answer = await client.receive()
            if "method" not in answer:
                assert ("result" in answer) != ("error" in answer)
        assert answer["result"] == {}

    run(scenario)
