"""What an MCP client's configuration must say, and how that is merged into its files — pure.

A merge keeps everything it has no say in, comments included, or is refused.
"""

from __future__ import annotations

import json
import os.path
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

SERVER = "shell-tool"
# A call waits for commands and for humans. Codex counts seconds, Gemini CLI milliseconds.
_PATIENCE = 3600

# Below the home directory; Codex's is in CODEX_HOME.
FILES = {
    "codex": "config.toml",
    "claude": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "gemini": ".gemini/settings.json",
}
NOTES = {
    "codex": "Codex's own shell tool is switched off; calls of this one are not asked about but by "
    "your rules.",
    "claude": "Claude Code's own tool Bash is denied.",
    "cursor": "The shell of Cursor's command line is denied. The editor has no setting for its "
    "own: leave Auto-Run off in Settings > Agents.",
    "vscode": "VS Code has no setting for its own terminal tool: deselect it in the chat's "
    "Configure Tools.",
    "gemini": "Gemini CLI's own run_shell_command is excluded.",
}


class MergeError(Exception):
    """A file that cannot be changed without loss; the text says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file, and what it must say."""

    path: str
    values: Mapping[str, object]

    @property
    def toml(self) -> bool:
        """Whether it is TOML; else JSON."""
        return self.path.endswith(".toml")


def documents(
    client: str, path: str, executable: str, *, project: bool, moved: bool = False
) -> list[Document]:
    """The files of a client. path: the one that lists its servers, of the user or a project.

    moved: CLAUDE_CONFIG_DIR puts all files of the user's into one folder.
    """
    folder = os.path.dirname(path)
    stdio: dict[str, object] = {"command": executable, "args": []}
    match client:
        case "codex":
            server = {
                "command": executable,
                "tool_timeout_sec": _PATIENCE,
                # Codex would send the model off before the tool is there, and without a word
                # where it cannot start.
                "required": True,
                # The server asks where rules say so; Codex would ask of every call besides.
                "default_tools_approval_mode": "approve",
            }
            values = {"features": {"shell_tool": False}, "mcp_servers": {SERVER: server}}
            return [Document(path, values)]
        case "claude":
            # The same place beside ~/.claude.json and beside a project's .mcp.json.
            settings = os.path.join(folder, *([] if moved else [".claude"]), "settings.json")
            return [
                Document(path, {"mcpServers": {SERVER: {"type": "stdio", **stdio}}}),
                Document(settings, {"permissions": {"deny": ["Bash"]}}),
            ]
        case "cursor":
            denied: dict[str, object] = {"permissions": {"allow": [], "deny": ["Shell(*)"]}}
            settings = os.path.join(folder, "cli.json")
            if not project:  # there more is required
                denied = {"version": 1, "editor": {"vimMode": False}, **denied}
                settings = os.path.join(folder, "cli-config.json")
            return [
                Document(path, {"mcpServers": {SERVER: stdio}}),
                Document(settings, denied),
            ]
        case "vscode":
            return [Document(path, {"servers": {SERVER: {"type": "stdio", **stdio}}})]
        case _:
            patient = {**stdio, "timeout": _PATIENCE * 1000}
            excluded = {"exclude": ["run_shell_command"]}
            return [Document(path, {"mcpServers": {SERVER: patient}, "tools": excluded})]


def printed(document: Document) -> str:
    """A new file that says nothing else."""
    return merged_text(document, "")


def merged_text(document: Document, text: str) -> str:
    """The file's text with what it must say; raises MergeError."""
    return (_merged_toml if document.toml else _merged_json)(document.values, text)


def _merged_json(values: Mapping[str, object], text: str) -> str:
    try:
        old = json.loads(text, object_pairs_hook=_unique) if text.strip() else {}
    except ValueError as error:
        raise MergeError(f"not plain JSON ({error}); comments would be lost") from None
    new = _merged(old, values)
    if new == old:
        return text
    indent = re.search(r"\n([ \t]+)\S", text)
    try:
        return json.dumps(new, indent=indent[1] if indent else 2, allow_nan=False) + "\n"
    except ValueError as error:
        raise MergeError(str(error)) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


# Settings that are right only as long as the user has none.
_DEFAULTS = frozenset((("version",), ("editor", "vimMode")))


def _merged(old: object, new: object, path: tuple[str, ...] = ()) -> object:
    """`old` with `new`: members of objects and elements of lists are added."""
    if isinstance(new, Mapping):
        if not isinstance(old, dict):
            raise MergeError(f"{'.'.join(path) or 'the whole'} is no object")
        found = dict(old)
        for key, value in new.items():
            empty = {} if isinstance(value, Mapping) else value
            found[key] = _merged(old.get(key, empty), value, (*path, key))
        return found
    if isinstance(new, list):
        if not isinstance(old, list):
            raise MergeError(f"{'.'.join(path)} is no list")
        return [*old, *(element for element in new if element not in old)]
    return old if path in _DEFAULTS else new


def _merged_toml(values: Mapping[str, object], text: str) -> str:
    try:
        old = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MergeError(f"not TOML: {error}") from None
    new = _merged(old, values)
    if new == old:
        return text
    edited = text
    for path, settings in _tables(values, ()):
        edited = _with_settings(edited, path, settings)
    try:
        as_wanted = tomllib.loads(edited) == new
    except tomllib.TOMLDecodeError:
        as_wanted = False
    if not as_wanted:
        raise MergeError("its tables are written in a way that is not changed safely")
    return edited


def _tables(
    values: Mapping[str, object], path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """The tables that hold settings, each with its settings as TOML writes them."""
    found = []
    here = {key: json.dumps(it) for key, it in values.items() if not isinstance(it, Mapping)}
    if here:
        found.append((path, here))
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _tables(value, (*path, key))
    return found


def _with_settings(text: str, path: tuple[str, ...], settings: Mapping[str, str]) -> str:
    """The text with these settings in the table of that name, which may be new."""
    lines = text.splitlines(keepends=True)
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in path)
    header = re.compile(rf"\s*\[\s*{name}\s*\]\s*(#.*)?$")
    start = next((at for at, line in enumerate(lines) if header.match(line)), None)
    added = [f"{key} = {value}\n" for key, value in settings.items()]
    if start is None:
        if text and not text.endswith("\n"):
            text += "\n"
        return text + ("\n" if text else "") + "".join([f"[{'.'.join(path)}]\n", *added])
    if not lines[start].endswith("\n"):
        lines[start] += "\n"
    end = start + 1
    while end < len(lines) and not lines[end].lstrip().startswith("["):
        end += 1
    stated = re.compile(rf"\s*[\"']?({'|'.join(map(re.escape, settings))})[\"']?\s*=")
    kept = [line for line in lines[start + 1 : end] if not stated.match(line)]
    return "".join([*lines[: start + 1], *added, *kept, *lines[end:]])
