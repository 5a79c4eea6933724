"""The tool `shell`, as clients are told of it — pure."""

from codex_multitool.mcp_server.messages import Object

NAME = "shell"
DEFAULT_TIMEOUT_MS = 10_000

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
