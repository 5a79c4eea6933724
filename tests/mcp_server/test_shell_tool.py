"""The tool as clients see it: its schemas, what it takes, what it gives."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from codex_multitool.mcp_server import shell_tool
from codex_multitool.mcp_server.calls import CommandSpec, ToolError
from codex_multitool.mcp_server.shell_tool import (
    DEFINITION,
    ArgumentError,
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
            "timeout_ms": {"type": "integer", "minimum": 0},
            "login": {"type": "boolean"},
        }

    def test_name_is_the_references(self) -> None:
        assert DEFINITION["name"] == "shell"

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


def test_the_timeout_told_is_the_timeout_there_is() -> None:
    described = DEFINITION["inputSchema"]["properties"]["timeout_ms"]["description"]
    assert str(shell_tool.DEFAULT_TIMEOUT_MS) in described
    assert parse_arguments(GIVEN).timeout_ms == shell_tool.DEFAULT_TIMEOUT_MS
