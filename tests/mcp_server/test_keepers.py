"""Keepers are had by whoever needs one, and there are no more of them than that takes."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio
import trio.testing

from codex_multitool.escalation import caller
from codex_multitool.keeper.protocol import Prepare
from codex_multitool.launcher import tree
from codex_multitool.mcp_server import keepers as module
from codex_multitool.mcp_server.calls import ToolError
from codex_multitool.mcp_server.keepers import Keeper, KeeperError, Keepers
from tests.executables import ROOT
from tests.machine import kernel_refusal
from tests.mcp_server.tool import Bench, Tool, Way, until
from tests.mcp_server.zygote import FULL_ACCESS, READ_ONLY, Zygote, order, played


def test_a_keeper_that_is_free_takes_the_next_order() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        first = await keepers.give(order())
        assert (first.pid, len(zygote.begun)) == (1, 1)
        keepers.dismiss(first)
        assert await keepers.give(order()) is first
        await zygote.made[0].hear()
        assert zygote.made[0].heard == [order(), order()]

    played(scenario)


def test_one_that_had_such_a_command_last_is_preferred() -> None:
    async def scenario(keepers: Keepers, _: Zygote) -> None:
        sandboxes = READ_ONLY, FULL_ACCESS
        had = [await keepers.give(order(sandbox)) for sandbox in sandboxes]
        for turn in (had, had[::-1]):
            for keeper in turn:
                keepers.dismiss(keeper)
            assert [await keepers.give(order(sandbox)) for sandbox in sandboxes] == had

    played(scenario)


def test_no_call_waits_for_the_end_of_anothers_command() -> None:
    async def scenario(keepers: Keepers, _zygote: Zygote) -> None:
        given: list[Keeper] = []

        async def give() -> None:
            given.append(await keepers.give(order()))

        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(give)
        assert len(set(given)) == 200
        assert trio.current_time() - begun < 0.1

    played(scenario)


def test_short_commands_share_a_few() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        async def call() -> None:
            keeper = await keepers.give(order())
            await trio.sleep(0.002)
            keepers.dismiss(keeper)

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(call)
        assert len(zygote.made) <= module._AT_ONCE + 1

    played(scenario)


def test_one_is_there_for_the_next_call_while_commands_go_on() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        for number in range(1, 6):
            await keepers.give(order())
            await trio.sleep(1)
            assert len(zygote.made) == number + 1

    played(scenario)


def test_one_killed_while_it_was_free_is_missed_by_nobody() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        killed = await keepers.give(order())
        await trio.sleep(1)
        keepers.dismiss(killed)
        for keeper in zygote.made:
            keeper.socket.close()
        assert await keepers.give(order()) is not killed

    played(scenario)


def test_one_killed_at_work_is_an_error_of_its_call() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        keeper = await keepers.give(order())
        zygote.made[0].socket.close()
        with pytest.raises(KeeperError, match="the process that ran this command was killed"):
            await keeper.receive()
        keepers.lose(keeper)

    played(scenario)


def test_where_none_is_to_be_had_one_call_is_told_why() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        zygote.forks = False
        for _ in range(3):
            with pytest.raises(KeeperError, match="no process can be started: Out of memory"):
                await keepers.give(order())
        zygote.forks = True
        assert (await keepers.give(order())).pid

    played(scenario)


def test_without_a_zygote_it_is_said_what_helps() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        kept = await keepers.give(order())
        keepers.dismiss(kept)
        await trio.sleep(1)
        zygote.front.shutdown(1)
        given = [await keepers.give(order()) for _ in range(1)]  # what is there, is there
        with pytest.raises(KeeperError, match="start the server anew"):
            given.append(await keepers.give(order()))
        assert given == [kept]

    played(scenario)


def test_a_call_that_is_cancelled_in_the_line_loses_no_keeper() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        for seconds in (0.0, 0.0001, 0.001, 0.002, 0.003, 0.004, 0.01) * 5:
            with trio.move_on_after(seconds):
                keepers.dismiss(await keepers.give(order()))
            await trio.sleep(1)
        assert len(zygote.made) <= 2
        given = [await keepers.give(order()) for _ in range(module._AT_ONCE + 2)]
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(keepers.give, order())
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            # One of those that wait is served in the moment in which it is cancelled.
            keepers.dismiss(given.pop())
        assert (await keepers.give(order())).pid

    played(scenario)


def test_an_order_larger_than_a_sockets_buffer_comes_whole() -> None:
    large = order(command="x" * (4 << 20))

    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        keepers.dismiss(await keepers.give(order()))
        await zygote.made[0].hear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keepers.give, large)
            with trio.CancelScope(shield=True):
                assert await zygote.made[0].hear() == large

    played(scenario)


def test_calls_that_are_expected_find_them_prepared() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        for sandbox in (READ_ONLY, FULL_ACCESS, READ_ONLY):
            keepers.expect(sandbox)
            await trio.sleep(1)
        assert len(zygote.made) == 1
        told = [Prepare(READ_ONLY), Prepare(FULL_ACCESS)]
        for keeper in zygote.made:
            await keeper.hear()
            assert keeper.heard == told

    played(scenario)


def test_those_that_nobody_needs_end() -> None:
    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        for keeper in [await keepers.give(order()) for _ in range(8)]:
            keepers.dismiss(keeper)
        await trio.sleep(70)
        told = [await it.hear() for it in zygote.made]
        closed = 0
        for it in zygote.made:
            with trio.move_on_after(1):
                closed += await it.hear() is None
        assert len(told) - closed == 2

    played(scenario, idle_seconds=30.0)


def test_no_more_are_kept_than_a_burst_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_IDLE", 4)

    async def scenario(keepers: Keepers, _: Zygote) -> None:
        given = [await keepers.give(order()) for _ in range(8)]
        before = len(os.listdir("/proc/self/fd"))
        for keeper in given:
            keepers.dismiss(keeper)
        assert before - len(os.listdir("/proc/self/fd")) == 4

    played(scenario)


def test_there_is_an_end_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEEPERS", 3)

    async def scenario(keepers: Keepers, zygote: Zygote) -> None:
        given = [await keepers.give(order()) for _ in range(3)]
        with pytest.raises(KeeperError, match="3 commands have processes that run"):
            await keepers.give(order())
        keepers.dismiss(given[0])
        assert await keepers.give(order()) is given[0]
        keepers.lose(given[1])
        await trio.sleep(1)
        assert await keepers.give(order()) is not given[1]
        assert len(zygote.made) == 4

    played(scenario)


# With real ones


def test_many_commands_leak_no_descriptor_and_no_process(any_bench: Bench) -> None:
    def counted() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(tree.descendants(os.getpid()))

    async def several(tool: Tool) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(32):
                nursery.start_soon(tool, ":")

    async def scenario(tool: Tool) -> None:
        await several(tool)
        before = counted()
        for _ in range(5):
            await several(tool)
        # A keeper is a descriptor, and two processes; how many there are depends on the machine.
        most = [count + 2 * module._MAX_IDLE for count in before]
        now = counted()
        assert all(it <= bound for it, bound in zip(now, most, strict=True)), (before, now)

    any_bench.run(scenario)


async def our_zygote() -> int:
    """The one there is, when those of other tests have ended."""

    def found() -> list[int]:
        own = [it for it in tree.descendants(os.getpid()) if caller.parent(it) == os.getpid()]
        return [it for it in own if Path(f"/proc/{it}/comm").read_text() == "codex-zygote\n"]

    await until(lambda: len(found()) == 1, "the end of others")
    return found()[0]


NO_PROCESS = """
import os, sys
sys.path.insert(0, {root!r})
from codex_multitool.keeper import forking  # while we may read it
from tests.mcp_server.test_keepers import meets_no_process
if os.getuid() == 0:  # whom the limit does not bind: setrlimit(2)
    os.setgroups([])
    os.setresgid(64123, 64123, 64123)
    os.setresuid(64123, 64123, 64123)
