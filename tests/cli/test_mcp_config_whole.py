"""`mcp-config` changes all files of a client or none, takes its changes back, and checks them."""

import json
import tomllib
from pathlib import Path

import pytest

from codex_multitool.cli.client_merge import Document, MergeError, merged_text, removed_text
from tests.cli.test_mcp_config import SERVER, files, home, mcp_config

__all__ = ["home"]  # a fixture

COMMENTED = """\
# at the top
model = "x"  # why

# above features
[features]  # mine
# above the shell
shell_tool = true  # "quoted" # behind
# above other
other = true

# above docs
[mcp_servers.docs]
command = "docs"
# at the end
"""


def content(home: Path) -> dict[str, str]:
    """Every file, but for backups and notes."""
    return {str(it): it.read_text() for it in files(home) if ".bak" not in it.name}


class TestAllOrNothing:
    @pytest.mark.parametrize(
        ("name", "text", "why"),
        [
            (".claude.json", "// mine\n{}", "not plain JSON"),
            (".claude.json", '{"mcpServers": []}', "mcpServers is no object"),
            (".claude/settings.json", "// mine\n{}", "not plain JSON"),
            (".claude/settings.json", '{"permissions": {"deny": "Bash"}}', "deny is no list"),
        ],
    )
    def test_a_file_that_cannot_be_changed_keeps_the_other_as_it_is(
        self, home: Path, name: str, text: str, why: str
    ) -> None:
        (home / ".claude").mkdir()
        (home / name).write_text(text)
        before = content(home)
        done = mcp_config(home, "claude", "--write")
        assert done.returncode == 1
        assert f"{home / name}: left alone: " in done.stderr
        assert why in done.stderr
        assert "Nothing was changed" in done.stderr
        assert "alwaysLoad" in done.stdout
        assert '"Bash"' in done.stdout
        assert files(home) == [home / name]
        assert content(home) == before

    def test_a_second_file_that_cannot_be_written_undoes_the_first(self, home: Path) -> None:
        (home / ".claude.json").write_text("{}")
        (home / ".claude").symlink_to("/proc/sys")
        done = mcp_config(home, "claude", "--write")
        assert (done.returncode, done.stdout) == (1, "")
        assert "/proc/sys" in done.stderr
        assert "written" not in done.stderr
        assert [path for path in home.rglob("*") if path.is_file()] == [home / ".claude.json"]
        assert (home / ".claude.json").read_text() == "{}"

    def test_a_folder_made_for_a_file_goes_with_it(self, home: Path) -> None:
        (home / ".claude").symlink_to("/proc/sys")
        deep = home / "a" / "b" / ".mcp.json"
        deep.parent.parent.mkdir()
        (deep.parent.parent / "b").mkdir()
        (deep.parent / ".claude").symlink_to("/proc/sys/nowhere")
        done = mcp_config(home, "claude", "--path", deep, "--write")
        assert done.returncode == 1
        assert not deep.exists()

    @pytest.mark.parametrize(
        ("client", "name", "text"),
        [
            ("vscode", ".config/Code/User/mcp.json", "[" * 100_000),
            ("vscode", ".config/Code/User/mcp.json", '{"a":' * 100_000),
            ("codex", ".codex/config.toml", "a = " + "[" * 100_000),
            ("codex", ".codex/config.toml", "a = " + "9" * 5000),
        ],
        ids=["lists", "objects", "toml", "digits"],
    )
    def test_what_is_too_deep_is_left_alone(
        self, home: Path, client: str, name: str, text: str
    ) -> None:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for mode in ("--write", "--remove", "--check"):
            done = mcp_config(home, client, mode)
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            assert path.read_text() == text


