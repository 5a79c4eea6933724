"""A whole session, over real pipes and sockets, with a tool that does what it is told."""

import json
import logging
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from codex_multitool import __version__
from codex_multitool.mcp_server.shell_tool import DEFINITION
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.mcp_server.words import Words
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.conversation import Client, Json, error, pipes, run, sockets, text

UPDATE = "codex/sandbox-state/update"
META = "codex/sandbox-state-meta"
READ_ONLY = {"sandboxPolicy": {"type": "read-only"}, "sandboxCwd": "/a"}
FULL = {"sandboxPolicy": {"type": "danger-full-access"}, "sandboxCwd": "/b"}
IN_READ_ONLY = SandboxState(SandboxPolicy("read-only"), "/a")
IN_FULL = SandboxState(SandboxPolicy("danger-full-access"), "/b")
OLDER = "2025-06-18"


class TestInitialize:
    @pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", OLDER, "2025-11-25"])
    def test_result(self, version: str) -> None:
        async def scenario(client: Client) -> None:
            assert await client.initialize(version) == {
                "protocolVersion": version,
                "capabilities": {
                    "experimental": {"codex/sandbox-state": {"version": "1.0.0"}},
                    "tools": {"listChanged": True},
                },
                "serverInfo": {
                    "name": "codex-exec-mcp-server",
                    "title": "Sandboxed shell",
                    "version": __version__,
                },
                "instructions": Words(kernel=True).instructions(None),
            }

        run(scenario)

    def test_what_a_model_is_told_follows_the_state(self) -> None:
        async def described(client: Client) -> str:
            (tool,) = (await client.request("tools/list"))["result"]["tools"]
            assert isinstance(tool["description"], str)
            return tool["description"]

        async def scenario(client: Client) -> None:
            await client.initialize()
            before = await described(client)
            assert "The client says what they can write" in before
            changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            for state, told in ((FULL, [changed]), (FULL, []), (READ_ONLY, [changed])):
                assert (await client.request(UPDATE, state))["result"] == {}
                assert client.heard == told
                client.heard.clear()
            assert "write nothing; there is no network" in await described(client)

        run(scenario)

    def test_newer_client_falls_back_to_it(self) -> None:
        async def scenario(client: Client) -> None:
            discover = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
            code, told = error(await client.request("server/discover", discover))
            assert (code, told) == (-32601, "method not found: server/discover")
            assert (await client.initialize("2026-07-28"))["protocolVersion"] == "2025-11-25"

        run(scenario)

    def test_before_it_only_ping_is_served(self) -> None:
        async def scenario(client: Client) -> None:
            assert (await client.request("ping"))["result"] == {}
            for method in ("tools/list", "tools/call", UPDATE):
                assert error(await client.request(method, {}))[0] == -32600
            assert not client.tool.specs
            await client.initialize()
            assert text(await client.shell("echo hi"))

        run(scenario)

    def test_a_second_one_is_answered(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(OLDER)
            assert (await client.initialize("2025-11-25"))["protocolVersion"] == "2025-11-25"

        run(scenario)


class TestMethods:
    def test_ping_and_list(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            assert (await client.request("ping"))["result"] == {}
            listed = (await client.request("tools/list", {}))["result"]
            description = Words(kernel=True).description(None)
            told = {**DEFINITION, "description": description}
            assert listed == {"tools": [json.loads(json.dumps(told))]}

        run(scenario)

    @pytest.mark.parametrize("method", ["nope/method", "resources/list", "prompts/list", "x" * 500])
    def test_unknown_method_is_named(self, method: str) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            answer = error(await client.request(method, {}))
            assert answer == (-32601, f"method not found: {method}")

        run(scenario)

    def test_notifications_are_never_answered(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            for method in ("notifications/initialized", "notifications/progress", "nope", "ping"):
                await client.send(method=method, params={"progressToken": 1, "progress": 1})
            await client.send(method="notifications/cancelled", params={"requestId": 77})
            await client.send(method="notifications/cancelled", params={"requestId": None})
            await client.send(method="notifications/cancelled")
            await client.request("ping")

        run(scenario)

    def test_a_string_id_comes_back(self) -> None:
        async def scenario(client: Client) -> None:
            await client.send(id="sieben", method="ping")
            assert await client.receive() == {"jsonrpc": "2.0", "id": "sieben", "result": {}}

        run(scenario)

    def test_nonsense_leaves_the_server_alone(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            for data, code in [
                (b"this is no json\n", -32700),
                (b'\xff\xfe{"\n', -32700),
                (b"[]\n", -32600),
                (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}\n', -32602),
                (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', -32600),
            ]:
                await client.send_raw(b"\n" + data)
                assert error(await client.receive())[0] == code
            assert "hi" in text(await client.shell("echo hi"))

        run(scenario)

    def test_deeply_nested_params_are_answered(self) -> None:
        """Whatever depth the decoder takes, the answer that holds them can be made too."""

        async def scenario(client: Client) -> None:
            await client.initialize()
            for depth in range(900, 1010, 3):
                nested = b"[" * depth + b"]" * depth
                await client.send_raw(
                    b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"a":%s}}\n'
                    % (depth, UPDATE.encode(), nested)
                )
                code, _ = error(await client.receive())
                assert code in (-32602, -32603, -32700)
            await client.request("ping")

        run(scenario)


class TestCall:
    @pytest.mark.parametrize("descriptors", [pipes, sockets])
    def test_result(self, descriptors: Callable[[], Any]) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            result = (await client.shell("echo hi"))["result"]
            assert result["isError"] is False
            jsonschema.validate(result["structuredContent"], DEFINITION["outputSchema"])
            assert result["content"] == [{"type": "text", "text": "hi\n"}]

        run(scenario, descriptors=descriptors)

    @pytest.mark.parametrize("speaks", ["update", "call", "name"])
    def test_who_speaks_as_the_references_client_gets_the_references_result(
        self, speaks: str
    ) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(name="codex-mcp-client" if speaks == "name" else "another")
            if speaks == "update":
                await client.request(UPDATE, READ_ONLY)
            if speaks == "call":
                await client.shell("echo hi", meta={META: READ_ONLY})
            result = (await client.shell("echo hi"))["result"]
            assert json.loads(result["content"][0]["text"]) == {
                "exit_code": 0,
                "output": "hi\n",
                "duration": {"secs": 0, "nanos": 1},
                "timed_out": False,
            }
            assert result["structuredContent"]["output"] == "hi\n"

        run(scenario)

    def test_a_batch_is_answered_when_its_last_call_has_ended(self) -> None:
        def request(number: int, method: str, command: str = "") -> Json:
            arguments = {"command": command, "workdir": "/"}
            params = {"name": "shell", "arguments": arguments}
            return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

        async def scenario(client: Client) -> None:
            await client.initialize("2025-03-26")
            members = [
                request(101, "ping"),
                request(102, "tools/call", "echo hi"),
                request(103, "tools/call", "wait"),
                request(104, "tools/call", "wait"),
                request(105, "nope"),
            ]
            await client.send_raw(json.dumps(members).encode() + b"\n")
            await client.request("ping")
            await client.send(method="notifications/cancelled", params={"requestId": 103})
            await client.request("ping")
            client.tool.release.set()
            answers: Any = await client.receive()
            assert {answer["id"] for answer in answers} == {101, 102, 104, 105}

        run(scenario)

    @pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
    def test_before_there_was_structured_content_json_is_all_a_program_gets(
        self, version: str
    ) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(version)
            result = (await client.shell("echo hi"))["result"]
            assert json.loads(result["content"][0]["text"])["exit_code"] == 0
            assert "structuredContent" not in result

        run(scenario)

    def test_death_by_signal_has_its_name(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            told = (await client.shell("kill"))["result"]["structuredContent"]
            assert (told["exit_code"], told["signal"]) == (143, "SIGTERM")

        run(scenario)

    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"name": None},
            {"name": "nope", "arguments": {}},
            {"name": ["shell"], "arguments": {"command": "true", "workdir": "/"}},
            {"name": "shell", "arguments": ["true"]},
            {"name": "shell", "arguments": "true"},
            {"name": "shell", "arguments": {"command": "true", "workdir": "/"}, "_meta": []},
        ],
    )
    def test_malformed_call_is_an_error_of_the_protocol(self, params: Json) -> None:
        async def scenario(client: Client) -> None:
            for version in (OLDER, "2025-11-25"):
                await client.initialize(version)
                assert error(await client.request("tools/call", params))[0] == -32602
            assert not client.tool.specs

        run(scenario)

    def test_unknown_tool_is_named(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            answer = await client.request("tools/call", {"name": "nope"})
            assert error(answer) == (-32602, "unknown tool: 'nope'; the only one is `shell`")

        run(scenario)

    def test_wrong_arguments_are_for_the_model_since_2025_11_25(self) -> None:
        async def scenario(client: Client) -> None:
            call = {"name": "shell", "arguments": {"workdir": "/"}}
            told = "failed to deserialize parameters: missing field `command`"
            await client.initialize()
            assert (await client.request("tools/call", call))["result"] == {
                "content": [{"type": "text", "text": told}],
                "isError": True,
            }
            await client.initialize(OLDER)
            assert error(await client.request("tools/call", call)) == (-32602, told)
            del call["arguments"]
            assert error(await client.request("tools/call", call)) == (-32602, told)

        run(scenario)

    @pytest.mark.parametrize("version", [OLDER, "2025-11-25"])
    def test_useless_workdir_is_never_an_error_of_the_protocol(self, version: str) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(version)
            answer = await client.shell("true", workdir="src")
            assert answer["result"]["isError"] is True
            assert "'src'" in text(answer)

        run(scenario)

    def test_what_the_tool_refuses_is_a_result(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            answer = await client.shell("refuse")
            assert answer["result"]["isError"] is True
            assert text(answer) == "it cannot be had"

        run(scenario)

    def test_a_crash_is_an_error_and_a_traceback_and_harms_no_other_call(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            waiting = await client.begin_shell("wait")
            code, told = error(await client.shell("crash"))
            assert code == -32603
            assert "defect of the tool" not in told  # what an exception says is not for the peer
            client.tool.release.set()
            assert (await client.receive())["id"] == waiting

        with caplog.at_level(logging.ERROR):
            run(scenario)
        (record,) = caplog.records
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ZeroDivisionError)

    def test_calls_run_side_by_side_and_answer_in_the_order_they_end(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            first, second = await client.begin_shell("wait"), await client.begin_shell("wait")
            await client.until(lambda: client.tool.running == 2)
            assert "hi" in text(await client.shell("echo hi"))
            await client.request("ping")
            client.tool.release.set()
            assert {(await client.receive())["id"] for _ in "12"} == {first, second}
            assert client.tool.peak == 3

        run(scenario)

    def test_an_id_in_use_is_refused_and_its_call_goes_on(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            number = await client.begin_shell("wait")
            for method in ("tools/call", "ping"):
                await client.send(id=number, method=method)
                answer = await client.receive()
                assert (answer["id"], answer["error"]["code"]) == (number, -32600)
            client.tool.release.set()
            assert (await client.receive())["result"]["isError"] is False
            await client.send(id=number, method="ping")
            assert (await client.receive())["result"] == {}

        run(scenario)

    def test_too_many_at_once_are_refused_and_ping_is_not(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            for _ in range(256):
                await client.begin_shell("wait")
            code, told = error(await client.shell("wait"))
            assert (code, told) == (-32600, "256 calls are running: wait for one to end")
            await client.request("ping")
            client.tool.release.set()
            assert len({(await client.receive())["id"] for _ in range(256)}) == 256
            assert "hi" in text(await client.shell("echo hi"))

        run(scenario)


class TestState:
    def test_it_holds_for_later_calls_until_the_next(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            await client.shell("echo 1")
            assert (await client.request(UPDATE, READ_ONLY))["result"] == {}
            await client.shell("echo 2")
            assert (await client.request(UPDATE, FULL))["result"] == {}
            await client.shell("echo")
            assert client.tool.states == [None, IN_READ_ONLY, IN_FULL]

        run(scenario)

    def test_a_call_sees_the_updates_before_it_and_no_later_one(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            call = {"name": "shell", "arguments": {"command": "echo", "workdir": "/"}}
            requests = [(UPDATE, READ_ONLY), ("tools/call", call), (UPDATE, FULL)] * 2
            lines = [
                json.dumps({"jsonrpc": "2.0", "id": 50 + at, "method": method, "params": params})
                for at, (method, params) in enumerate(requests)
            ]
            await client.send_raw("\n".join([*lines, ""]).encode())
            answers = 0
            while answers < len(requests):
                message = await client.receive()
                answers += "result" in message
                assert "error" not in message
            assert client.tool.states == [IN_READ_ONLY, IN_READ_ONLY]

        run(scenario)

    def test_a_call_may_bring_its_own(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            await client.request(UPDATE, READ_ONLY)
            await client.shell("echo", meta={META: FULL, "threadId": "x"})
            await client.shell("echo", meta={"threadId": "x"})
            assert client.tool.states == [IN_FULL, IN_READ_ONLY]

        run(scenario)

    @pytest.mark.parametrize("own", [None, {}, [], {"permissionProfile": {"type": "open"}}])
    def test_a_call_with_one_that_cannot_be_read_does_not_run(self, own: Any) -> None:
        async def scenario(client: Client) -> None:
            for version in (OLDER, "2025-11-25"):
                await client.initialize(version)
                code, told = error(await client.shell("echo", meta={META: own}))
                assert code == -32602
                assert told.startswith("failed to deserialize sandbox state: ")
            assert client.tool.states == []

        run(scenario)

    def test_what_cannot_be_read_is_refused_with_what_was_sent_and_changes_nothing(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            await client.request(UPDATE, READ_ONLY)
            missing = await client.request(UPDATE)
            assert error(missing) == (-32602, "missing params for sandbox state request")
            for sent in ({}, {"sandboxPolicy": {"type": "open"}}, {**FULL, "sandboxCwd": 7}):
                answer = await client.request(UPDATE, sent)
                code, told = error(answer)
                assert code == -32602
                assert told.startswith("failed to deserialize sandbox state: ")
                assert answer["error"]["data"] == sent
            await client.shell("echo")
            assert client.tool.states == [IN_READ_ONLY]

        run(scenario)

    def test_without_a_directory_it_is_the_servers(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize()
            await client.request(UPDATE, {"sandboxPolicy": {"type": "read-only"}})
            await client.shell("echo")
            assert client.tool.states == [SandboxState(SandboxPolicy("read-only"), "/server")]

        run(scenario)
