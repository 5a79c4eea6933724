"""Which writable directories would let a command change what the server is, or obeys."""

from pathlib import Path

import pytest

from codex_multitool.mcp_server.own_files import OwnFiles, own_files


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("dist/lib", "home/rules", "home/memories", "team", "bin", "ws"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin/sh").touch()
    return tmp_path.resolve()


def own(place: Path, *, accepted: bool = False) -> OwnFiles:
    files = own_files(
        str(place / "dist/server"),
        str(place / "home"),
        [str(place / "team/team.rules")],
        str(place / "bin/sh"),
        str(place / "dist/wrapper"),
    )
    return OwnFiles(files, accepted=accepted)


@pytest.mark.parametrize(
    ("root", "what"),
    [
        ("", "the folder of this server"),
        ("dist", "the folder of this server"),
        ("dist/lib", "the folder of this server"),
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
    (place / "home/rules").rmdir()
    (place / "home/memories").rmdir()
    (place / "home").rmdir()
    reason = own(place).exposed([str(place / "home")])
    assert reason is not None
    assert "its configuration" in reason


def test_who_accepts_it_is_told_once(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    accepting = own(place, accepted=True)
    for _ in range(3):
        assert accepting.exposed([str(place / "home")]) is None
    (record,) = caplog.records
    assert "accepted: commands could write in" in record.message
