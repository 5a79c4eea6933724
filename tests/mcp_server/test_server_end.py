"""The end of calls and of sessions: cancelled, closed, or with a client that reads no more."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from codex_multitool.mcp_server.calls import Answer, Question
from tests.mcp_server.conversation import Client, Json, pipes, run, sockets


class TestCancellation:
    def test_cancelled_call_ends_and_is_not_answered(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            number = await client.begin_shell("wait one")
            other = await client.begin_shell("wait two")
            await client.until(lambda: client.tool.running == 2)
            await client.send(
                method="notifications/cancelled", params={"requestId": number, "reason": "tired"}
            )
            await client.until(lambda: client.tool.ended == ["wait one"])
            await client.request("ping")
            client.tool.release.set()
            assert (await client.receive())["id"] == other
            await client.request("ping")
            assert [m["id"] for m in client.received].count(number) == 0

        run(scenario)

    def test_cancelled_in_the_same_breath_it_never_runs(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            call = {"name": "shell", "arguments": {"command": "echo hi", "workdir": "/"}}
            messages: list[Json] = [
                {"id": 90, "method": "tools/call", "params": call},
                {"method": "notifications/cancelled", "params": {"requestId": 90}},
                {"id": 91, "method": "ping"},
            ]
            lines = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
            await client.send_raw("\n".join([*lines, ""]).encode())
            assert (await client.receive())["id"] == 91
            assert client.tool.specs == []

        run(scenario)

    @pytest.mark.parametrize("command", ["stubborn", "crash when cancelled"])
    def test_however_it_ends_there_is_no_answer(
        self, command: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            number = await client.begin_shell(command)
            await client.until(lambda: client.tool.running == 1)
            await client.send(method="notifications/cancelled", params={"requestId": number})
            await client.request("ping")
            client.tool.release.set()
            await client.until(lambda: client.tool.running == 0)
            await client.request("ping")
            await client.send(id=number, method="ping")  # the id is free
            assert await client.receive() == {"jsonrpc": "2.0", "id": number, "result": {}}

        run(scenario)
        assert len(caplog.records) == (command != "stubborn")

    def test_the_number_is_not_the_string(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            number = await client.begin_shell("wait")
            others: list[Any] = [str(number), float(number), True, [number], {}]
            for other in others:
                await client.send(method="notifications/cancelled", params={"requestId": other})
            await client.request("ping")
            client.tool.release.set()
            assert (await client.receive())["id"] == number

        run(scenario)


class TestEnd:
    def test_end_of_input_ends_every_call_without_an_answer(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            await client.begin_shell("wait one")
            await client.begin_shell("wait two")
            await client.until(lambda: client.tool.running == 2)
            assert await client.end() == b""
            assert sorted(client.tool.ended) == ["wait one", "wait two"]

        run(scenario)

    def test_what_is_answered_before_the_end_is_written_out(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            for _ in range(50):
                await client.begin("tools/list", {})
            lines = (await client.end()).splitlines()
            assert [json.loads(line)["id"] for line in lines] == list(range(2, 52))

        run(scenario)

    def test_a_line_without_its_end_is_no_request(self) -> None:
        async def scenario(client: Client) -> None:
            await client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
            assert await client.end() == b""

        run(scenario)

    @pytest.mark.parametrize("descriptors", [pipes, sockets])
    def test_client_that_reads_no_more_ends_the_session(
        self, descriptors: Callable[[], Any]
    ) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            await client.begin_shell("wait")
            await client.until(lambda: client.tool.running == 1)
            await client.input.aclose()
            await client.begin("ping")
            await client.finished.wait()
            assert client.tool.ended == ["wait"]

        run(scenario, descriptors=descriptors)

    def test_client_that_never_reads_is_left_when_it_closes_its_side(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            for _ in range(500):
                await client.begin("tools/list")
            await client.begin_shell("wait")
            await client.until(lambda: client.tool.running == 1)
            await client.output.aclose()
            await client.finished.wait()
            assert client.tool.ended == ["wait"]

        run(scenario)

    def test_client_may_write_a_lot_before_it_reads(self) -> None:
        count = 5000

        async def scenario(client: Client) -> None:
            async def write() -> None:
                for _ in range(count):
                    await client.begin("tools/list")

            await client.initialize()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert client.tool.asker is None
                for number in range(2, count + 2):
                    assert (await client.receive())["id"] == number

        run(scenario)

    def test_questions_of_what_a_call_left_running_are_told_that_the_client_has_gone(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            await client.shell("echo hi")
            asker = client.tool.asker
            assert asker is not None
            answers: list[Answer] = []

            async def ask() -> None:
                answers.append(
                    await asker.ask(Question("/bin/rm", ("rm",), "/", "rule `rm`", True))
                )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                assert (await client.receive())["method"] == "elicitation/create"
                await client.end()
            await ask()
            assert answers == [Answer("unavailable", "the client has gone")] * 2

        run(scenario)
