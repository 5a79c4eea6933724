"""What a keeper asks of the watch over protected names, as its front answers it."""

from pathlib import Path
from typing import Any

import pytest

from codex_multitool.escalation.guard import Guard
from codex_multitool.escalation.local_watch import LocalWatch
from codex_multitool.keeper.protocol import Agree, Handed, Leaving, Look, Returned
from codex_multitool.keeper.watch_service import WatchService
from codex_multitool.loop import Loop, Task


class Desk:
    """A service, and what it has answered."""

    def __init__(self, place: Path, *, writes: bool = True) -> None:
        self.guard = Guard()
        self.place = str(place)
        self.answers: dict[int, Any] = {}
        self.watch = LocalWatch(self.guard, [self.place] if writes else [], self.place)
        self.service = WatchService(self.watch, self.answers.__setitem__)

    def answer(self, number: int, task: Task[None]) -> Any:
        Loop().result(task)
        return self.answers[number]

    def look(self, number: int) -> Any:
        return self.answer(number, self.service.look(Look(number, self.place)))

    def leave(self, number: int, *, unchanged: bool = False) -> Any:
        leaving = Leaving(number, self.place, ("x",), None, unchanged)
        return self.answer(number, self.service.leaving(leaving))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path.resolve())


def test_what_was_found_is_agreed_to_by_its_number(desk: Desk) -> None:
    assert desk.look(1) == ((), 1, False)
    Path(desk.place, ".envrc").touch()
    (change,), number, _ = desk.look(2)
    assert (change.path, number) == (f"{desk.place}/.envrc", 2)
    desk.service.agree(Agree(1))  # nothing was found then
    desk.service.agree(Agree(77))
    assert desk.look(3)[0] == (change,)
    desk.service.agree(Agree(2))
    assert desk.look(4)[0] == ()


def test_what_a_program_is_handed_is_told_where_it_is_protected(desk: Desk) -> None:
    file, other = Path(desk.place, ".envrc"), Path(desk.place, "other")
    file.touch()
    other.touch()
    desk.service.agree(Agree(desk.look(1)[1]))
    absence = desk.leave(2)
    files = tuple((it.stat().st_dev, it.stat().st_ino) for it in (other, file))
    assert desk.answer(3, desk.service.handed(Handed(3, absence, files))) == (str(file),)
    assert desk.answer(4, desk.service.handed(Handed(4, absence, files[:1]))) == ()
    assert desk.answer(5, desk.service.handed(Handed(5, 77, files))) == ()


@pytest.mark.parametrize("waits", [True, False])
def test_a_program_is_outside_until_it_has_returned(desk: Desk, waits: bool) -> None:
    absence = desk.leave(5)
    assert desk.guard.departed.is_set
    if waits:
        assert desk.answer(6, desk.service.returned(Returned(6, absence))) is None
    else:
        desk.service.lost(absence)
    desk.watch.end()
    assert not desk.guard.departed.is_set


def test_who_leaves_unless_something_differs_is_told_what_does(desk: Desk) -> None:
    Path(desk.place, ".envrc").touch()
    (change,), number, _ = desk.leave(1, unchanged=True)
    assert (change.path, number) == (f"{desk.place}/.envrc", 1)
    assert not desk.guard.departed.is_set
    desk.service.agree(Agree(1))
    assert desk.leave(2, unchanged=True) == 2
    assert desk.guard.departed.is_set
    desk.watch.end()


@pytest.mark.parametrize("unchanged", [True, False])
def test_the_end_of_what_nobody_watches_is_nobodys_concern(tmp_path: Path, unchanged: bool) -> None:
    desk = Desk(tmp_path.resolve(), writes=False)
    assert desk.leave(1, unchanged=unchanged) == 0


def test_who_returns_twice_or_never_left_is_answered_all_the_same(desk: Desk) -> None:
    for number in (7, 8):
        assert desk.answer(number, desk.service.returned(Returned(number, 1))) is None
    desk.service.lost(1)


def test_findings_to_agree_to_do_not_pile_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_multitool.keeper.watch_service._MAX_FINDINGS", 2)
    Path(desk.place, ".envrc").touch()
    for number in (1, 2, 3):
        desk.look(number)
    desk.service.agree(Agree(1))
    assert desk.look(4)[0]
