"""What is agreed on of protected names, over commands that come and go."""

import time
from pathlib import Path

import pytest

from codex_multitool.escalation.guard import Guard
from codex_multitool.escalation.local_watch import LocalWatch


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that a sandbox may write."""
    return tmp_path.resolve()


def found(guard: Guard, workdir: Path | str = "") -> list[str]:
    return [f"{verb} {path}" for verb, path, _ in guard.look(str(workdir)).changes]


def test_nothing_is_looked_at_where_nothing_may_be_written(place: Path) -> None:
    guard = Guard()
    watch = LocalWatch(guard, [])
    (place / ".envrc").touch()
    assert found(guard, place) == []
    assert watch.notes(ended=True) == []


def test_a_finding_stays_until_it_is_agreed_to_and_no_longer(place: Path) -> None:
    guard = Guard()
    watch = LocalWatch(guard, [str(place)])
    (place / ".envrc").touch()
    assert watch.notes(ended=True) != []
    for _ in range(2):
        watch = LocalWatch(guard, [str(place)])
        assert found(guard) == [f"wrote {place}/.envrc"]
        assert watch.notes(ended=True) == []  # told already
    guard.agree(guard.look())
    assert found(guard) == []
    (place / ".envrc").unlink()
    assert found(guard) == []  # nobody runs


def test_what_comes_after_the_look_is_not_agreed_to(place: Path) -> None:
    guard = Guard()
    LocalWatch(guard, [str(place)])
    (place / ".envrc").touch()
    finding = guard.look()
    (place / ".mcp.json").touch()
    guard.agree(finding)
    assert found(guard) == [f"wrote {place}/.mcp.json"]


def test_two_commands_at_a_time_have_one_beginning(place: Path) -> None:
    guard = Guard()
    first = LocalWatch(guard, [str(place)])
    (place / ".envrc").touch()
    second = LocalWatch(guard, [str(place)])
    first.end()
    assert len(second.notes(ended=True)) == 1


def test_another_root_beneath_is_held_to_when_the_first_was_open(place: Path) -> None:
    guard = Guard()
    before = place / "before"
    for folder in (before, place / "after"):
        folder.mkdir()
    (before / ".envrc").touch()
    time.sleep(0.02)  # the clock that files get has a tick of up to 10 ms: time(7)
    LocalWatch(guard, [str(place)]).end()
    (place / "after/.envrc").touch()
    LocalWatch(guard, [str(before), str(place / "after")])
    assert found(guard) == [f"wrote {place}/after/.envrc"]


def test_places_without_end_are_not_all_looked_at_and_none_is_trusted_for_it(place: Path) -> None:
    guard = Guard()
    LocalWatch(guard, [str(place)])
    folders = [place / str(number) for number in range(600)]
    for folder in folders:
        folder.mkdir()
        guard.look(str(folder))
    (folders[0] / ".envrc").touch()
    assert found(guard) == []
    assert found(guard, folders[0]) == [f"wrote {folders[0]}/.envrc"]


def test_it_tells_when_there_is_nothing_to_be_watched(place: Path) -> None:
    told: list[bool] = []
    guard = Guard(told.append)
    assert told[-1]
    watch = object()
    guard.begin([str(place)])
    assert not told[-1]
    (place / ".envrc").touch()
    assert guard.look()
    guard.end(watch)
    assert not told[-1]  # it differs still
    guard.agree(guard.look())
    assert told[-1]
    guard.begin([str(place)])
    guard.begin([str(place)])
    guard.end(watch)
    assert not told[-1]
    guard.look()
    guard.end(watch)
    assert told[-1]