class TestRemove:
    @pytest.mark.parametrize(
        ("client", "was"),
        [
            ("codex", {".codex/config.toml": COMMENTED}),
            ("codex", {".codex/config.toml": COMMENTED.replace("[features]", "[feature]")}),
            ("codex", {".codex/config.toml": '[mcp_servers.shell-tool]\ncommand = "old"\n'}),
            (
                "claude",
                {
                    ".claude.json": '{\n  "numStartups": 3\n}\n',
                    ".claude/settings.json": '{\n  "permissions": {\n    "deny": [\n'
                    '      "Bash",\n      "Read"\n    ]\n  }\n}\n',
                },
            ),
            (
                "opencode",
                {
                    ".config/opencode/opencode.json": '{\n  "permission": {\n'
                    '    "bash": "ask",\n    "edit": "allow"\n  }\n}\n'
                },
            ),
            (
                "cursor",
                {".cursor/mcp.json": '{\n  "mcpServers": {\n    "a": {}\n  }\n}\n'},
            ),
        ],
        ids=["toml", "toml-new-table", "toml-old-entry", "claude", "opencode", "cursor"],
    )
    def test_what_was_written_is_taken_back(
        self, home: Path, client: str, was: dict[str, str]
    ) -> None:
        for name, text in was.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        before = content(home)
        assert mcp_config(home, client, "--write").returncode == 0
        assert content(home) != before
        assert mcp_config(home, client, "--check").returncode == 0
        # A second time is no news of what was there.
        assert mcp_config(home, client, "--write").returncode == 0
        assert mcp_config(home, client, "--remove").returncode == 0
        assert content(home) == before
        assert mcp_config(home, client, "--check").returncode == 1
        assert not list((home / ".local").rglob("*.json"))

    def test_what_came_since_stays(self, home: Path) -> None:
        assert mcp_config(home, "claude", "--write").returncode == 0
        path = home / ".claude" / "settings.json"
        settings = json.loads(path.read_text())
        settings["permissions"]["deny"].append("Read")
        settings["model"] = "m"
        path.write_text(json.dumps(settings))
        assert mcp_config(home, "claude", "--remove").returncode == 0
        assert json.loads(path.read_text()) == {"permissions": {"deny": ["Read"]}, "model": "m"}
        assert not (home / ".claude.json").exists()

    def test_without_notes_what_is_ours_goes(self, home: Path) -> None:
        assert mcp_config(home, "codex", "--write").returncode == 0
        (home / ".local" / "state" / "codex-multitool" / "mcp-config.json").unlink()
        path = home / ".codex" / "config.toml"
        path.write_text('model = "x"\n\n' + path.read_text())
        assert mcp_config(home, "codex", "--remove").returncode == 0
        assert path.read_text() == 'model = "x"\n'

    def test_an_entry_of_the_name_that_starts_something_else_stays(self, home: Path) -> None:
        path = home / ".cursor" / "mcp.json"
        path.parent.mkdir()
        path.write_text('{"mcpServers": {"shell-tool": {"command": "other"}}}')
        assert mcp_config(home, "cursor", "--remove").returncode == 0
        assert json.loads(path.read_text())["mcpServers"]["shell-tool"] == {"command": "other"}

    def test_notes_that_cannot_be_read_are_an_error(self, home: Path) -> None:
        notes = home / ".local" / "state" / "codex-multitool" / "mcp-config.json"
        notes.parent.mkdir(parents=True)
        notes.write_text("[]")
        done = mcp_config(home, "cursor", "--write")
        assert done.returncode == 1
        assert str(notes) in done.stderr
        assert files(home) == []


class TestCheck:
    def test_both_halves_are_named(self, home: Path) -> None:
        done = mcp_config(home, "claude", "--check")
        assert done.returncode == 1
        assert done.stdout == (
            f"{home}/.claude.json: mcpServers is missing\n"
            f"{home}/.claude/settings.json: permissions is missing\n"
        )

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"command": "/elsewhere"}, f'command is "/elsewhere", not "{SERVER}"'),
            ({"alwaysLoad": False}, "alwaysLoad is false, not true"),
            ({"disabled": True}, "mcpServers.shell-tool is switched off"),
            ({"args": ["--rules", "r"]}, "as it must be"),
        ],
        ids=["command", "alwaysLoad", "disabled", "args"],
    )
    def test_an_entry_that_is_not_as_it_must_be(
        self, home: Path, change: dict[str, object], said: str
    ) -> None:
        assert mcp_config(home, "claude", "--write").returncode == 0
        path = home / ".claude.json"
        document = json.loads(path.read_text())
        document["mcpServers"]["shell-tool"].update(change)
        path.write_text(json.dumps(document))
        done = mcp_config(home, "claude", "--check")
        assert done.returncode == (said != "as it must be")
        assert said in done.stdout

    def test_its_own_shell_that_is_on(self, home: Path) -> None:
        assert mcp_config(home, "claude", "--write").returncode == 0
        path = home / ".claude" / "settings.json"
        path.write_text(path.read_text().replace("Bash", "Other"))
        done = mcp_config(home, "claude", "--check")
        assert done.returncode == 1
        assert 'permissions.deny lacks "Bash"' in done.stdout


COMMAND = "/o/codex-exec-mcp-server"
VALUES = {
    "features": {"shell_tool": False, "code_mode": {"names": ["a"]}},
    "s": {"t": {"command": COMMAND}},
}
TOML = Document("f.toml", VALUES, entry=("s", "t"))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_toml_is_changed_where_it_stands(end: str) -> None:
    old = COMMENTED.replace("\n", end)
    new = merged_text(TOML, old)
    lines = old.replace("shell_tool = true", "shell_tool = false").rstrip("\r\n")
    assert new.startswith(lines)
    assert tomllib.loads(new)["s"] == VALUES["s"]
    assert new.count("\r\n") == (new.count("\n") if end == "\r\n" else 0)
    before = {"features": {"shell_tool": True}}
    assert removed_text(TOML, new, before) == old


@pytest.mark.parametrize(
    "text",
    ["features.shell_tool = true\n", "[[features]]\n", 's = {t = {c = "y"}}\n', "[s]\nt.c = 'y'\n"],
)
def test_toml_written_in_another_way_is_refused(text: str) -> None:
    with pytest.raises(MergeError):
        merged_text(TOML, text)


def test_a_table_goes_and_the_next_ones_comment_stays() -> None:
    following = "# of the next\n[next]\na = 1\n"
    text = f'[s.t]\ncommand = "{COMMAND}"\n# in it\nother = 1\n\n{following}'
    assert removed_text(TOML, text, {"features": {}}).endswith(following)
