"""A moment in place, then a task: in either, what was told of a child is told to all."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from codex_multitool.interception import waiting
from codex_multitool.interception.exec_stop import Awaited, Steps
from codex_multitool.interception.waiting import Children
from codex_multitool.loop import Event, Loop, Running, Task


@pytest.fixture(autouse=True)
def _blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    yield
    signal.sigtimedwait((signal.SIGCHLD,), 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stops(count: int, left: list[str]) -> Steps[str]:
    try:
        for _ in range(count):
            yield Awaited.STOP
    finally:
        left.append("left")
    return "through"


def test_a_signal_taken_in_place_is_told_to_who_waits_for_children() -> None:
    reaped: list[int] = []

    def reap() -> None:
        reaped.append(os.waitpid(child, os.WNOHANG)[0])

    loop = Loop()
    children = Children(loop, reap)
    # It ends while it is waited for: before, another thread than this could be given the signal.
    child = os.posix_spawn("/bin/sleep", ["sleep", "0.2"], {})
    assert children.advance(_stops(1, [])) in ("through", None)
    children.wait(20.0)
    assert reaped.count(child) == 1


def test_a_stop_taken_in_place_is_told_soon_for_it_may_hide_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not at once: every exec comes with one."""
    stop = SimpleNamespace(si_code=os.CLD_TRAPPED)
    monkeypatch.setattr(signal, "sigtimedwait", lambda *_: stop)
    looked = Event()
    looks: list[bool] = []

    def reap() -> None:
        looks.append(True)
        looked.set()

    loop = Loop()
    children = Children(loop, reap)
    awaited = children.news().event
    assert awaited is not None
    children.wait(1.0)
    children.wait(1.0)
    assert awaited.is_set
    assert not looks
    loop.run(looked)
    assert len(looks) == 1
    children.tell()
    assert len(looks) == 2


def test_what_takes_longer_than_a_moment_goes_on_as_a_task() -> None:
    loop = Loop()
    children = Children(loop, lambda: None)
    left: list[str] = []
    steps = _stops(50, left)
    assert children.advance(steps) is None
    assert not left
    assert loop.result(children.drive(steps)) == "through"
    assert left == ["left"]


def test_steps_of_a_task_that_is_cancelled_are_closed() -> None:
    loop = Loop()
    children = Children(loop, lambda: None)
    left: list[str] = []

    def drive() -> Task[None]:
        yield from children.drive(_stops(1000, left))

    running = loop.start(drive())
    loop.turn()
    assert not left
    running.cancel()
    assert left == ["left"]


def test_the_zombies_of_the_killed_are_seen_to_by_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    left = 5
    tasks = []

    def bury() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    class Counting(Loop):
        def start(self, task: Task[None]) -> Running:
            tasks.append(task)
            return super().start(task)

    monkeypatch.setattr(waiting, "bury", bury)
    loop = Counting()
    children = Children(loop, lambda: None)
    children.see_buried()
    children.see_buried()
    while left > 0:
        loop.turn()
    children.see_buried()
    assert len(tasks) == 1
