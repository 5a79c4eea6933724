"""What comes from a listener is received at once and dealt with by turns, whoever floods it."""

from __future__ import annotations

import errno
from collections import deque
from typing import cast

import pytest

from codex_multitool.interception.exec_stop import Awaited, Steps
from codex_multitool.interception.incoming import Incoming
from codex_multitool.interception.listener import Absent, Listener, Notification
from codex_multitool.interception.waiting import Children
from codex_multitool.loop import Event, Loop, Task, Wait


class Flooded:
    """A listener at which so many execs wait, after them nothing or what `then` says."""

    fd = -1

    def __init__(self, count: int, then: Absent = Absent.NOTHING) -> None:
        self.waiting = deque(_call(number) for number in range(count))
        self.then = then
        self.failed: list[tuple[int, int]] = []

    def receive(self, _events: int = 0) -> Notification | Absent:
        return self.waiting.popleft() if self.waiting else self.then

    def fail(self, notification: Notification, number: int) -> bool:
        self.failed.append((notification.id, number))
        return True


def _call(number: int, tid: int = 0) -> Notification:
    return Notification(number, tid or 1000 + number, 59, 0, 0, (0, 0, 0, 0, 0, 0))


class Dealing:
    """An Incoming, and what it handed on."""

    def __init__(self, flooded: Flooded) -> None:
        self.loop = Loop()
        self.dealt: list[int] = []
        self.children = Children(self.loop, lambda: None)
        listener = cast("Listener", flooded)
        self.incoming = Incoming(self.loop, listener, self.children, self.deal)

    def deal(self, notification: Notification) -> None:
        self.dealt.append(notification.id)


def test_all_that_waits_is_received_and_one_dealt_with_at_a_time() -> None:
    flooded = Flooded(10)
    dealing = Dealing(flooded)
    dealing.incoming.attend()
    assert not flooded.waiting
    assert dealing.dealt == [0]
    while len(dealing.dealt) < 10:
        before = len(dealing.dealt)
        dealing.loop.turn()
        assert len(dealing.dealt) <= before + 1
    assert dealing.dealt == list(range(10))


def test_a_flood_leaves_others_their_turns() -> None:
    """A task runs again after every two execs at most, though poll(2) never stops to tell."""
    flooded = Flooded(5000)
    dealing = Dealing(flooded)
    most = 0
    enough = Event()

    def other() -> Task[None]:
        nonlocal most
        for _ in range(1000):
            before = len(dealing.dealt)
            yield Wait(until=0.0)
            most = max(most, len(dealing.dealt) - before)
        enough.set()

    dealing.loop.start(other())
    while not enough.is_set:
        dealing.incoming.attend()
        dealing.loop.turn()
    assert 0 < most <= 4
    assert len(flooded.waiting) > 5000 - 4 * 1000 - 100


def test_what_has_come_is_answered_at_the_end() -> None:
    flooded = Flooded(200)
    dealing = Dealing(flooded)
    dealing.incoming.attend()
    dealing.incoming.close()
    assert dealing.dealt == [0]
    assert flooded.failed == [(number, errno.ENOSYS) for number in range(1, 200)]
    dealing.loop.at(0.0, lambda: None)
    dealing.loop.turn()
    assert dealing.dealt == [0]


def test_callers_that_never_cease_do_not_keep_it_from_ending() -> None:
    flooded = Flooded(100_000)
    Dealing(flooded).incoming.close()
    assert len(flooded.waiting) + len(flooded.failed) == 100_000
    assert flooded.waiting


def test_an_unexpected_error_leaves_no_caller_waiting() -> None:
    flooded = Flooded(2)
    dealing = Dealing(flooded)

    def broken(_: Notification) -> None:
        raise ValueError

    incoming = Incoming(dealing.loop, cast("Listener", flooded), dealing.children, broken)
    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        incoming.attend()
    assert flooded.failed == [(0, errno.EACCES)]
    incoming.close()
    assert flooded.failed[1:] == [(1, errno.ENOSYS)]


def test_it_tells_of_the_end() -> None:
    dealing = Dealing(Flooded(1, Absent.ENDED))
    dealing.incoming.attend()
    assert dealing.dealt == [0]
    assert dealing.incoming.ended.is_set


def test_a_redirected_thread_gets_its_next_exec_and_another_of_its_number_is_dealt_with() -> None:
    flooded = Flooded(0)
    dealing = Dealing(flooded)
    got: list[int] = []

    def steps() -> Steps[str]:
        while (second := (yield Awaited.NOTIFICATION)) is None:
            pass
        got.append(second.id)
        return "through"

    def drive() -> Task[None]:
        got.append(len((yield from dealing.incoming.redirect(steps(), 7))))

    running = dealing.loop.start(drive())
    dealing.loop.turn()
    flooded.waiting.extend((_call(1, tid=8), _call(2, tid=7), _call(3, tid=7)))
    dealing.incoming.attend()
    dealing.loop.run(running.done)
    assert got == [2, len("through")]
    dealing.loop.turn()
    dealing.loop.turn()
    assert dealing.dealt == [1, 3]
