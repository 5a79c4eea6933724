"""What a patched shell says and returns for what it cannot execute: as without a wrapper."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.patched_shell import PatchedShell, patched_shell

CANNOT_EXECUTE = {
    "absent": "./absent",
    "absent folder": "/nonexistent/x a b",
    "unknown name": "no-such-command-anywhere",
    "folder": "./folder",
    "not executable": "./plain",
    "below a file": "./plain/x",
    "dangling link": "./dangling",
    "link to itself": "./loop",
    "name too long": "./" + "n" * 300,
    "socket": "./socket",
    "absent interpreter": "./absent-interpreter",
    "interpreter with CR": "./carriage-return",
    "relative interpreter": "./relative-interpreter",
    "interpreter is a folder": "./folder-interpreter",
    "interpreter not executable": "./plain-interpreter",
    "interpreter of itself": "./own-interpreter",
    "interpreter too long": "./long-interpreter",
    "no interpreter": "./no-interpreter",
    "text as interpreter": "./text-interpreter",
    "empty": "./empty",
    "data": "./data",
    "too many words": "/bin/true {1..500000}",
}

HANDLERS = Path("/proc/sys/fs/binfmt_misc")


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> PatchedShell:
    result = patched_shell(request.param, tmp_path)
    folder = result.folder
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to("absent")
    (folder / "loop").symlink_to("loop")
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o777)
    files = {
        "plain": b"echo plain\n",
        "text": b"echo text $0 $1\n",
        "absent-interpreter": b"#!/nonexistent/interpreter -x\n",
        "carriage-return": b"#!/bin/sh\r\n",
        "relative-interpreter": b"#!nonexistent\n",
        "folder-interpreter": b"#!./folder\n",
        "plain-interpreter": b"#!./plain\n",
        "own-interpreter": b"#!./own-interpreter\n",
        "long-interpreter": b"#!/" + b"x" * 300 + b"\n",
        "no-interpreter": b"#!\necho none\n",
        "text-interpreter": b"#!./text\necho own\n",
        "empty": b"",
        "data": b"\0\1\2\3 data\n",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644 if name == "plain" else 0o755)
    return result


def ways(command: str) -> Iterator[str]:
    yield f"{command}; echo $?"
    yield command
    yield f"exec {command}"
    yield f"(exec {command}) 2>&1 | /bin/cat"


def version(path: Path) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout


def system_shell(shell: PatchedShell) -> Path | None:
    """The system's own shell, if it is of the same version."""
    path = Path("/usr/bin", shell.name)
    if not path.exists():
        return None
    release = version(path).split("(")[0]
    return path if version(shell.path).startswith(release) else None


@pytest.mark.parametrize("case", CANNOT_EXECUTE)
def test_the_messages_are_the_shells_own(shell: PatchedShell, case: str) -> None:
    if case == "data" and HANDLERS.is_dir() and len(list(HANDLERS.iterdir())) > 2:
        pytest.skip("binfmt_misc handlers are registered here: the wrapper gets such files")
    others = [path for path in (shell.path, system_shell(shell)) if path]
    for script in ways(CANNOT_EXECUTE[case]):
        done = shell.run(script)
        for path in others:
            plain = shell.run(script, environment={}, path=path)
            assert (done.returncode, done.stdout, done.stderr) == (
                plain.returncode,
                plain.stdout,
                plain.stderr,
            ), script


def test_what_cannot_be_executed_never_reaches_the_wrapper(shell: PatchedShell) -> None:
    for case, command in CANNOT_EXECUTE.items():
        if case not in ("data", "text as interpreter", "no interpreter", "empty"):
            shell.run(f"{command}; {command} &>/dev/null & wait")
    assert shell.commands() == []
