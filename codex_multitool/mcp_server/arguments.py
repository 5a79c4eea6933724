"""The arguments of the tool `shell` — pure."""

from os.path import isabs

from codex_multitool.mcp_server.calls import CommandSpec, ToolError
from codex_multitool.mcp_server.messages import Object, named
from codex_multitool.mcp_server.shell_tool import DEFAULT_TIMEOUT_MS

_MAX_COMMAND = 128 * 1024  # bytes, NUL included: MAX_ARG_STRLEN, execve(2)
_MAX_TIMEOUT_MS = 1 << 53  # beyond what JSON numbers are exact for


class ArgumentError(Exception):
    """The arguments are not what the input schema asks for."""


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
