"""config.toml and `-c` hold for `exec` and `debug landlock`, and mistakes in them run nothing."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import built
from tests.machine import kernel_refusal

LANDLOCK = ("debug", "landlock")
EXEC = ("exec",)


@dataclass(frozen=True)
class Place:
    """A user's home and workspace, outside /tmp."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def file(self) -> Path:
        return self.folder / "home" / "config.toml"

    def run(
        self, command: tuple[str, ...], *words: str, cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        if command == EXEC and kernel_refusal() is not None:
            pytest.skip(f"no kernel interception: {kernel_refusal()}")
        environment = {"PATH": os.environ["PATH"], "CODEX_HOME": str(self.file.parent), **more}
        return subprocess.run(
            [built() / roles.CLI, *command, *words],
            cwd=cwd or self.workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            start_new_session=True,
        )

    def writes(self, command: tuple[str, ...], *options: str) -> tuple[bool, bool]:
        """Whether a command can write its folder, and the one beside it."""
        beside = self.folder / "beside"
        beside.mkdir(exist_ok=True)
        places = self.workspace / "written", beside / "written"
        for place in places:
            place.unlink(missing_ok=True)
        script = "(: > written); (: > ../beside/written); true"
        done = self.run(command, *options, "--", "/bin/sh", "-c", script)
        assert done.returncode == 0, done.stderr
        return places[0].exists(), places[1].exists()


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        made = Place(Path(folder).resolve())
        made.workspace.mkdir()
        made.file.parent.mkdir()
        yield made


class TestSandbox:
    def test_exec_has_the_mode_of_the_file_and_an_option_comes_first(self, place: Place) -> None:
        assert place.writes(EXEC) == (False, False)
        place.file.write_text('sandbox_mode = "workspace-write"\n')
        assert place.writes(EXEC) == (True, False)
        assert place.writes(EXEC, "--sandbox", "read-only") == (False, False)
        assert place.writes(EXEC, "-c", "sandbox_mode=danger-full-access") == (True, True)

    def test_debug_is_read_only_whatever_the_file_says(self, place: Place) -> None:
        place.file.write_text('sandbox_mode = "danger-full-access"\n')
        assert place.writes(LANDLOCK) == (False, False)
        assert place.writes(LANDLOCK, "-c", "sandbox_mode=workspace-write") == (True, False)

    @pytest.mark.parametrize("command", [("sandbox", "linux"), ("sandbox", "landlock"), EXEC])
    def test_roots_of_the_file_are_opened_with_the_workspace(
        self, place: Place, command: tuple[str, ...]
    ) -> None:
        mode = ("--sandbox=workspace-write",) if command == EXEC else ("--full-auto",)
        assert place.writes(command, *mode) == (True, False)
        place.file.write_text('[sandbox_workspace_write]\nwritable_roots = ["../beside"]\n')
        assert place.writes(command, *mode) == (True, True)
        none = "sandbox_workspace_write.writable_roots=[]"
        assert place.writes(command, *mode, "-c", none) == (True, False)
        # Relative to the folder the command runs in.
        assert place.writes(
            command, *mode, "-c", none, "-c", 'sandbox_workspace_write.writable_roots=["../beside"]'
        ) == (True, True)

    @pytest.mark.parametrize("command", [LANDLOCK, EXEC])
    def test_a_root_that_is_not_there_is_told(self, place: Place, command: tuple[str, ...]) -> None:
        mode = ("--sandbox=workspace-write",) if command == EXEC else ("--full-auto",)
        place.file.write_text('[sandbox_workspace_write]\nwritable_roots = ["../gone"]\n')
        done = place.run(command, *mode, "--", "/bin/true")
        assert (done.returncode, done.stderr.count("\n")) == (0, 1)
        missing = place.file.parent / ".." / "gone"
        assert f": not writable: {os.path.normpath(missing)}: No such file" in done.stderr

    def test_network_can_be_opened(self, place: Place) -> None:
        connect = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM)"
        words = ("--full-auto", "--", "/usr/bin/env", "python3", "-c", connect)
        assert place.run(LANDLOCK, *words).returncode != 0
        setting = "sandbox_workspace_write.network_access=true"
        assert place.run(LANDLOCK, "-c", setting, *words).returncode == 0

    def test_home_of_the_rules_is_no_workspace_unless_accepted(self, place: Place) -> None:
        place.file.write_text('sandbox_mode = "workspace-write"\n')
        done = place.run(EXEC, ": > written", cwd=place.folder)
        assert not (place.folder / "written").exists()
        assert f"{place.folder} is not writable: {place.file.parent} is in it" in done.stderr
        done = place.run(EXEC, "--sandbox=workspace-write", ": > written", cwd=place.folder)
        assert done.returncode == 125
        assert f"{place.file}, its configuration" in done.stderr
        accepted = ("--sandbox=workspace-write", "--accept-writable-server")
        place.run(EXEC, *accepted, ": > written", cwd=place.folder)
        assert (place.folder / "written").exists()


