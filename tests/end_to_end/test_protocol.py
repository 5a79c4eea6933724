"""The conversation itself: the handshake, errors, and what must not end the server."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from tests.end_to_end.client import Client, Json, RpcError, ToolError, decline
from tests.end_to_end.processes import DEADLINE, wait_until
from tests.end_to_end.rig import (
    KERNEL,
    ONLY_WORKSPACE,
    OUR_PAIRINGS,
    PAIRINGS,
    Box,
    Pairing,
    Start,
    over,
)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


@over(PAIRINGS)
def test_the_handshake_and_the_tool(pairing: Pairing, start: Start) -> None:
    client = start(pairing, initialize=False)
    told = client.initialize("2025-06-18")
    assert told["protocolVersion"] == "2025-06-18"
    assert told["capabilities"]["experimental"]["codex/sandbox-state"] == {"version": "1.0.0"}
    assert "tools" in told["capabilities"]
    assert {"name", "version"} <= set(told["serverInfo"])
    (tool,) = client.request("tools/list", {})["tools"]
    assert tool["name"] == "shell"
    assert tool["description"].startswith(
        "Runs a shell command and returns its output. "
        "You MUST provide the workdir as an absolute path."
    )
    schema = tool["inputSchema"]
    assert schema["required"] == ["command", "workdir"]
    assert set(schema["properties"]) == {"command", "workdir", "timeout_ms", "login"}


@over([Pairing(), KERNEL])
def test_a_model_is_told_what_this_shell_is(pairing: Pairing, start: Start, box: Box) -> None:
    (box.home / ".codex/config.toml").write_text('sandbox_mode = "read-only"\n')
    client = start(pairing, initialize=False)
    instructions = client.initialize()["instructions"]
    mode = "kernel" if pairing.wrapper is None else "wrapper"
    assert "write nothing; there is no network" in instructions
    assert f"Interception: {mode}." in instructions
    client.request(
        "codex/sandbox-state/update", box.state({**ONLY_WORKSPACE, "network_access": True})
    )
    (tool,) = client.request("tools/list")["tools"]
    assert f"write only beneath {box.ws}; there is a network" in tool["description"]
    assert len(tool["description"]) < 900
    methods = [message.get("method") for message in client.received]
    assert methods.count("notifications/tools/list_changed") == 1


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("2020-01-01", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ],
)
def test_version_negotiation(asked: str, given: str, start: Start) -> None:
    client = start(Pairing(), initialize=False)
    assert client.initialize(asked)["protocolVersion"] == given
    assert client.shell("echo hi").output == "hi\n"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
        ("tools/list", None),
        ("tools/call", {"name": "shell", "arguments": {"command": "id", "workdir": "/"}}),
        ("no/such", None),
    ],
)
def test_a_request_before_initialize_gets_an_error_at_once(
    method: str, params: Json | None, start: Start
) -> None:
    client = start(Pairing(), initialize=False)
    with pytest.raises(RpcError):
        client.request(method, params)
    client.initialize()
    assert client.shell("echo hi").output == "hi\n"


def test_a_ping_before_initialize_is_answered(start: Start) -> None:
    client = start(Pairing(), initialize=False)
    assert client.request("ping") == {}


def test_the_result_is_also_structured_content(start: Start) -> None:
    client = start(Pairing())
    (tool,) = client.request("tools/list")["tools"]
    answer = client.begin_shell("echo out; exit 3").result()
    structured = answer["structuredContent"]
    text = json.loads(answer["content"][0]["text"])
    assert set(text) == {"exit_code", "output", "duration", "timed_out"}
    assert {name: structured[name] for name in text} == text
    assert set(structured) >= set(tool["outputSchema"]["required"])
    assert (structured["exit_code"], structured["output"]) == (3, "out\n")
    assert set(structured["duration"]) == {"secs", "nanos"}


@over(PAIRINGS)
def test_errors_and_leniency(pairing: Pairing, start: Start) -> None:
    client = start(pairing)
    for method, params, code in (
        ("no/such", {}, METHOD_NOT_FOUND),
        ("tools/call", {"name": "no-such", "arguments": {}}, INVALID_PARAMS),
        ("codex/sandbox-state/update", {}, INVALID_PARAMS),
    ):
        with pytest.raises(RpcError) as refused:
            client.request(method, params)
        assert refused.value.code == code, method
    for given, missing in (("command", "workdir"), ("workdir", "command")):
        call = client.begin("tools/call", {"name": "shell", "arguments": {given: "/"}})
        with pytest.raises((RpcError, ToolError), match=missing):
            call.shell_result()
    assert client.shell("echo hi", timeout_ms=None, login=None, colour="red").exit_code == 0
    assert client.begin("ping", id_="p-1").result() == {}


def test_a_wrong_argument_is_named(start: Start) -> None:
    client = start(Pairing())
    for field, value in (
        ("command", 3),
        ("command", None),
        ("workdir", ["/"]),
        ("timeout_ms", -1),
        ("timeout_ms", 0.5),
        ("timeout_ms", "10"),
        ("timeout_ms", True),
        ("login", "yes"),
    ):
        arguments = {"command": "true", "workdir": "/", field: value}
        call = client.begin("tools/call", {"name": "shell", "arguments": arguments})
        with pytest.raises((RpcError, ToolError), match=field):
            call.shell_result()
    assert client.shell("echo on").output == "on\n"


MALFORMED: dict[str, tuple[bytes, int | None]] = {
    "no JSON": (b"this is no json\n", PARSE_ERROR),
    "half a message": (b'{"jsonrpc": "2.0", "id": 1\n', PARSE_ERROR),
    "bad UTF-8": (b'{"jsonrpc": "2.0", "id": 77, "method": "\xff"}\n', PARSE_ERROR),
    "a number": (b"17\n", INVALID_REQUEST),
    "an empty batch": (b"[]\n", INVALID_REQUEST),
    "no method": (b'{"jsonrpc": "2.0", "id": 77}\n', INVALID_REQUEST),
    "another version": (b'{"jsonrpc": "1.0", "id": 77, "method": "ping"}\n', INVALID_REQUEST),
    "a method that is a number": (b'{"jsonrpc": "2.0", "id": 77, "method": 5}\n', INVALID_REQUEST),
    "a fractional id": (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}\n', INVALID_REQUEST),
    "a null id": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n', INVALID_REQUEST),
    "an empty line": (b"\n", None),
    "blanks and CRLF": (b" \t \r\n", None),
    "an unknown notification": (b'{"jsonrpc": "2.0", "method": "notifications/x"}\n', None),
    "an answer nobody asked for": (b'{"jsonrpc": "2.0", "id": "x", "result": {}}\n', None),
    "an error without an id": (
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}\n',
        None,
    ),
}


def test_a_malformed_line_leaves_the_server_alive(start: Start, box: Box) -> None:
    os.mkfifo(box.ws / "go")
    client = start(Pairing())
    running = client.begin_shell("read x < go; echo still answered")
    codes: dict[str, int | None] = {}
    for kind, (line, _) in MALFORMED.items():
        before = len(client.received)
        client.send_raw(line)
        assert client.request("ping") == {}
        errors = [message["error"]["code"] for message in client.received[before:-1]]
        assert len(errors) <= 1, kind
        codes[kind] = errors[0] if errors else None
    assert codes == {kind: code for kind, (_, code) in MALFORMED.items()}
    (box.ws / "go").write_text("\n")
    assert running.shell_result().output == "still answered\n"


def test_params_that_are_no_object_are_an_error(start: Start) -> None:
    client = start(Pairing())
    for params in ([], ["shell"], "shell", 5):
        with pytest.raises(RpcError) as refused:
            client.request("tools/call", params)
        assert refused.value.code in (INVALID_REQUEST, INVALID_PARAMS)
    assert client.request("ping") == {}


def test_messages_may_come_in_pieces_or_together(start: Start) -> None:
    client = start(Pairing())
    ping = b'{"jsonrpc": "2.0", "id": "%s", "method": "ping"}\n'
    for byte in ping % b"slow":
        client.send_raw(bytes([byte]))
        time.sleep(0.001)
    client.send_raw(b"".join(ping % (b"fast-%d" % n) for n in range(50)))
    expected = {"slow", *(f"fast-{n}" for n in range(50))}
    wait_until(lambda: expected <= {message.get("id") for message in client.received}, "51 answers")


def test_output_of_every_kind_arrives_as_text(start: Start) -> None:
    client = start(Pairing())
    result = client.shell(r"printf 'caf\303\251 \377\376 \033[1m \000 \342\202\254'")
    assert "caf\u00e9 " in result.output
    assert result.output.endswith("\u20ac")
    assert "\x1b[1m" in result.output


def test_much_output_is_answered(start: Start) -> None:
    client = start(Pairing())
    result = client.shell("yes | head -c 5000000; echo end", timeout_ms=60_000)
    assert result.exit_code == 0
    assert result.output.startswith("y\n")
    assert result.output.endswith("end\n")


def ask_for(client: Client, replies: dict[str, Any]) -> str:
    """Run a command that asks, reply as told, and give its output."""
    call = client.begin_shell("git init .", timeout_ms=5000)
    asked = {"method", "id"}
    wait_until(lambda: any(asked <= set(it) for it in client.received), "the question")
    (question,) = (message for message in client.received if asked <= set(message))
    client.send({"jsonrpc": "2.0", "id": question["id"], **replies})
    return call.shell_result().output


@over(OUR_PAIRINGS)
def test_a_client_that_cannot_be_asked_is_told_the_rule(
    pairing: Pairing, start: Start, box: Box
) -> None:
    client = start(
        pairing, rules='prefix_rule(pattern=["git", "init"], decision="prompt")\n', answer=None
    )
    result = client.shell("git init .")
    assert result.exit_code == 1
    assert result.output.startswith("Execution denied: ")
    assert "git init" in result.output
    assert f"{box.rules}:1" in result.output
    assert client.questions == []


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"code": -32601, "message": "Method not found"}},
        {"result": {"action": "shrug"}},
        {"result": {}},
        {"result": []},
        {"result": None},
    ],
    ids=["error", "unknown-action", "no-action", "list", "null"],
)
def test_a_question_without_an_answer_is_a_denial(reply: Json, start: Start, box: Box) -> None:
    client = start(
        Pairing(),
        rules='prefix_rule(pattern=["git", "init"], decision="prompt")\n',
        answer=lambda _question: None,
    )
    assert ask_for(client, reply).startswith("Execution denied: ")
    assert not (box.ws / ".git").exists()


@over(PAIRINGS)
def test_a_rules_file_that_cannot_be_read_stops_the_server_and_is_named(
    pairing: Pairing, start: Start, box: Box
) -> None:
    rules = 'prefix_rule(pattern=["ls"], decision="maybe")\n'
    client = start(pairing, rules=rules, initialize=False)
    assert client.process.wait(DEADLINE) not in (0, None)
    assert f"{box.rules}:1" in client.stderr()
    assert "maybe" in client.stderr()
    assert client.received == []


def test_more_rules_can_be_named_on_the_command_line(start: Start, box: Box) -> None:
    more = box.root / "more.rules"
    more.write_text('prefix_rule(pattern=["git", "init"], decision="forbidden")\n')
    client = start(
        Pairing(),
        rules='prefix_rule(pattern=["git"], decision="prompt")\n',
        answer=decline,
        options=["--rules", str(more)],
    )
    assert "User declined" in client.shell("git --version").output
    assert "forbidden by policy" in client.shell("git init .").output


@over(PAIRINGS)
def test_rules_can_be_held_against_full_paths(pairing: Pairing, start: Start) -> None:
    rules = (
        'prefix_rule(pattern=["env"], decision="forbidden")\n'
        'prefix_rule(pattern=["/usr/bin/id"], decision="forbidden")\n'
    )
    client = start(pairing, rules=rules, options=["--preserve-program-paths"])
    assert client.shell("env true; echo rc=$?").output == "rc=0\n"
    assert "rc=1" in client.shell("/usr/bin/id; echo rc=$?").lines
