"""The tool as clients see it: its schemas."""

import jsonschema  # type: ignore[import-untyped]  # it ships no types

from codex_multitool.mcp_server import shell_tool
from codex_multitool.mcp_server.shell_tool import DEFINITION


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


def test_the_timeout_told_is_the_timeout_there_is() -> None:
    described = DEFINITION["inputSchema"]["properties"]["timeout_ms"]["description"]
    assert str(shell_tool.DEFAULT_TIMEOUT_MS) in described
