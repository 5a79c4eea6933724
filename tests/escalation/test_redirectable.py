"""What the sandbox can write, or make a path lead to."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codex_multitool.escalation.writable import redirectable


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """`in` is the sandbox's, `out` is not; each has a `bin`."""
    for place in ("in/bin", "out/bin"):
        (tmp_path / place).mkdir(parents=True)
    return tmp_path


def test_links_are_followed_and_count_where_they_lie(places: Path) -> None:
    inside, outside = places / "in", places / "out"
    (inside / "to-out").symlink_to(outside)
    (outside / "to-in").symlink_to(inside)
    (outside / "up").symlink_to("../out/bin")
    reachable = {
        "in": True,
        "in/bin": True,
        "in/to-out/bin": True,
        "in/missing": True,
        "out/to-in/bin": True,
        "out": False,
        "out/bin": False,
        "out/up": False,
        "out/missing": False,
        "inner": False,
    }
    writable = (str(inside),)
    found = {name: redirectable(str(places / name), writable) for name in reachable}
    assert found == reachable
    assert redirectable("/proc/self/exe", writable)
    assert not redirectable(str(inside), ())


def test_what_the_user_changes_is_seen_a_moment_later(places: Path) -> None:
    link, writable = places / "out/link", (str(places / "in"),)
    link.symlink_to("bin")
    assert not redirectable(str(link), writable)
    link.unlink()
    link.symlink_to(places / "in/bin")
    time.sleep(1.1)
    assert redirectable(str(link), writable)
