"""The tool `shell`: what clients are told of it, its arguments, its result — pure."""

from os.path import isabs

import msgspec

from codex_multitool.mcp_server.calls import CommandResult, CommandSpec, ToolError, printable
from codex_multitool.mcp_server.messages import Object, named

NAME = "shell"
DEFAULT_TIMEOUT_MS = 10_000
_MAX_COMMAND = 128 * 1024  # bytes, NUL included: MAX_ARG_STRLEN, execve(2)
_MAX_TIMEOUT_MS = 1 << 53  # beyond what JSON numbers are exact for


class ArgumentError(Exception):
    """The arguments are not what the input schema asks for."""


_STREAM = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}

DEFINITION: Object = {
    "name": NAME,
    "title": "Run a shell command",
    "description": "Runs a shell command and returns its output. You MUST provide the workdir as "
    "an absolute path.",
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
            # `nullable` as the reference lists it: clients that turn words into arguments know
            # no `type` that is a list.
            "timeout_ms": {
                "type": "integer",
                "format": "uint64",
                "minimum": 0,
                "nullable": True,
                "description": "The timeout for the command in milliseconds. Time spent waiting "
                f"for an approval does not count. Defaults to {DEFAULT_TIMEOUT_MS}.",
            },
            "login": {
                "type": "boolean",
                "nullable": True,
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
            "output": {**_STREAM, "description": "stdout and stderr in order of arrival"},
            "stdout": _STREAM,
            "stderr": _STREAM,
            "duration": {
                "type": "object",
                "properties": {"secs": _COUNT, "nanos": _COUNT},
                "required": ["secs", "nanos"],
            },
            "timed_out": {"type": "boolean"},
            "signal": {"type": ["string", "null"], "description": "what killed it, like SIGTERM"},
            "truncated": {
                "type": ["object", "null"],
                "description": "bytes left out of the middle of each",
                "properties": {"output": _COUNT, "stdout": _COUNT, "stderr": _COUNT},
                "required": ["output", "stdout", "stderr"],
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
            "exit_code", "output", "stdout", "stderr", "duration", "timed_out", "signal",
            "truncated", "decisions", "background", "notes",
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


def encode_result(result: CommandResult, signal: str | None) -> Object:
    """The result of tools/call: the reference's four members as text, ours where they say more.

    signal: the name of result.signal.
    """
    # A large output is most of the message, and stands in it up to three times: encoded once.
    output = _encoded(result.both.text)
    alone = result.stdout.text == result.both.text
    told: Object = {
        "exit_code": result.exit_code,
        "output": output,
        "duration": {
            "secs": result.duration_ns // 1_000_000_000,
            "nanos": result.duration_ns % 1_000_000_000,
        },
        "timed_out": result.timed_out,
    }
    more: Object = {
        "signal": signal,
        "truncated": _truncated(result),
        "background": [{"pid": pid, "command": printable(line)} for pid, line in result.background],
        "notes": [printable(note) for note in result.notes],
    }
    text = {**told, **{name: value for name, value in more.items() if value}}
    return {
        "content": [{"type": "text", "text": msgspec.json.encode(text).decode()}],
        "structuredContent": {
            **told,
            **more,
            "stdout": output if alone else result.stdout.text,
            "stderr": result.stderr.text,
            "decisions": [
                {
                    "program": printable(decision.program),
                    "argv": [printable(word) for word in decision.argv],
                    "decision": decision.decision,
                    "reason": printable(decision.reason),
                }
                for decision in result.decisions
            ],
        },
        "isError": False,
    }


def encode_failure(text: str) -> Object:
    """The result of a call that could not be served."""
    return {"content": [{"type": "text", "text": printable(text)}], "isError": True}


def _encoded(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(text))


def _truncated(result: CommandResult) -> dict[str, int] | None:
    streams = {"output": result.both, "stdout": result.stdout, "stderr": result.stderr}
    dropped = {name: stream.dropped for name, stream in streams.items()}
    return dropped if any(dropped.values()) else None
