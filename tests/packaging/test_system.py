"""packaging/system.sh: which interpreter is taken, and what a machine without apt-get is told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executables import ROOT

SCRIPT = ROOT / "packaging" / "system.sh"
NEEDED = ("sh", "id", "tr", "grep")  # by the script itself


def system(word: str, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", SCRIPT, word],
        env={"PATH": os.fspath(path), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with nothing on it but what the script is made of."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


def interpreter(path: Path, name: str) -> Path:
    link = path / name
    link.symlink_to(os.path.realpath(sys.executable))
    return link


def old_interpreter(path: Path, name: str) -> None:
    (path / name).write_text("#!/bin/sh\nexit 1\n")  # what one before 3.11 answers to the question
    (path / name).chmod(0o755)


def test_python3_is_preferred(bare: Path) -> None:
    expected = interpreter(bare, "python3")
    interpreter(bare, "python3.12")
    assert system("python", bare).stdout == f"{expected}\n"


def test_python3_that_is_too_old_is_passed_over(bare: Path) -> None:
    old_interpreter(bare, "python3")
    expected = interpreter(bare, "python3.12")
    assert system("python", bare).stdout == f"{expected}\n"


def test_named_python_is_the_only_one_considered(bare: Path) -> None:
    interpreter(bare, "python3")
    old_interpreter(bare, "mine")
    done = system("python", bare, PYTHON="mine")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Python >= 3.11" in done.stderr


def test_missing_packages_are_named_and_nothing_else_is_done(bare: Path) -> None:
    done = system("install", bare)
    assert (done.returncode, done.stdout) == (1, "")
    (command,) = (line for line in done.stderr.splitlines() if "apt-get install" in line)
    packages = set(command.split()[2:])
    assert {"python3", "python3-venv", "python3-dev", "gcc", "git", "dpkg-dev"} <= packages


def test_only_what_is_missing_is_named(bare: Path) -> None:
    interpreter(bare, "python3")
    (bare / "git").symlink_to("/bin/true")
    words = system("install", bare).stderr.split()
    assert "gcc" in words
    assert "git" not in words
    assert "python3" not in words


def test_shells_that_cannot_be_installed_are_told_and_no_error(bare: Path) -> None:
    ran = system("shells", bare)
    assert ran.returncode == 0
    assert ran.stdout.startswith("Not installed: bash dash busybox zsh fish - ")
    assert "skipped" in ran.stdout


def test_nothing_is_said_when_every_shell_is_there(bare: Path) -> None:
    for name in ("bash", "dash", "busybox", "zsh", "fish"):
        (bare / name).symlink_to("/bin/sh")
    ran = system("shells", bare)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