meets_no_process(sys.argv[1])
os._exit(0)
"""


def meets_no_process(folder: str) -> None:
    """In a process of its own, as an ordinary user: the zygote's forks fail."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    bench = Bench(Way("kernel", "/bin/bash", None), Path(folder))

    async def scenario(tool: Tool) -> None:
        zygote = await our_zygote()
        for _ in range(3):
            resource.prlimit(zygote, resource.RLIMIT_NPROC, (1, most))
            with pytest.raises(ToolError, match="no process can be started: Resource temporar"):
                await tool(":")
            resource.prlimit(zygote, resource.RLIMIT_NPROC, (most, most))
        assert (await tool("exit 3")).exit_code == 3

    bench.run(scenario)


def test_where_no_process_is_to_be_had_only_that_command_fails() -> None:
    if (refused := kernel_refusal()) is not None:
        pytest.skip(f"no kernel interception: {refused}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "work").mkdir()
        for path in (Path(folder), Path(folder) / "work"):
            path.chmod(0o777)
        code = NO_PROCESS.format(root=str(ROOT))
        ran = subprocess.run(
            [sys.executable, "-c", code, folder], capture_output=True, check=False, timeout=60
        )
    assert ran.returncode == 0, ran.stderr


def test_a_killed_zygote_is_told_when_it_is_missed(any_bench: Bench) -> None:
    async def scenario(tool: Tool) -> None:
        zygote = await our_zygote()
        os.kill(zygote, signal.SIGKILL)
        os.waitid(os.P_PID, zygote, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it is ending
        with pytest.raises(ToolError, match="start the server anew"):
            await tool(":")

    any_bench.run(scenario)
