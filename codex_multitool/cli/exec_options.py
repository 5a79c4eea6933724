"""The command line of `exec` as values, and a reader of the plain ones — pure.

Most command lines are plain. What is not, click reads: abbreviations, requests for help, mistakes,
and options that take more than a text.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

SHELL_VARIABLE = "CODEX_BASH_PATH"
MODES = ("read-only", "workspace-write", "danger-full-access")
INTERCEPT = ("auto", "kernel", "wrapper")

_CHOICES = {"mode": MODES, "intercept": INTERCEPT}
_FIELDS = {
    "--rules": "rules",
    "--sandbox": "mode",
    "-s": "mode",
    "--cd": "directory",
    "-C": "directory",
    "--intercept": "intercept",
    "--shell": "shell",
    "--learn": "learn",
}
_FLAGS = {"--tree": "tree", "--json": "json", "--accept-writable-server": "accept_writable"}


class Options(NamedTuple):
    """What was given. None: what the configuration says, or the default.

    directory: where the command runs. shell_named: whether the shell is an option, not the
    environment that says so. json: whether the result goes to stdout, json_fd: to which descriptor
    instead. timeout: seconds, perhaps inf. accept_writable: that the command may write our own
    files. ignored: signals that the command shall ignore.
    """

    words: tuple[str, ...]
    directory: str = "."
    mode: str | None = None
    overrides: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    intercept: str | None = None
    shell: str | None = None
    shell_named: bool = False
    timeout: float = inf
    tree: bool = False
    json: bool = False
    json_fd: int | None = None
    learn: str | None = None
    accept_writable: bool = False
    ignored: tuple[int, ...] = ()

    @property
    def result_fd(self) -> int | None:
        """Where the result goes, if anywhere."""
        return self.json_fd or (1 if self.json else None)


def plain(words: Sequence[str], environ: Mapping[str, str]) -> Options | None:
    """The options of a plain command line; None for every other. words: all but the first."""
    if words[:1] != ["exec"]:
        return None
    found: dict[str, Any] = {"shell": environ.get(SHELL_VARIABLE) or None, "rules": ()}
    for at, word in (rest := iter(enumerate(words[1:], 2))):
        if not word.startswith("-"):
            return Options(tuple(words[at - 1 :]), **found)
        if word == "--":
            return Options(tuple(words[at:]), **found) if words[at:] else None
        if word in _FLAGS:
            found[_FLAGS[word]] = True
            continue
        name, joined, value = word.partition("=")
        if not joined:
            _, value = next(rest, (0, ""))
        field = _FIELDS.get(name)
        if field is None or (joined and not name.startswith("--")):
            return None
        if not value or value.startswith("-") or value not in _CHOICES.get(field, (value,)):
            return None
        found[field] = (*found["rules"], value) if field == "rules" else value
        found["shell_named"] = found.get("shell_named", False) or field == "shell"
    return None
