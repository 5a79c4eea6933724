"""Progress by a clock of its own: seldom, never less, and never after the end."""

import json
from collections.abc import Awaitable, Callable
from functools import partial

import trio
import trio.testing

from codex_multitool.mcp_server.progress import Progress
from tests.mcp_server.conversation import Client, run


def reports(scenario: Callable[[Progress], Awaitable[None]]) -> list[tuple[float, str | None]]:
    """What a client is told while the scenario runs: (progress, message)."""
    sent: list[tuple[float, str | None]] = []

    def send(line: bytes) -> None:
        message = json.loads(line)
        assert message["method"] == "notifications/progress"
        params = message["params"]
        assert params["progressToken"] == 7
        sent.append((params["progress"], params.get("message")))

    async def main() -> None:
        progress = Progress(7, send)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(progress.report)
            await trio.sleep(0.5)  # out of step with its seconds
            await scenario(progress)
            progress.end()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return sent


def test_the_latest_line_of_a_second_is_told_once() -> None:
    async def scenario(progress: Progress) -> None:
        for number in range(10):
            progress.follow(partial(str, f"line {number}"))
            await trio.sleep(0.2)
        await trio.sleep(3)

    assert reports(scenario) == [(1, "line 2"), (2, "line 7"), (3, "line 9")]


def test_a_silent_call_shows_now_and_then_that_it_lives() -> None:
    async def scenario(progress: Progress) -> None:
        await trio.sleep(15)
        progress.follow(partial(str, "at last"))
        await trio.sleep(20)

    assert reports(scenario) == [(10, None), (16, "at last"), (26, "at last")]


def test_nothing_follows_the_end_though_its_second_has_come() -> None:
    early = 0
    for _ in range(50):  # which of two tasks due at one time runs first is a matter of luck

        async def scenario(progress: Progress) -> None:
            progress.follow(partial(str, "perhaps"))
            await trio.sleep(0.5)
            progress.follow(partial(str, "too late"))
            progress.end()

        sent = reports(scenario)
        assert sent in ([], [(1, "perhaps")])
        early += bool(sent)
    assert 0 < early < 50


def test_a_line_that_is_no_text_can_be_told() -> None:
    async def scenario(progress: Progress) -> None:
        progress.follow(partial(str, "caf\udce9"))
        await trio.sleep(1)

    assert reports(scenario) == [(1, "caf\ufffd")]


class TestProgress:
    def test_it_grows_with_the_latest_line_and_ends_with_the_answer(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            call = await client.begin_shell("progress one two", meta={"progressToken": "t"})
            while (await client.receive()).get("id") != call:
                pass
            await client.request("ping")
            told = [m["params"] for m in client.received if "method" in m]
            assert told
            assert {params["progressToken"] for params in told} == {"t"}
            ages = [params["progress"] for params in told]
            assert ages == sorted(set(ages))
            assert {params["message"] for params in told} <= {"one", "two"}

        run(scenario)

    def test_nobody_who_did_not_ask_is_told(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            calls = {
                await client.begin_shell("progress one two"),
                await client.begin_shell("progress one two", meta={"progressToken": None}),
            }
            answered = {(await client.receive()).get("id") for _ in calls}
            assert answered == calls

        run(scenario)
