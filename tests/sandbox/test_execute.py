"""Become the command as execvp(3) would, with the exit statuses of env(1)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool.sandbox import execute

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, sys
from codex_multitool.sandbox.execute import CommandError, execvp
try:
    execvp(sys.argv[1:], dict(os.environ))
except CommandError as error:
    sys.stderr.write(str(error))
    sys.exit(error.status)
"""


def run(
    *command: str | Path, path: str | None = None, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    environ = {"PYTHONPATH": str(ROOT)}
    if path is not None:
        environ["PATH"] = path
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *command],
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def executable(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_path_with_a_slash_is_taken_as_it_is(tmp_path: Path) -> None:
    tool = executable(tmp_path / "tool", '#!/bin/sh\necho "$0" "$@"\n')
    assert run(tool, "a b", "").stdout == f"{tool} a b \n"
    assert run("./tool", cwd=tmp_path, path="/bin").stdout == "./tool\n"


def test_the_search_follows_path(tmp_path: Path) -> None:
    executable(tmp_path / "one" / "tool", "#!/bin/sh\necho one\n", 0o644)
    executable(tmp_path / "two" / "tool", "#!/bin/sh\necho two\n")
    executable(tmp_path / "three" / "tool", "#!/bin/sh\necho three\n")
    (tmp_path / "file").touch()
    folders = [tmp_path / name for name in ("missing", "file", "one", "two", "three")]
    assert run("tool", path=":".join(map(str, folders))).stdout == "two\n"


def test_an_empty_element_is_the_working_directory(tmp_path: Path) -> None:
    executable(tmp_path / "tool", "#!/bin/sh\necho here\n")
    for path in ("", ":/bin", "/bin:", "/bin::/usr/bin"):
        assert run("tool", path=path, cwd=tmp_path).stdout == "here\n"
    assert run("tool", path="/bin", cwd=tmp_path).returncode == 127


def test_without_path_the_systems_folders_are_searched() -> None:
    assert run("sh", "-c", "echo found").stdout == "found\n"


def test_a_text_without_a_first_line_is_a_script_of_the_shells(tmp_path: Path) -> None:
    tool = executable(tmp_path / "tool", 'echo "$0" "$#" "$1"\n')
    assert run(tool, "a b").stdout == f"{tool} 1 a b\n"
    assert run("tool", "a b", path=str(tmp_path)).stdout == f"{tool} 1 a b\n"


MISSING = "No such file or directory"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("no-such-command-anywhere", 127, "no-such-command-anywhere: command not found"),
        ("", 127, ": command not found"),
        ("./missing", 127, f"./missing: {MISSING}"),
        ("/no/such/folder/tool", 127, f"/no/such/folder/tool: {MISSING}"),
        ("./folder", 126, "./folder: Permission denied"),
        ("./plain", 126, "./plain: Permission denied"),
        ("./plain/beneath", 126, "./plain/beneath: Not a directory"),
        ("./orphan", 126, "./orphan: its interpreter does not exist"),
        ("./dangling", 127, f"./dangling: {MISSING}"),
        ("./loop", 126, "./loop: Too many levels of symbolic links"),
        ("plain", 126, "./plain: Permission denied"),
        ("orphan", 126, "./orphan: its interpreter does not exist"),
    ],
)
def test_what_cannot_be_executed(tmp_path: Path, command: str, status: int, message: str) -> None:
    executable(tmp_path / "plain", "#!/bin/sh\n", 0o644)
    executable(tmp_path / "orphan", "#!/no/such/interpreter\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    ran = run(command, cwd=tmp_path, path="/no/such/folder:/usr/bin:.")
    assert (ran.returncode, ran.stderr) == (status, message)


def test_arguments_too_long_are_no_missing_command() -> None:
    with pytest.raises(execute.CommandError) as raised:
        execute.execvp(["/bin/true", "a" * 200_000], {})
    assert raised.value.status == 126
    assert str(raised.value) == "/bin/true: Argument list too long"


def test_bytes_survive(tmp_path: Path) -> None:
    tool = executable(
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/t\xff")), "#!/bin/sh\nprintf %s $1\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, tool, os.fsdecode(b"caf\xe9")],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert ran.stdout == b"caf\xe9"
