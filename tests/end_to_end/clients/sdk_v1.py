"""Play a scenario with the official SDK, major version 1; runs in that SDK's environment.

stdin: the scenario as JSON, see tests/end_to_end/test_sdk.py. stdout: the transcript as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# Not among the project's own dependencies, so nothing is known of their types.
import anyio  # type: ignore[import-not-found]
from mcp import ClientSession, McpError, StdioServerParameters, types  # type: ignore[import-not-found]
from mcp.client.stdio import stdio_client  # type: ignore[import-not-found]


async def play(scenario: dict[str, Any]) -> dict[str, Any]:
    """Connect, do the steps in order, and tell what happened."""
    questions: list[dict[str, Any]] = []

    async def answer(_context: object, params: Any) -> Any:
        questions.append(params.model_dump(mode="json", by_alias=True))
        return types.ElicitResult(**scenario["answer"])

    server = StdioServerParameters(**scenario["server"])
    callback = answer if scenario["answer"] else None
    async with (
        stdio_client(server) as streams,
        ClientSession(*streams, elicitation_callback=callback) as session,
    ):
        welcome = await session.initialize()
        results = [await do(session, step) for step in scenario["steps"]]
    return {
        "initialize": welcome.model_dump(mode="json", by_alias=True),
        "results": results,
        "questions": questions,
    }


async def do(session: Any, step: dict[str, Any]) -> Any:
    """One step; its result as on the wire, or {"error": {...}}."""
    method, params = step["method"], step.get("params", {})
    try:
        if method == "tools/list":
            result = await session.list_tools()
        elif method == "tools/call":
            result = await session.call_tool(params["name"], params["arguments"])
        else:
            request: Any = types.Request[dict[str, Any], str](method=method, params=params)
            result = await session.send_request(request, types.EmptyResult)
    except McpError as error:
        return {"error": error.error.model_dump(mode="json")}
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    json.dump(anyio.run(play, json.load(sys.stdin)), sys.stdout)
