"""Play a scenario with the official SDK, major version 2; runs in that SDK's environment.

stdin: the scenario as JSON, see tests/end_to_end/test_sdk.py. stdout: the transcript as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# Not among the project's own dependencies, so nothing is known of their types.
import anyio  # type: ignore[import-not-found]
import mcp_types as types  # type: ignore[import-not-found]
from mcp import Client, MCPError, StdioServerParameters  # type: ignore[import-not-found]


async def play(scenario: dict[str, Any]) -> dict[str, Any]:
    """Connect, do the steps in order, and tell what happened."""
    questions: list[dict[str, Any]] = []

    async def answer(_context: object, params: Any) -> Any:
        questions.append(params.model_dump(mode="json", by_alias=True))
        return types.ElicitResult(**scenario["answer"])

    server = StdioServerParameters(**scenario["server"])
    callback = answer if scenario["answer"] else None
    async with Client(server, mode=scenario["mode"], elicitation_callback=callback) as client:
        welcome = client.session.initialize_result
        results = [await do(client, step) for step in scenario["steps"]]
    return {
        "initialize": welcome and welcome.model_dump(mode="json", by_alias=True),
        "results": results,
        "questions": questions,
    }


async def do(client: Any, step: dict[str, Any]) -> Any:
    """One step; its result as on the wire, or {"error": {...}}."""
    method, params = step["method"], step.get("params", {})
    try:
        if method == "tools/list":
            result = await client.list_tools()
        elif method == "tools/call":
            result = await client.call_tool(params["name"], params["arguments"])
        else:
            request: Any = types.Request[dict[str, Any], str](method=method, params=params)
            result = await client.session.send_request(request, types.EmptyResult)
    except MCPError as error:
        return {"error": error.error.model_dump(mode="json")}
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    json.dump(anyio.run(play, json.load(sys.stdin)), sys.stdout)
