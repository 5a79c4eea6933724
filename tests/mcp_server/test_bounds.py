"""What one server holds at a time: commands with processes left behind."""

import pytest
import trio

from codex_multitool.mcp_server import keepers
from codex_multitool.mcp_server.calls import ToolError
from tests.mcp_server.tool import Bench, Tool, until


async def served_again(tool: Tool) -> None:
    """Wait until a call is no longer refused."""
    with trio.fail_after(20):
        while True:
            try:
                assert (await tool("echo on")).output.text() == "on\n"
                break
            except ToolError:
                await trio.sleep(0.05)


def test_no_more_commands_leave_something_running_than_there_is_room_for(
    any_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "_MAX_KEEPERS", 4)

    async def scenario(tool: Tool) -> None:
        released = any_bench.workdir / "released"
        waits = f"while [ ! -e {released} ]; do read -t 0.05 x <> <(:) || :; done"
        for n in range(4):
            command = waits if n == 0 else "sleep 772"
            await tool(f"({command}) >/dev/null 2>&1 &")
        with pytest.raises(ToolError, match="4 commands have processes that run"):
            await tool("echo refused")
        released.touch()
        await served_again(tool)

    any_bench.run(scenario)


def test_a_job_that_has_left_the_sandbox_since_its_call_ends_like_any_other(
    any_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper is free again: the next call gets the only one there may be."""
    monkeypatch.setattr(keepers, "_MAX_KEEPERS", 1)
    any_bench.rules = 'prefix_rule(pattern=["sh"])\n'
    done = any_bench.workdir / "done"

    async def scenario(tool: Tool) -> None:
        await tool(f"(sleep 1; sh -c 'sleep 0.2; touch {done}'; sleep 0.2) >/dev/null 2>&1 &")
        await until(done.exists, "the job")
        await served_again(tool)

    any_bench.run(scenario)
