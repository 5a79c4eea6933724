"""The tool as clients see it: its schemas, what it takes, what it gives."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import msgspec
import pytest

from codex_multitool.mcp_server import shell_tool
from codex_multitool.mcp_server.calls import CommandResult, CommandSpec, Decision, ToolError
from codex_multitool.mcp_server.output import STDERR, STDOUT, Capture
from codex_multitool.mcp_server.shell_tool import (
    DEFINITION,
    ArgumentError,
    encode_failure,
    encode_result,
    parse_arguments,
)

GIVEN = {"command": "true", "workdir": "/"}


class TestDefinition:
    def test_schemas_are_json_schema_2020_12(self) -> None:
        for name in ("inputSchema", "outputSchema"):
            jsonschema.Draft202012Validator.check_schema(DEFINITION[name])
            assert DEFINITION[name]["type"] == "object"

    def test_input_schema_is_the_references(self) -> None:
        schema = DEFINITION["inputSchema"]
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema["title"] == "ExecParams"
        assert schema["required"] == ["command", "workdir"]
        kinds = {
            name: {key: value for key, value in member.items() if key != "description"}
            for name, member in schema["properties"].items()
        }
        assert kinds == {
            "command": {"type": "string"},
            "workdir": {"type": "string"},
            "timeout_ms": {"type": "integer", "format": "uint64", "minimum": 0, "nullable": True},
            "login": {"type": "boolean", "nullable": True},
        }

    def test_description_is_the_references(self) -> None:
        assert DEFINITION["name"] == "shell"
        assert DEFINITION["description"] == (
            "Runs a shell command and returns its output. "
            "You MUST provide the workdir as an absolute path."
        )

    def test_annotations_promise_nothing(self) -> None:
        assert DEFINITION["annotations"] == {
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": True,
        }


class TestArguments:
    def test_defaults(self) -> None:
        assert parse_arguments(GIVEN) == CommandSpec("true", "/", 10_000, login=True)
        nulls = {**GIVEN, "timeout_ms": None, "login": None}
        assert parse_arguments(nulls) == CommandSpec("true", "/", 10_000, login=True)

    def test_all_given_and_unknown_ones_ignored(self) -> None:
        given = {**GIVEN, "timeout_ms": 5, "login": False, "sandbox": "none"}
        assert parse_arguments(given) == CommandSpec("true", "/", 5, login=False)

    @pytest.mark.parametrize(
        ("timeout", "milliseconds"),
        [(0, 0), (1.0, 1), (2**53, 2**53), (10**400, 2**53), (1e300, 2**53)],
    )
    def test_any_timeout_from_0_up(self, timeout: float, milliseconds: int) -> None:
        assert parse_arguments({**GIVEN, "timeout_ms": timeout}).timeout_ms == milliseconds

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ({}, "missing field `command`"),
            ({"command": "true"}, "missing field `workdir`"),
            ({"workdir": "/"}, "missing field `command`"),
            ({**GIVEN, "command": 7}, "`command` must be a string, not a number"),
            ({**GIVEN, "command": None}, "`command` must be a string, not null"),
            ({**GIVEN, "workdir": ["/"]}, "`workdir` must be a string, not an array"),
            ({**GIVEN, "timeout_ms": "5"}, "`timeout_ms` must be an integer"),
            ({**GIVEN, "timeout_ms": True}, "`timeout_ms` must be an integer"),
            ({**GIVEN, "timeout_ms": 1.5}, "`timeout_ms` must be an integer"),
            ({**GIVEN, "timeout_ms": -1}, "`timeout_ms` must be 0 or more, not -1"),
            ({**GIVEN, "login": "no"}, "`login` must be a boolean, not a string"),
            ({**GIVEN, "login": 0}, "`login` must be a boolean, not a number"),
        ],
    )
    def test_what_breaks_the_schema_is_named(self, arguments: Any, why: str) -> None:
        with pytest.raises(ArgumentError) as caught:
            parse_arguments(arguments)
        assert str(caught.value) == why

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ({**GIVEN, "workdir": "src"}, "workdir 'src': it must be an absolute path"),
            ({**GIVEN, "workdir": ""}, "workdir '': it must be an absolute path"),
            ({**GIVEN, "workdir": "/a\0"}, "`workdir` holds a NUL"),
            ({**GIVEN, "command": "a\0b"}, "`command` holds a NUL"),
        ],
    )
    def test_what_is_of_no_use_is_told_to_the_model(self, arguments: Any, why: str) -> None:
        with pytest.raises(ToolError) as caught:
            parse_arguments(arguments)
        assert str(caught.value).startswith(why)


def ended(stdout: bytes = b"", stderr: bytes = b"", **more: Any) -> CommandResult:
    capture = Capture()
    capture.feed(STDOUT, stdout)
    capture.feed(STDERR, stderr)
    told = {"exit_code": 0, "signal": None, "timed_out": False, "duration_ns": 0, **more}
    return CommandResult(
        stdout=capture.stdout(), stderr=capture.stderr(), both=capture.both(), **told
    )


def encoded(result: CommandResult, signal: str | None = None) -> tuple[str, dict[str, Any]]:
    """Text and structured content; the latter keeps to the schema."""
    made = json.loads(msgspec.json.encode(encode_result(result, signal)))
    assert made["isError"] is False
    (item,) = made["content"]
    assert item["type"] == "text"
    structured = made["structuredContent"]
    jsonschema.validate(structured, DEFINITION["outputSchema"])
    assert set(structured) == set(DEFINITION["outputSchema"]["properties"])
    return item["text"], structured


class TestResult:
    def test_text_is_the_references_to_the_byte(self) -> None:
        text, _ = encoded(ended(b"hi\n", duration_ns=3_714_494))
        assert text == (
            '{"exit_code":0,"output":"hi\\n","duration":{"secs":0,"nanos":3714494},'
            '"timed_out":false}'
        )

    def test_structured_content_has_all_members(self) -> None:
        _, structured = encoded(ended(b"out\n", b"err\n", exit_code=3, duration_ns=2_000_000_005))
        assert structured == {
            "exit_code": 3,
            "output": "out\nerr\n",
            "stdout": "out\n",
            "stderr": "err\n",
            "duration": {"secs": 2, "nanos": 5},
            "timed_out": False,
            "signal": None,
            "truncated": None,
            "decisions": [],
            "background": [],
            "notes": [],
        }

    def test_what_matters_is_in_the_text_too(self) -> None:
        text, structured = encoded(
            ended(
                b"x" * (1 << 20) + b"yz",
                exit_code=137,
                signal=9,
                background=((77, "sleep 9"),),
                notes=("mind this",),
            ),
            "SIGKILL",
        )
        told = json.loads(text)
        assert list(told) == [
            "exit_code", "output", "duration", "timed_out", "signal", "truncated", "background",
            "notes",
        ]  # fmt: skip
        assert told["signal"] == "SIGKILL"
        assert told["truncated"] == {"output": 2, "stdout": 2, "stderr": 0}
        assert told["background"] == [{"pid": 77, "command": "sleep 9"}]
        assert told["notes"] == ["mind this"]
        assert {name: structured[name] for name in told} == told

    def test_timeout(self) -> None:
        text, _ = encoded(ended(b"so far", exit_code=124, timed_out=True))
        assert json.loads(text)["timed_out"] is True
        assert json.loads(text)["output"] == "so far"

    @pytest.mark.parametrize("decision", ["run", "escalate", "deny"])
    def test_decisions_are_structured_only(self, decision: str) -> None:
        made = Decision("/bin/rm", ("rm", "-rf", "x y"), decision, "rule `rm`")
        text, structured = encoded(ended(decisions=(made,)))
        assert "decisions" not in json.loads(text)
        assert structured["decisions"] == [
            {
                "program": "/bin/rm",
                "argv": ["rm", "-rf", "x y"],
                "decision": decision,
                "reason": "rule `rm`",
            }
        ]

    def test_names_that_are_no_text_are_shown_as_far_as_they_are(self) -> None:
        bad = "caf\udce9"
        _, structured = encoded(
            ended(
                decisions=(Decision(f"/{bad}", (bad, "\ud800"), "deny", f"no {bad}"),),
                background=((1, bad),),
                notes=(bad,),
            )
        )
        assert structured["decisions"][0]["argv"] == ["caf\ufffd", "\ufffd"]
        assert structured["background"] == [{"pid": 1, "command": "caf\ufffd"}]
        assert structured["notes"] == ["caf\ufffd"]

    def test_every_byte_of_output_can_be_sent(self) -> None:
        text, structured = encoded(ended(bytes(range(256)) * 3))
        assert json.loads(text)["output"] == structured["stdout"]

    def test_failure_is_a_result_with_its_text(self) -> None:
        assert encode_failure("workdir '/caf\udce9': no") == {
            "content": [{"type": "text", "text": "workdir '/caf\ufffd': no"}],
            "isError": True,
        }


def test_the_timeout_told_is_the_timeout_there_is() -> None:
    described = DEFINITION["inputSchema"]["properties"]["timeout_ms"]["description"]
    assert str(shell_tool.DEFAULT_TIMEOUT_MS) in described
    assert parse_arguments(GIVEN).timeout_ms == shell_tool.DEFAULT_TIMEOUT_MS
