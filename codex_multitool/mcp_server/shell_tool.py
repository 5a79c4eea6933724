"""The tool `shell`: what clients are told of it, and its arguments — pure."""

from os.path import isabs

from codex_multitool.mcp_server.calls import CommandSpec, ToolError
from codex_multitool.mcp_server.messages import Object, named

NAME = "shell"
DEFAULT_TIMEOUT_MS = 10_000
_MAX_COMMAND = 128 * 1024  # bytes, NUL included: MAX_ARG_STRLEN, execve(2)
_MAX_TIMEOUT_MS = 1 << 53  # beyond what JSON numbers are exact for


class ArgumentError(Exception):
    """The arguments are not what the input schema asks for."""


_COUNT = {"type": "integer", "minimum": 0}

DEFINITION: Object = {
    "name": NAME,
    "title": "Run a shell command",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ExecParams",
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The bash string to execute."},
            "workdir": {
                "type": "string",
                "description": "The working directory to execute the command in. Must be an "
                "absolute path.",
            },
            # null is taken as well, but no schema says so that every client can read: some know
            # no `type` that is a list, and `nullable` and `format` are no words of JSON Schema.
            "timeout_ms": {
                "type": "integer",
                "minimum": 0,
                "description": "The timeout for the command in milliseconds. Time spent waiting "
                f"for an approval does not count. Defaults to {DEFAULT_TIMEOUT_MS}.",
            },
            "login": {
                "type": "boolean",
                "description": "Launch Bash with -lc instead of -c: defaults to true.",
            },
        },
        "required": ["command", "workdir"],
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "exit_code": {
                "type": "integer",
                "description": "124 after a timeout, 128 + n after signal n",
            },
            "output": {
                "type": "string",
                "description": "stdout and stderr in order of arrival; of a long one the "
                "beginning and the end",
            },
            "duration": {
                "type": "object",
                "properties": {"secs": _COUNT, "nanos": _COUNT},
                "required": ["secs", "nanos"],
            },
            "timed_out": {"type": "boolean"},
            "signal": {"type": ["string", "null"], "description": "what killed it, like SIGTERM"},
            "truncated": {
                "type": ["object", "null"],
                "description": "bytes left out of the middle",
                "properties": {"output": _COUNT},
                "required": ["output"],
            },
            "output_file": {
                "type": ["string", "null"],
                "description": "a file with the whole output, where some was left out: commands "
                "can read it",
            },
            "decisions": {
                "type": "array",
                "description": "programs that were judged to run outside the sandbox, that were "
                "denied, or that a question was asked about",
                "items": {
                    "type": "object",
                    "properties": {
                        "program": {"type": "string"},
                        "argv": {"type": "array", "items": {"type": "string"}},
                        "decision": {"enum": ["run", "escalate", "deny"]},
                        "reason": {"type": "string"},
                        "times": {"type": "integer", "minimum": 2},
                    },
                    "required": ["program", "argv", "decision", "reason"],
                },
            },
            "background": {
                "type": "array",
                "description": "processes the command left running; they end with the server",
                "items": {
                    "type": "object",
                    "properties": {"pid": _COUNT, "command": {"type": "string"}},
                    "required": ["pid", "command"],
                },
            },
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": [
            "exit_code", "output", "duration", "timed_out", "signal", "truncated", "output_file",
            "decisions", "background", "notes",
        ],
    },
    "annotations": {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    },
}  # fmt: skip


def parse_arguments(arguments: Object) -> CommandSpec:
    """The arguments of a call; unknown ones are ignored, null means the default.

    Raises ArgumentError, or ToolError where the schema is kept and the value is of no use.
    """
    command, workdir = _text(arguments, "command"), _text(arguments, "workdir")
    login = arguments.get("login")
    if login is not None and not isinstance(login, bool):
        raise ArgumentError(f"`login` must be a boolean, not {named(login)}")
    timeout_ms = _milliseconds(arguments.get("timeout_ms"))
    for name, value in (("command", command), ("workdir", workdir)):
        if "\0" in value:
            raise ToolError(f"`{name}` holds a NUL character, which no argument can: execve(2)")
    if len(command.encode("utf-8", "surrogatepass")) >= _MAX_COMMAND:
        raise ToolError(
            f"`command` is longer than an argument can be, {_MAX_COMMAND - 1} bytes (execve(2)): "
            "write it to a file, and run that"
        )
    if not isabs(workdir):
        raise ToolError(f"workdir {workdir!r}: it must be an absolute path")
    return CommandSpec(command, workdir, timeout_ms, login is not False)


def _text(arguments: Object, name: str) -> str:
    if name not in arguments:
        raise ArgumentError(f"missing field `{name}`")
    value = arguments[name]
    if not isinstance(value, str):
        raise ArgumentError(f"`{name}` must be a string, not {named(value)}")
    return value


def _milliseconds(value: object) -> int:
    if value is None:
        return DEFAULT_TIMEOUT_MS
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 is an integer to JSON Schema
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError("`timeout_ms` must be an integer")
    if value < 0:
        raise ArgumentError(f"`timeout_ms` must be 0 or more, not {value}")
    return min(value, _MAX_TIMEOUT_MS)