@pytest.mark.parametrize("command", [LANDLOCK, EXEC])
class TestSlips:
    @pytest.mark.parametrize("slip", ["[codex_multitol]", "[sandbox_workspace_writ]"])
    def test_nothing_runs_under_a_table_that_is_nearly_ours(
        self, place: Place, command: tuple[str, ...], slip: str
    ) -> None:
        place.file.write_text(f"{slip}\n")
        done = place.run(command, "--", "/bin/echo", "ran")
        assert (done.returncode, done.stdout) == (125, "")
        assert f"{place.file}:1:2: `{slip[1:-1]}`: unknown key; did you mean" in done.stderr

    def test_nor_with_such_an_override(self, place: Place, command: tuple[str, ...]) -> None:
        done = place.run(command, "-c", "sandbox_mod=read-only", "--", "/bin/echo", "ran")
        assert (done.returncode, done.stdout) == (125, "")
        assert "-c sandbox_mod=read-only: `sandbox_mod`: unknown key; did you mean" in done.stderr

    def test_what_makes_it_stricter_is_told(self, place: Place, command: tuple[str, ...]) -> None:
        place.file.write_text('[projcts."/a"]\ntrust_level = "trusted"\n')
        done = place.run(command, "--", "/bin/echo", "ran")
        assert (done.returncode, done.stdout) == (0, "ran\n")
        assert done.stderr.count("did you mean `projects`?") == 1


@pytest.mark.parametrize("command", [LANDLOCK, EXEC])
class TestEnvironment:
    def seen(self, place: Place, command: tuple[str, ...], *options: str) -> dict[str, str]:
        done = place.run(
            command, *options, "--", "env", "-0", MINE="1", API_TOKEN="secret", LC_TIME="C"
        )
        assert done.returncode == 0, done.stderr
        pairs = [pair.partition("=") for pair in done.stdout.split("\0") if pair]
        return {name: value for name, _, value in pairs}

    def test_it_is_the_core_without_secrets(self, place: Place, command: tuple[str, ...]) -> None:
        found = self.seen(place, command)
        assert found["LC_TIME"] == "C"
        assert "PATH" in found
        assert not {"MINE", "API_TOKEN", "CODEX_HOME"} & set(found)

    def test_file_and_override_say_what_else(self, place: Place, command: tuple[str, ...]) -> None:
        place.file.write_text(
            '[shell_environment_policy]\ninherit = "all"\nset = { CI = "1", STAGE = "a" }\n'
        )
        (place.file.parent / ".env").write_text("FROM_FILE=yes\n")
        found = self.seen(place, command, "-c", 'shell_environment_policy.set.STAGE="b"')
        assert found.items() >= {"MINE": "1", "CI": "1", "STAGE": "b", "FROM_FILE": "yes"}.items()
        assert "API_TOKEN" not in found


