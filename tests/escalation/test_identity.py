"""Whether a program may be trusted by its base name alone: by owner and mode."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_tree import ROOT

NOBODY = 65534
AS_NOBODY = """
import os, sys
from codex_multitool.escalation.identity import replaceable
from codex_multitool.interception.program import examine
if os.geteuid() == 0 and sys.argv[1] != "0":
    os.setgroups([])
    os.setresgid(*[int(sys.argv[1])] * 3)
    os.setresuid(*[int(sys.argv[1])] * 3)
for path in sys.argv[2:]:
    print(replaceable(examine(path, os.open(path, os.O_PATH))))
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


def told(*paths: Path, user: int = NOBODY) -> list[str]:
    """What is said of each path where the process is this user's; an ordinary user is himself."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(user), *map(os.path.realpath, paths)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of ours that everybody can reach."""
    with tempfile.TemporaryDirectory(prefix="identity-") as folder:
        path = Path(folder).resolve()
        path.chmod(0o755)
        yield path


def program(path: Path, *, owner: int = 0, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


def test_a_program_of_the_system_is_nobodys_to_write() -> None:
    assert told(Path("/bin/sh"), Path("/usr/bin/env")) == ["None", "None"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root is no ordinary user")
def test_a_users_own_program_is_his_to_write(place: Path) -> None:
    path = place / "p"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o555)
    assert told(path) == [f"your user can write {path}"]


@as_root
def test_owner_and_mode_of_the_file_count(place: Path) -> None:
    own = program(place / "own", owner=NOBODY, mode=0o555)
    shared = program(place / "shared", mode=0o757)
    other = program(place / "other")
    assert told(own, shared, other) == [
        f"your user can write {own}",
        f"your user can write {shared}",
        "None",
    ]


@as_root
def test_every_folder_above_counts(place: Path) -> None:
    inner = program(place / "own/inner/p")
    os.chown(place / "own", NOBODY, NOBODY)
    shared = program(place / "shared/p")
    shared.parent.chmod(0o777)
    assert told(inner, shared) == [
        f"your user can replace {inner}: he can write {place / 'own'}",
        f"your user can replace {shared}: he can write {place / 'shared'}",
    ]


@as_root
def test_in_a_sticky_folder_others_files_stay(place: Path) -> None:
    kept = program(place / "sticky/kept")
    own = program(place / "sticky/own", owner=NOBODY)
    kept.parent.chmod(0o1777)
    assert told(kept, own, kept) == ["None", f"your user can write {own}", "None"]


@as_root
def test_of_roots_files_nothing_is_told(place: Path) -> None:
    assert told(program(place / "p", mode=0o777), user=0) == ["None"]
