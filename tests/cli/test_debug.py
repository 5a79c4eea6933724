"""`debug landlock`: the process becomes the sandbox role, under the policy asked for."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import built


@pytest.fixture
def workspace() -> Iterator[Path]:
    # Outside /tmp and $TMPDIR, which --full-auto opens too.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


def landlock(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(workspace, "debug", "landlock", *words)


def run(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [built() / roles.CLI, *words],
        cwd=workspace,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_read_only_by_default(workspace: Path) -> None:
    (workspace / "kept").write_text("old\n")
    done = landlock(workspace, "--", "sh", "-c", "cat kept; echo new > kept")
    assert done.returncode != 0
    assert done.stdout == "old\n"
    assert "ermission denied" in done.stderr
    assert (workspace / "kept").read_text() == "old\n"


def test_full_auto_opens_the_current_folder_only(workspace: Path) -> None:
    inside, outside = workspace / "inside", workspace / "outside"
    inside.mkdir()
    done = landlock(inside, "--full-auto", "--", "sh", "-c", "echo x > in; echo x > ../outside")
    assert done.returncode != 0
    assert (inside / "in").read_text() == "x\n"
    assert not outside.exists()


def test_full_auto_opens_the_temporary_folder(workspace: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        done = landlock(workspace, "--full-auto", "--", "sh", "-c", f"echo x > {file.name}")
        assert done.returncode == 0, done.stderr
        assert file.read() == b"x\n"


@pytest.mark.parametrize("options", [[], ["--full-auto"]])
def test_network_is_off(workspace: Path, options: list[str]) -> None:
    connect = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM)"
    done = landlock(workspace, *options, "--", sys.executable, "-c", connect)
    assert done.returncode != 0
    assert "PermissionError" in done.stderr


def test_options_of_the_command_are_its_own_with_or_without_the_dashes(workspace: Path) -> None:
    for words in (["--", "echo", "--full-auto", "--help"], ["echo", "--full-auto", "--help"]):
        assert landlock(workspace, *words).stdout == "--full-auto --help\n"


def test_status_is_that_of_the_command(workspace: Path) -> None:
    assert landlock(workspace, "--", "sh", "-c", "exit 7").returncode == 7


def test_command_that_does_not_exist_is_127(workspace: Path) -> None:
    done = landlock(workspace, "--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


def test_without_a_command_it_is_a_usage_error(workspace: Path) -> None:
    done = landlock(workspace)
    assert (done.returncode, done.stdout) == (2, "")
    assert "CMD" in done.stderr


def test_status_of_a_signal_is_the_callers_to_see(workspace: Path) -> None:
    assert landlock(workspace, "--", "sh", "-c", "kill -TERM $$").returncode == -15


@pytest.mark.parametrize(
    "names", [("sandbox", "linux"), ("sandbox", "landlock"), ("debug", "linux")]
)
def test_other_names(workspace: Path, names: tuple[str, str]) -> None:
    done = run(workspace, *names, "--full-auto", "--", "sh", "-c", "echo x > in; exit 3")
    assert (done.returncode, done.stderr) == (3, "")
    assert (workspace / "in").read_text() == "x\n"


def test_another_folder(workspace: Path) -> None:
    (workspace / "inner").mkdir()
    done = landlock(workspace, "-C", "inner", "--full-auto", "sh", "-c", "pwd; > in; > ../out")
    assert done.stdout == f"{workspace}/inner\n"
    assert done.returncode != 0
    assert (workspace / "inner" / "in").exists()
    assert not (workspace / "out").exists()
    missing = landlock(workspace, "-C", "none", "true")
    told = "codex-multitool debug landlock: none: No such file or directory\n"
    assert (missing.returncode, missing.stderr) == (125, told)


def permitted(workspace: Path, *permissions: str) -> set[str]:
    """What a command under these permissions can do of: write here, folder, temp; connect."""
    (workspace / "folder").mkdir(exist_ok=True)
    script = (
        "import os, socket, sys\n"
        "def tried(name, deed):\n"
        "    try:\n"
        "        deed()\n"
        "        print(name)\n"
        "    except PermissionError: pass\n"
        "tried('here', lambda: open('file', 'w'))\n"
        "tried('folder', lambda: open('folder/file', 'w'))\n"
        "tried('temp', lambda: os.close(os.open('/tmp', os.O_WRONLY | os.O_TMPFILE)))\n"
        "tried('network', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))\n"
    )
    words = [word for permission in permissions for word in ("-s", permission)]
    done = landlock(workspace, *words, "--", sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("permissions", "can"),
    [
        (["disk-full-read-access"], set()),
        (["disk-write-cwd"], {"here", "folder"}),
        (["disk-write-folder=folder"], {"folder"}),
        (["disk-write-folder=folder", "network-full-access"], {"folder", "network"}),
        (["disk-write-platform-global-temp-folder"], {"temp"}),
        (
            ["disk-write-platform-global-temp-folder", "disk-write-folder=folder"],
            {"temp", "folder"},
        ),
        (["network-full-access"], {"network"}),
        (["disk-full-write-access"], {"here", "folder", "temp"}),
        (["disk-full-write-access", "network-full-access"], {"here", "folder", "temp", "network"}),
        (["network-restricted"], {"here", "folder", "temp"}),
        (["file-write-restricted"], {"network"}),
        (["network-and-file-write-restricted"], set()),
        (["dangerous-no-restrictions"], {"here", "folder", "temp", "network"}),
    ],
)
def test_older_spellings_permit_what_they_say(
    workspace: Path, permissions: list[str], can: set[str]
) -> None:
    assert permitted(workspace, *permissions) == can


def test_the_users_temporary_folder(workspace: Path) -> None:
    (workspace / "mine").mkdir()
    options = ["-s", "disk-write-platform-user-temp-folder"]
    done = subprocess.run(
        [built() / roles.CLI, "debug", "landlock", *options, "sh", "-c", "> mine/in; > out"],
        cwd=workspace,
        env={**os.environ, "TMPDIR": str(workspace / "mine")},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert (workspace / "mine" / "in").exists()
    assert not (workspace / "out").exists()


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["-s", "disk-write"], 2, "`disk-write` is not a recognised permission."),
        (["-s", "disk-write-folder="], 2, "disk-write-folder=<PATH> requires a non-empty PATH"),
        (["-s", "network-restricted", "-s", "disk-write-cwd"], 2, "is a whole policy"),
        (["-s", "disk-write-cwd", "--full-auto"], 2, "--full-auto"),
    ],
)
def test_permissions_that_are_none(
    workspace: Path, options: list[str], status: int, text: str
) -> None:
    done = landlock(workspace, *options, "--", "true")
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr


def test_a_folder_that_is_not_there_is_told(workspace: Path) -> None:
    (workspace / "there").mkdir()
    folders = ["-s", "disk-write-folder=missing", "-s", "disk-write-folder=there"]
    done = landlock(workspace, *folders, "--", "touch", "there/file")
    told = f"codex-linux-sandbox: not writable: {workspace}/missing: No such file or directory\n"
    assert (done.returncode, done.stderr) == (0, told)
    assert (workspace / "there" / "file").exists()
    done = landlock(workspace, *folders[:2], "--", "true")
    assert done.returncode == 125
    assert f"{workspace}/missing: No such file" in done.stderr


@pytest.mark.skipif(sys.platform == "darwin", reason="here it runs")
def test_seatbelt_is_for_macos(workspace: Path) -> None:
    for name in ("seatbelt", "macos"):
        done = run(workspace, "sandbox", name, "--", "true")
        assert (done.returncode, done.stdout) == (125, "")
        assert (
            done.stderr
            == f"codex-multitool sandbox {name}: Seatbelt sandbox is only available on macOS\n"
        )


def test_seatbelt_profile_is_shown_anywhere(workspace: Path) -> None:
    done = run(workspace, "debug", "seatbelt", "--print-profile")
    assert done.stdout.startswith("(version 1)\n(deny default)\n")
    assert "ROOT_0" not in done.stdout
    assert "ROOT_0" in run(workspace, "debug", "seatbelt", "--full-auto", "--print-profile").stdout


def test_the_limits_of_the_users_configuration_hold(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(workspace))
    (workspace / "config.toml").write_text("codex_multitool.max_file_size = 1024\n")
    done = landlock(
        workspace, "--full-auto", "--", "sh", "-c", "ulimit -f; ulimit -c; exec yes > f"
    )
    assert (done.returncode, done.stdout) == (-signal.SIGXFSZ, "2\n0\n")
    assert (workspace / "f").stat().st_size == 1024
    (workspace / "config.toml").write_text("codex_multitool.max_file_size = 0\n")
    done = landlock(workspace, "--", "true")
    assert done.returncode != 0
    assert "`codex_multitool.max_file_size`: out of range" in done.stderr
