"""Which writable directories would let a command change what we are, or obey."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codex_multitool.running.choice import Choice
from codex_multitool.running.own_files import Names, OwnFiles, own_files


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("dist/lib", "home/rules", "home/memories", "team", "bin", "links", "ws"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin/sh").touch()
    (tmp_path / "dist/server").touch()
    (tmp_path / "links/server").symlink_to(tmp_path / "dist/server")
    return tmp_path.resolve()


def own(
    place: Path,
    environ: dict[str, str] | None = None,
    *,
    accepted: Callable[[str], None] | None = None,
) -> OwnFiles:
    """environ: says where CODEX_HOME is, unless it is the place's own."""
    files = own_files(
        Names(str(place / "links/server"), str(place / "dist/server")),
        environ or {"CODEX_HOME": str(place / "home")},
        [str(place / "team/team.rules")],
        Choice(str(place / "bin/sh"), str(place / "dist/wrapper")),
    )
    return OwnFiles(files, accepted=accepted)


@pytest.mark.parametrize(
    ("root", "what"),
    [
        ("", "the folder of codex-multitool"),
        ("dist", "the folder of codex-multitool"),
        ("dist/lib", "the folder of codex-multitool"),
        ("links", "the name by which codex-multitool was started"),
        ("home", "its configuration"),
        ("home/rules", "its rules"),
        ("team", "its rules"),
        ("bin", "the shell it runs"),
    ],
)
def test_no_root_may_hold_one_of_them(place: Path, root: str, what: str) -> None:
    reason = own(place).exposed([str(place / "ws"), str(place / root)])
    assert reason is not None
    assert f"commands could write in {place / root}" in reason
    assert what in reason
    assert "--accept-writable-server" in reason


@pytest.mark.parametrize("root", ["ws", "home/memories", "none"])
def test_what_lies_beside_them_is_of_no_harm(place: Path, root: str) -> None:
    assert own(place).exposed([str(place / root)]) is None


def test_a_root_is_what_it_leads_to(place: Path) -> None:
    (place / "link").symlink_to(place / "home")
    assert own(place).exposed([str(place / "link")]) is not None


def test_a_file_that_is_reached_through_a_root_can_be_exchanged(place: Path) -> None:
    (place / "ws/rules").mkdir()
    (place / "home/rules").rmdir()
    (place / "home/rules").symlink_to(place / "ws/rules")
    assert own(place).exposed([str(place / "ws")]) is not None


def test_one_that_is_reached_through_other_folders_cannot(place: Path) -> None:
    (place / "elsewhere").touch()
    (place / "team/team.rules").symlink_to(place / "elsewhere")
    assert own(place).exposed([str(place / "ws")]) is None


def test_what_is_missing_must_not_come_to_be_there(place: Path) -> None:
    # Only the default CODEX_HOME may be missing.
    reason = own(place, {"HOME": str(place / "user")}).exposed([str(place / "user")])
    assert reason is not None
    assert f"{place}/user/.codex/config.toml, its configuration" in reason


@pytest.mark.parametrize("variable", ["HOME", "CODEX_HOME"])
def test_a_home_that_a_link_in_a_root_leads_to(place: Path, variable: str) -> None:
    (place / "ws/link").symlink_to(place / "home")
    reason = own(place, {variable: str(place / "ws/link")}).exposed([str(place / "ws")])
    assert reason is not None
    assert "its configuration" in reason


def test_a_rules_file_that_lies_elsewhere(place: Path) -> None:
    (place / "ws/shared.rules").touch()
    (place / "home/rules/shared.rules").symlink_to(place / "ws/shared.rules")
    reason = own(place).exposed([str(place / "ws")])
    assert reason is not None
    assert f"{place}/home/rules/shared.rules, its rules" in reason


def test_what_this_process_has_loaded(place: Path) -> None:
    for root in (os.path.dirname(os.__file__), os.path.realpath("/lib")):  # ld.so(8)'s
        reason = own(place).exposed([root])
        assert reason is not None
        assert "its libraries" in reason


def test_who_accepts_it_is_told_once(place: Path) -> None:
    told: list[str] = []
    accepting = own(place, accepted=told.append)
    for _ in range(3):
        assert accepting.exposed([str(place / "home")]) is None
    (text,) = told
    assert text.startswith("accepted: commands could write in")