class TestOurSettings:
    def test_rules_and_shell_of_the_file(self, place: Place) -> None:
        (place.file.parent / "more.rules").write_text(
            'prefix_rule(pattern=["uname"], decision="forbidden")\n'
        )
        place.file.write_text('[codex_multitool]\nrules = ["more.rules"]\nshell = "/bin/sh"\n')
        done = place.run(EXEC, "--tree", "echo $0; uname")
        assert "more.rules:1" in done.stderr
        assert done.stdout == "/bin/sh\n"
        assert place.run(EXEC, "-c", "codex_multitool.rules=[]", "uname").returncode == 0

    def test_override_of_the_shell_comes_before_the_environments(self, place: Place) -> None:
        words = ("echo $0",)
        place.file.write_text('[codex_multitool]\nshell = "/bin/sh"\n')
        assert place.run(EXEC, *words, CODEX_BASH_PATH="/bin/bash").stdout == "/bin/bash\n"
        setting = ("-c", 'codex_multitool.shell="/bin/sh"')
        assert place.run(EXEC, *setting, *words, CODEX_BASH_PATH="/bin/bash").stdout == "/bin/sh\n"
        done = place.run(EXEC, *setting, "--shell=/bin/bash", *words)
        assert done.returncode == 2
        assert "--shell and -c codex_multitool.shell" in done.stderr

    def test_dangerous_commands(self, place: Place) -> None:
        place.file.write_text('sandbox_mode = "workspace-write"\n')
        (place.workspace / "junk").mkdir()
        assert "no terminal to ask at" in place.run(EXEC, "rm -rf junk").stderr
        assert (place.workspace / "junk").exists()
        place.run(EXEC, "-c", "codex_multitool.dangerous_commands=run", "rm -rf junk")
        assert not (place.workspace / "junk").exists()


@pytest.mark.parametrize("command", [LANDLOCK, ("sandbox", "linux"), EXEC])
class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("sandbox_mode = read-only\n", "config.toml:1:16: not TOML"),
            ('\nsandbox_mode = "readonly"\n', "config.toml:2:16: `sandbox_mode`: unknown value"),
            ("[codex_multitool]\ntypo = 1\n", "config.toml:2:1: `codex_multitool.typo`: unknown"),
        ],
    )
    def test_file_with_one_runs_nothing(
        self, place: Place, command: tuple[str, ...], text: str, told: str
    ) -> None:
        place.file.write_text(text)
        done = place.run(command, "--", "touch", "/tmp/x")
        assert (done.returncode, done.stdout) == (125, "")
        assert told in done.stderr

    @pytest.mark.parametrize(
        ("override", "told"),
        [
            (
                "sandbox_mode=1",
                "-c sandbox_mode=1: `sandbox_mode`: must be a string, not an integer",
            ),
            ("sandbox_mode=all", "-c sandbox_mode=all: `sandbox_mode`: unknown value 'all'"),
        ],
    )
    def test_so_does_an_override(
        self, place: Place, command: tuple[str, ...], override: str, told: str
    ) -> None:
        done = place.run(command, "-c", override, "--", "true")
        assert (done.returncode, done.stdout) == (125, "")
        assert told in done.stderr

    def test_an_override_that_is_none_is_a_usage_error(
        self, place: Place, command: tuple[str, ...]
    ) -> None:
        done = place.run(command, "-c", "sandbox_mode", "--", "true")
        assert (done.returncode, done.stdout) == (2, "")
        assert "-c sandbox_mode: not of the form key=value; write -c KEY=VALUE" in done.stderr

    def test_option_and_override_about_the_same_are_a_usage_error(
        self, place: Place, command: tuple[str, ...]
    ) -> None:
        flags = (
            [["--sandbox=read-only"]]
            if command == EXEC
            else [["--full-auto"], ["-s", "disk-write-cwd"]]
        )
        for flag in flags:
            done = place.run(command, *flag, "-c", "sandbox_mode=workspace-write", "--", "true")
            assert done.returncode == 2
            assert "are about the same" in done.stderr


def test_started_by_a_relative_name_it_finds_its_other_names_from_anywhere(place: Place) -> None:
    tool = os.path.relpath(built() / roles.CLI, place.workspace)
    done = subprocess.run(
        [tool, "debug", "landlock", "-C", "/", "--", "pwd"],
        cwd=place.workspace,
        env={"PATH": os.environ["PATH"], "HOME": str(place.folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "/\n"), done.stderr
