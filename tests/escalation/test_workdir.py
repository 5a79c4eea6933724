"""Which directories one is and those above it are, whatever their names lead to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_multitool.escalation.workdir import above, path_of


def identity(path: Path) -> tuple[int, int]:
    return path.stat().st_dev, path.stat().st_ino


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws/a/b").mkdir(parents=True)
    return tmp_path.resolve() / "ws"


def test_it_is_known_up_to_the_root(place: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    fd = os.open(place / "a/b", os.O_PATH)
    folders = (place / "a/b", place / "a", place)
    expected = tuple(map(identity, folders))
    assert path_of(fd) == str(place / "a/b")
    assert above(fd, [str(place)]) == expected
    assert above(fd, [str(place / "a")]) == expected[:2]
    link = place.parent / "link"
    link.symlink_to(place)
    assert above(fd, [str(link), "/nowhere"]) == expected
    assert above(fd, ["/nowhere"]) == above(fd, []) == above(fd, None) == ()
    os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_of_its_name_is_another(place: Path) -> None:
    fd = os.open(place / "a/b", os.O_PATH)
    known = above(fd, [str(place)])
    (place / "a").rename(place / "c")
    (place / "a/b").mkdir(parents=True)
    assert above(fd, [str(place)]) == known
    assert identity(place / "a/b") not in known
    assert path_of(fd) == str(place / "c/b")
    os.close(fd)


def test_one_that_was_removed_has_nothing_above(place: Path) -> None:
    fd = os.open(place / "a/b", os.O_PATH)
    (place / "a/b").rmdir()
    assert above(fd, [str(place)]) == ()
    os.close(fd)


def test_all_files_are_no_end(place: Path) -> None:
    fd = os.open(place, os.O_PATH)
    assert len(above(fd, ["/"])) == len(place.parts) - 1
    os.close(fd)
