"""What an MCP client's configuration must say — pure."""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from codex_multitool.cli.client_merge import Document

SERVER = "shell-tool"
# A call waits for commands and for humans. Codex counts seconds, Gemini CLI and opencode
# milliseconds.
_PATIENCE = 3600

# Below the home directory; Codex's is in CODEX_HOME.
FILES = {
    "codex": "config.toml",
    "claude": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "zed": ".config/zed/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
}
NOTES = {
    "codex": "Codex's own shell tool is switched off; calls of this one are not asked about but by "
    "your rules.",
    "claude": "Claude Code's own tool Bash is denied; calls of this one are allowed, and asked "
    "about by your rules.",
    "cursor": "The shell of Cursor's command line is denied. The editor has no setting for its "
    "own: leave Auto-Run off in Settings > Agents.",
    "vscode": "VS Code has no setting for its own terminal tool: deselect it in the chat's "
    "Configure Tools.",
    "gemini": "Gemini CLI's own run_shell_command is denied; calls of this tool are not asked "
    "about. It cannot ask your rules' questions either: they are a no.",
    "opencode": "opencode's own bash is denied. It cannot ask your rules' questions: they are a "
    "no.",
    "zed": "Zed's own terminal tool is denied; calls of this one are allowed.",
    "windsurf": "Windsurf has no setting that takes its own terminal away: leave Auto Execution "
    "off.",
}

_GEMINI_POLICY = """\
# Commands run through codex-multitool; this file is written and removed by its mcp-config.
[[rule]]
toolName = "run_shell_command"
decision = "deny"
priority = 999
"""


def documents(
    client: str,
    path: str,
    executable: str,
    *,
    project: bool,
    moved: bool = False,
    deferring: bool = True,
) -> list[Document]:
    """The files of a client. path: the one that lists its servers, of the user or a project.

    moved: CLAUDE_CONFIG_DIR puts all files of the user's into one folder. deferring: this Codex
    hides the tools of servers behind a search, unless told otherwise.
    """
    folder = os.path.dirname(path)
    stdio: dict[str, object] = {"command": executable, "args": []}
    match client:
        case "codex":
            return [_codex(path, executable, deferring)]
        case "claude":
            # The same place beside ~/.claude.json and beside a project's .mcp.json.
            settings = os.path.join(folder, *([] if moved else [".claude"]), "settings.json")
            # Else the tool is found only by a search, and each call asked about.
            server = {"type": "stdio", **stdio, "alwaysLoad": True}
            permissions = {"allow": [f"mcp__{SERVER}__shell"], "deny": ["Bash"]}
            return [
                _entry(path, "mcpServers", server),
                Document(settings, {"permissions": permissions}),
            ]
        case "cursor":
            lists = {"allow": [f"Mcp({SERVER}:shell)"], "deny": ["Shell(*)"]}
            denied: dict[str, object] = {"permissions": lists}
            settings = os.path.join(folder, "cli.json")
            if not project:  # there more is required
                denied = {"version": 1, "editor": {"vimMode": False}, **denied}
                settings = os.path.join(folder, "cli-config.json")
            return [_entry(path, "mcpServers", stdio), Document(settings, denied)]
        case "vscode":
            return [_entry(path, "servers", {"type": "stdio", **stdio})]
        case "gemini":
            patient = {**stdio, "timeout": _PATIENCE * 1000, "trust": True}
            if project:  # its policies are the user's only
                excluded = {"tools": {"exclude": ["run_shell_command"]}}
                return [_entry(path, "mcpServers", patient, excluded)]
            policy = os.path.join(folder, "policies", "codex-multitool.toml")
            return [_entry(path, "mcpServers", patient), Document(policy, {}, _GEMINI_POLICY)]
        case "opencode":
            local = {"type": "local", "command": [executable], "timeout": _PATIENCE * 1000}
            return [_entry(path, "mcp", local, {"permission": {"bash": "deny"}})]
        case "zed":
            tools = {
                # No pattern of the user's overrides this one.
                "terminal": {"always_deny": [{"pattern": ".*"}]},
                f"mcp:{SERVER}:shell": {"default": "allow"},
            }
            agent = {"agent": {"tool_permissions": {"tools": tools}}}
            return [_entry(path, "context_servers", {"source": "custom", **stdio}, agent)]
        case _:
            return [_entry(path, "mcpServers", stdio)]


def _entry(
    path: str,
    table: str,
    server: Mapping[str, object],
    besides: Mapping[str, object] | None = None,
) -> Document:
    return Document(path, {**(besides or {}), table: {SERVER: server}}, entry=(table, SERVER))


def _codex(path: str, executable: str, deferring: bool) -> Document:
    server: dict[str, object] = {
        "command": executable,
        "tool_timeout_sec": _PATIENCE,
        # Codex would send the model off before the tool is there, and without a word
        # where it cannot start.
        "required": True,
        # The server asks where rules say so; Codex would ask of every call besides.
        "default_tools_approval_mode": "approve",
    }
    features: dict[str, object] = {"shell_tool": False}
    if deferring:
        features["code_mode"] = {"direct_only_tool_namespaces": ["mcp__shell_tool"]}
    return _entry(path, "mcp_servers", server, {"features": features})
