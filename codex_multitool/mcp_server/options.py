"""The command line of the role as values, and a reader of the plain ones — pure.

Nearly every command line of a server is plain. What is not, click reads: abbreviations, requests
for help, mistakes. It takes as long to load as all else that the first answer needs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SHELL_VARIABLE = "CODEX_BASH_PATH"
COMPLETION_VARIABLE = "_CODEX_EXEC_MCP_SERVER_COMPLETE"  # by it a shell asks click for words
INTERCEPT = ("auto", "kernel", "wrapper")
DANGEROUS_COMMANDS = ("ask", "run")
RESULTS = ("auto", "text", "json")

_CHOICES = {"intercept": INTERCEPT, "dangerous_commands": DANGEROUS_COMMANDS, "result": RESULTS}
_FIELDS = {
    "--intercept": "intercept",
    "--shell": "shell",
    "--bash": "shell",
    "--execve": "wrapper",
    "--rules": "rules",
    "--dangerous-commands": "dangerous_commands",
    "--result": "result",
}
_FLAGS = {
    "--preserve-program-paths": "preserve_program_paths",
    "--accept-writable-server": "accept_writable",
}


class Options(NamedTuple):
    """What was given. None: what the configuration says, or the default.

    patience: seconds. rules: besides those of the configuration. accept_writable: that commands
    may write the server's own files.
    """

    intercept: str | None = None
    shell: str | None = None
    wrapper: str | None = None
    rules: tuple[str, ...] = ()
    preserve_program_paths: bool = False
    dangerous_commands: str | None = None
    patience: float | None = None
    accept_writable: bool = False
    result: str | None = None


def plain(arguments: Sequence[str], environ: Mapping[str, str]) -> Options | None:
    """The options of a plain command line; None for every other."""
    if COMPLETION_VARIABLE in environ:
        return None
    found: dict[str, Any] = {"shell": environ.get(SHELL_VARIABLE) or None, "rules": ()}
    words = iter(arguments)
    for word in words:
        if word in _FLAGS:
            found[_FLAGS[word]] = True
            continue
        name, joined, value = word.partition("=")
        if not joined:
            value = next(words, "")
        field = _FIELDS.get(name)
        if field is None or not value or value.startswith("-"):
            return None
        if value not in _CHOICES.get(field, (value,)):
            return None
        found[field] = (*found["rules"], value) if field == "rules" else value
    return Options(**found)
