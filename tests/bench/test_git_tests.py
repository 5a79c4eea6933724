"""git's own tests: which are run, and how they tell of failures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench import git_tests
from bench.client import BenchError


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the tests, in a tree that has none."""
    monkeypatch.setattr(git_tests, "_tree", lambda: tmp_path)
    folder = tmp_path / "t"
    folder.mkdir()
    return folder


def add(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)


def test_the_first_forty_are_run(scripts: Path, tmp_path: Path) -> None:
    for number in range(50):
        tens, units = divmod(number, 10)
        name = f"t{2 + tens // 2}{tens % 2}0{units}-what.sh"
        add(scripts, name, 'echo noise; echo "$0" >>"$TEST_OUTPUT_DIRECTORY/ran"')
    add(scripts, "t1000-another.sh", "exit 1")
    add(scripts, "t2105-what.sh", "exit 1")
    done = subprocess.run(
        ["/bin/sh", "-c", git_tests.script(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "t2105-what.sh\n"
    ran = (tmp_path / "ran").read_text().split()
    assert (len(ran), ran[0], ran[-1]) == (39, "./t2000-what.sh", "./t3109-what.sh")


def test_too_few_are_told_of(scripts: Path, tmp_path: Path) -> None:
    add(scripts, "t2000-what.sh", "exit 0")
    with pytest.raises(BenchError, match="1 tests only"):
        git_tests.script(tmp_path)
