"""A command's part in watching: what a front does for it, or a keeper that has nothing to watch."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from codex_multitool.escalation.guard import Guard
from codex_multitool.escalation.local_watch import LocalAbsence, LocalWatch
from codex_multitool.escalation.watch import Finding, NoWatch
from codex_multitool.escalation.workdir import above
from codex_multitool.loop import Loop


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that a sandbox may write."""
    return tmp_path.resolve()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def leave(loop: Loop, watch: LocalWatch, place: Path) -> LocalAbsence:
    return loop.result(watch.leaving(str(place), ["x"], None))


def test_nothing_is_watched_for_who_can_write_nothing(loop: Loop, place: Path) -> None:
    for watch in (NoWatch(), LocalWatch(Guard(), [])):
        assert not loop.result(watch.look(str(place)))
        absence = loop.result(watch.leaving(str(place), ["x"], None))
        loop.result(absence.over())
        absence.lost()
    assert LocalWatch(Guard(), []).standing() == []


def test_what_is_found_is_agreed_to(loop: Loop, place: Path) -> None:
    watch = LocalWatch(Guard(), [str(place)], str(place))
    (place / ".envrc").touch()
    finding = loop.result(watch.look(str(place)))
    assert [it.path for it in finding.changes] == [f"{place}/.envrc"]
    watch.agree(finding)
    assert not loop.result(watch.look(str(place)))
    watch.end()


def test_nobody_leaves_from_where_nobody_has_looked(loop: Loop, place: Path) -> None:
    folder = place / "a/b"
    folder.mkdir(parents=True)
    guard = Guard()
    watch = LocalWatch(guard, [str(place)], str(place))
    fd = os.open(folder, os.O_PATH)
    known = above(fd, [str(place)])
    assert not loop.result(watch.look(str(folder), known))
    (place / "a").rename(place / "c")
    folder.mkdir(parents=True)
    for finding in (
        loop.result(watch.look(str(folder), known)),
        loop.result(watch.leaving_unchanged(str(folder), ["x"], None, known)),
    ):
        assert isinstance(finding, Finding)
        assert (finding.changes, finding.moved) == ((), True)
    (place / "a").rename(place / "d")
    (place / "c").rename(place / "a")
    absence = loop.result(watch.leaving_unchanged(str(folder), ["x"], None, known))
    assert isinstance(absence, LocalAbsence)
    # The same while a program is outside.
    assert not loop.result(watch.look(str(folder), known))
    assert loop.result(watch.look(str(folder), known[::-1])).moved
    absence.lost()
    watch.end()
    os.close(fd)


def test_nobody_leaves_where_something_differs(loop: Loop, place: Path) -> None:
    guard = Guard()
    watch = LocalWatch(guard, [str(place)], str(place))
    (place / ".envrc").touch()
    finding = loop.result(watch.leaving_unchanged(str(place), ["x"], None))
    assert isinstance(finding, Finding)
    assert [it.path for it in finding.changes] == [f"{place}/.envrc"]
    assert not guard.departed.is_set
    watch.agree(finding)
    absence = loop.result(watch.leaving_unchanged(str(place), ["x"], None))
    assert isinstance(absence, LocalAbsence)
    assert guard.departed.is_set
    absence.lost()
    watch.end()


def test_what_a_program_writes_for_its_caller_is_the_callers(loop: Loop, place: Path) -> None:
    link, leads_to, plain = place / ".envrc", place / "envrc", place / ".mcp.json"
    leads_to.write_text("")
    plain.write_text("")
    link.symlink_to(leads_to)
    guard = Guard()
    watch = LocalWatch(guard, [str(place)])
    watch.runs_below(os.getpid())
    absence = leave(loop, watch, place)
    files = [(it.stat().st_dev, it.stat().st_ino) for it in (plain, leads_to)]
    # Of a link only what it leads to is open.
    assert loop.result(absence.handed(files)) == (str(plain),)
    plain.write_text("said")
    leads_to.write_text("said")
    (place / ".vscode").write_text("the program's own")
    loop.result(absence.over())
    finding = loop.result(watch.look(str(place)))
    assert {it.path for it in finding.changes} == {str(link), str(plain)}
    watch.end()


def test_it_attends_while_a_program_is_outside_and_ends_with_the_command(
    loop: Loop, place: Path
) -> None:
    guard = Guard()
    watch = LocalWatch(guard, [str(place)])
    attending = loop.start(watch.attend())
    first = leave(loop, watch, place)
    assert guard.departed.is_set
    loop.result(first.over())
    first.lost()  # again: nothing
    # Nobody can be seen to sleep here, so it might have been in company.
    assert not attending.done.is_set
    leave(loop, watch, place)
    watch.end()
    assert not guard.departed.is_set
    deadline = time.monotonic() + 60
    while not attending.done.is_set and time.monotonic() < deadline:
        loop.turn()
    assert attending.done.is_set


def test_a_command_that_ends_leaves_nobody_outside(loop: Loop, place: Path) -> None:
    guard = Guard()
    other = LocalWatch(guard, [str(place)])
    watch = LocalWatch(guard, [str(place)])
    lost = leave(loop, watch, place)
    leave(loop, other, place)
    watch.end()
    assert [it.watch for it in guard._outside] == [other]
    lost.lost()
    other.end()


def test_one_may_leave_after_the_last_came_back_meanwhile(loop: Loop, place: Path) -> None:
    guard = Guard()
    watch = LocalWatch(guard, [str(place)])
    first = leave(loop, watch, place)
    leaving = watch.leaving(str(place), ["x"], None)
    next(leaving)  # it waits for the sandbox to sleep
    first.lost()
    guard._end_vigil()
    loop.result(leaving)
    assert guard.departed.is_set
    watch.end()


def test_a_finding_that_crossed_to_another_process_is_one_still() -> None:
    assert not Finding(state=7)
