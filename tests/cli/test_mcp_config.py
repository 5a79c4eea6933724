"""`mcp-config`: what clients are to read, and how carefully it gets into their files."""

import json
import os
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import built

CLIENTS = ["codex", "claude", "cursor", "vscode", "gemini", "opencode", "zed", "windsurf"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".codex").mkdir(parents=True)
    return folder


def mcp_config(home: Path, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), **more}
    return subprocess.run(
        [built() / roles.CLI, "mcp-config", *words],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def files(home: Path) -> list[Path]:
    """What was made, but for the notes of what was there before."""
    notes = home / ".local"
    return sorted(it for it in home.rglob("*") if it.is_file() and notes not in it.parents)


def documents(text: str) -> list[dict[str, object]]:
    """The JSON documents that follow one another in `text`."""
    decoder, found = json.JSONDecoder(), []
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


SERVER = str(built() / roles.MCP_SERVER)
CODEX_SERVER = {
    "command": SERVER,
    "tool_timeout_sec": 3600,
    "required": True,
    "default_tools_approval_mode": "approve",
}
CODEX_FEATURES = {
    "shell_tool": False,
    "code_mode": {"direct_only_tool_namespaces": ["mcp__shell_tool"]},
}


class TestPrint:
    def test_codex_gets_toml_and_loses_its_own_shell(self, home: Path) -> None:
        done = mcp_config(home, "codex")
        assert tomllib.loads(done.stdout) == {
            "features": CODEX_FEATURES,
            "mcp_servers": {"shell-tool": CODEX_SERVER},
        }
        assert f"{home}/.codex/config.toml:" in done.stderr
        assert done.returncode == 0

    def test_an_old_codex_gets_no_table_that_it_refuses(self, home: Path) -> None:
        program = home / "bin" / "codex"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho codex-cli 0.97.0\n")
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        features = tomllib.loads(mcp_config(home, "codex", PATH=path).stdout)["features"]
        assert features == {"shell_tool": False}

    def test_claude_gets_two_files(self, home: Path) -> None:
        done = mcp_config(home, "claude")
        servers, settings = documents(done.stdout)
        server = {"type": "stdio", "command": SERVER, "args": [], "alwaysLoad": True}
        assert servers == {"mcpServers": {"shell-tool": server}}
        lists = {"allow": ["mcp__shell-tool__shell"], "deny": ["Bash"]}
        assert settings == {"permissions": lists}
        assert f"{home}/.claude.json:" in done.stderr
        assert f"{home}/.claude/settings.json:" in done.stderr

    def test_files_that_the_environment_puts_elsewhere(self, home: Path) -> None:
        done = mcp_config(home, "claude", CLAUDE_CONFIG_DIR=f"{home}/c")
        assert f"{home}/c/.claude.json:" in done.stderr
        assert f"{home}/c/settings.json:" in done.stderr
        done = mcp_config(home, "vscode", XDG_CONFIG_HOME=f"{home}/x")
        assert f"{home}/x/Code/User/mcp.json:" in done.stderr
        done = mcp_config(home, "codex", CODEX_HOME=f"{home}/.codex/../.codex")
        assert f"{home}/.codex/config.toml:" in done.stderr

    def test_vscode_calls_them_servers(self, home: Path) -> None:
        (document,) = documents(mcp_config(home, "vscode").stdout)
        server = {"type": "stdio", "command": SERVER, "args": []}
        assert document == {"servers": {"shell-tool": server}}

    def test_gemini_denies_its_own_tool(self, home: Path) -> None:
        settings, rules = mcp_config(home, "gemini").stdout.split("# ", 1)
        (document,) = documents(settings)
        server = {"command": SERVER, "args": [], "timeout": 3600000, "trust": True}
        assert document == {"mcpServers": {"shell-tool": server}}
        rule = {"toolName": "run_shell_command", "decision": "deny", "priority": 999}
        assert tomllib.loads("# " + rules) == {"rule": [rule]}
        # A project's policies are not read.
        project = mcp_config(home, "gemini", "--path", "p/settings.json")
        (document,) = documents(project.stdout)
        assert document["tools"] == {"exclude": ["run_shell_command"]}

    def test_opencode_denies_its_own_tool(self, home: Path) -> None:
        done = mcp_config(home, "opencode", XDG_CONFIG_HOME=f"{home}/x")
        assert f"{home}/x/opencode/opencode.json:" in done.stderr
        (document,) = documents(done.stdout)
        server = {"type": "local", "command": [SERVER], "timeout": 3600000}
        assert document == {"mcp": {"shell-tool": server}, "permission": {"bash": "deny"}}

    def test_zed_denies_its_own_tool_and_allows_ours(self, home: Path) -> None:
        (document,) = documents(mcp_config(home, "zed").stdout)
        tools = {
            "terminal": {"always_deny": [{"pattern": ".*"}]},
            "mcp:shell-tool:shell": {"default": "allow"},
        }
        assert document["agent"] == {"tool_permissions": {"tools": tools}}

    def test_cursor_denies_its_command_lines_shell(self, home: Path) -> None:
        servers, permissions = documents(mcp_config(home, "cursor").stdout)
        assert servers == {"mcpServers": {"shell-tool": {"command": SERVER, "args": []}}}
        denied = {"permissions": {"allow": ["Mcp(shell-tool:shell)"], "deny": ["Shell(*)"]}}
        assert permissions == {"version": 1, "editor": {"vimMode": False}, **denied}
        project = mcp_config(home, "cursor", "--path", ".cursor/mcp.json", "--write")
        assert project.returncode == 0, project.stderr
        # The fixture's home is also the project's folder: the same file is the user's.
        assert json.loads((home / ".cursor" / "cli-config.json").read_text()) == permissions
        other = home / "project"
        assert mcp_config(home, "cursor", "--path", other / "mcp.json", "--write").returncode == 0
        assert json.loads((other / "cli.json").read_text()) == denied

    @pytest.mark.parametrize("client", CLIENTS)
    def test_the_command_is_the_server(self, home: Path, client: str) -> None:
        assert json.dumps(SERVER) in mcp_config(home, client).stdout
        version = [SERVER, "--version"]
        done = subprocess.run(version, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.startswith(roles.MCP_SERVER)

    @pytest.mark.parametrize("client", CLIENTS)
    def test_nothing_is_written(self, home: Path, client: str) -> None:
        mcp_config(home, client)
        assert [path for path in home.rglob("*") if path.is_file()] == []

    def test_unknown_client_is_a_usage_error(self, home: Path) -> None:
        done = mcp_config(home, "emacs")
        assert (done.returncode, done.stdout) == (2, "")
        assert "gemini" in done.stderr


class TestWrite:
    @pytest.mark.parametrize("client", CLIENTS)
    def test_a_new_file_is_what_is_printed_and_a_second_time_changes_nothing(
        self, home: Path, client: str
    ) -> None:
        shown = mcp_config(home, client).stdout
        assert mcp_config(home, client, "--write").returncode == 0
        made = files(home)
        assert sum(len(path.read_text()) for path in made) == len(shown)
        assert all(path.read_text() in shown for path in made)
        again = mcp_config(home, client, "--write")
        assert again.stderr.count("nothing to change") == len(made)
        assert files(home) == made
        assert mcp_config(home, client, "--check").returncode == 0
        assert mcp_config(home, client, "--remove").returncode == 0
        assert files(home) == []

    def test_json_keeps_what_it_has_and_the_old_file_is_kept(self, home: Path) -> None:
        path = home / "settings.json"
        old = (
            '{\n    "theme": "caf\u00e9",\n    "tools": {"exclude": ["x"], "sandbox": true},\n    '
        )
        old += '"mcpServers": {"shell-tool": {"args": ["--rules", "r"], "env": {"A": "1"}}}\n}\n'
        path.write_text(old)
        path.chmod(0o640)
        assert mcp_config(home, "gemini", "--path", path, "--write").returncode == 0
        assert json.loads(path.read_text()) == {
            "theme": "caf\u00e9",
            "tools": {"exclude": ["x", "run_shell_command"], "sandbox": True},
            "mcpServers": {
                "shell-tool": {
                    "command": SERVER,
                    "args": ["--rules", "r"],
                    "env": {"A": "1"},
                    "timeout": 3600000,
                    "trust": True,
                }
            },
        }
        assert '\n    "theme"' in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o640
        assert (home / "settings.json.bak").read_text() == old

    def test_backups_do_not_replace_each_other(self, home: Path) -> None:
        path = home / ".vscode" / "mcp.json"
        path.parent.mkdir()
        for number in ("1", "2"):
            path.write_text(f'{{"inputs": [{number}]}}')
            assert mcp_config(home, "vscode", "--path", path, "--write").returncode == 0
        assert path.with_name("mcp.json.bak").read_text() == '{"inputs": [1]}'
        assert path.with_name("mcp.json.bak.1").read_text() == '{"inputs": [2]}'

    @pytest.mark.parametrize(
        "text",
        [
            '{\n  // mine\n  "servers": {}\n}\n',
            '{"servers": {},}',
            '{"servers": [], "inputs": []}',
            '{"a": 1, "a": 2}',
            "[]",
            "\ufeff{}",
        ],
    )
    def test_json_that_would_lose_something_is_left_alone(self, home: Path, text: str) -> None:
        path = home / "mcp.json"
        path.write_text(text)
        done = mcp_config(home, "vscode", "--path", path, "--write")
        assert done.returncode == 1
        assert path.read_text() == text
        assert "left alone" in done.stderr
        assert json.loads(done.stdout)["servers"]["shell-tool"]["command"] == SERVER
        assert list(home.glob("*.bak*")) == []

    def test_toml_keeps_comments_order_and_other_tables(self, home: Path) -> None:
        path = home / ".codex" / "config.toml"
        path.write_text(
            'model = "x" # why\n\n[features] # mine\nshell_tool = true\nother = true\n\n'
            '[mcp_servers.docs]\ncommand = "docs"\n\n'
            '[mcp_servers."shell-tool"]\ncommand = "old"\nargs = ["--rules", "r"]\n'
            '[mcp_servers.shell-tool.env]\nA = "1"'
        )
        assert mcp_config(home, "codex", "--write").returncode == 0
        text = path.read_text()
        assert tomllib.loads(text) == {
            "model": "x",
            "features": {**CODEX_FEATURES, "other": True},
            "mcp_servers": {
                "docs": {"command": "docs"},
                "shell-tool": {**CODEX_SERVER, "args": ["--rules", "r"], "env": {"A": "1"}},
            },
        }
        assert text.startswith('model = "x" # why\n\n[features] # mine\n')

    @pytest.mark.parametrize(
        "text",
        [
            "features = { other = true }\n",
            'text = """\n[features]\nshell_tool = true\n"""\n',
            "[features]\nshell_tool = [\n  1,\n]\n",
            "not toml",
        ],
    )
    def test_toml_that_is_not_safely_changed_is_left_alone(self, home: Path, text: str) -> None:
        path = home / ".codex" / "config.toml"
        path.write_text(text)
        done = mcp_config(home, "codex", "--write")
        assert done.returncode == 1
        assert path.read_text() == text
        assert tomllib.loads(done.stdout)["features"] == CODEX_FEATURES

    def test_a_link_stays_a_link(self, home: Path) -> None:
        real, link = home / "dotfiles.json", home / ".claude.json"
        real.write_text("{}")
        link.symlink_to(real)
        assert mcp_config(home, "claude", "--write").returncode == 0
        assert link.is_symlink()
        assert "shell-tool" in real.read_text()

    def test_a_folder_that_cannot_be_written_is_an_error(self, home: Path) -> None:
        done = mcp_config(home, "vscode", "--path", "/proc/nowhere/mcp.json", "--write")
        assert (done.returncode, done.stdout) == (1, "")
        assert "/proc/nowhere" in done.stderr

    def test_what_is_no_file_is_left_alone(self, home: Path) -> None:
        # A device that a file took the place of would be gone for the whole machine.
        pipe = home / "pipe"
        os.mkfifo(pipe)
        for path, why in ((pipe, "not a regular file"), (home, "Is a directory")):
            done = mcp_config(home, "claude", "--path", path, "--write")
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr == f"codex-multitool mcp-config: {path}: {why}\n"
        assert stat.S_ISFIFO(pipe.lstat().st_mode)
        assert not (home / "pipe.bak").exists()
