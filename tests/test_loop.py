"""The plain loop: tasks, what they wait for, and how they end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from codex_multitool.loop import Event, Loop, Task, Wait, beside, sleep

A_MOMENT = 0.01
LONG = 30.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_result_is_what_the_task_returns() -> None:
    def task() -> Task[int]:
        yield from sleep(0)
        return 42

    assert Loop().result(task()) == 42


@pytest.mark.parametrize("waits", [0, 1, 3])
def test_work_is_done_once_while_a_task_waits(waits: int) -> None:
    done: list[str] = []

    def task() -> Task[int]:
        for number in range(waits):
            done.append(f"waits {number}")
            assert (yield Wait(until=0.0)) is False
        done.append("over")
        return 42

    assert Loop().result(beside(task(), lambda: done.append("work"))) == 42
    expected = [*(f"waits {number}" for number in range(waits)), "over"]
    expected.insert(1, "work")
    assert done == expected


def test_a_task_whose_work_fails_is_closed() -> None:
    closed: list[bool] = []

    def task() -> Task[None]:
        try:
            yield Wait(until=0.0)
        finally:
            closed.append(True)

    def work() -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - whatever it is
        Loop().result(beside(task(), work))
    assert closed == [True]


def test_an_error_of_a_task_is_the_loops() -> None:
    def task() -> Task[None]:
        yield from sleep(0)
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        Loop().result(task())


def test_a_wait_tells_whether_it_came_or_its_time_passed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    event = Event()

    def task() -> Task[list[bool]]:
        soon = time.monotonic() + A_MOMENT
        found = [(yield Wait(readable=reader, event=event, until=soon))]
        os.write(writer, b"x")
        found.append((yield Wait(readable=reader, event=event, until=soon + LONG)))
        os.read(reader, 1)
        event.set()
        found.append((yield Wait(readable=reader, event=event, until=soon + LONG)))
        found.append((yield Wait(writable=writer)))
        return found

    assert Loop().result(task()) == [False, True, True, True]


def test_an_event_wakes_all_that_wait_for_it_and_no_one_twice() -> None:
    loop, event, woken = Loop(), Event(), list[int]()

    def waiting(number: int) -> Task[None]:
        yield Wait(event=event)
        woken.append(number)

    def setting() -> Task[None]:
        yield from sleep(0)
        event.set()
        event.set()
        yield from sleep(A_MOMENT)

    for number in range(3):
        loop.start(waiting(number))
    loop.result(setting())
    assert woken == [0, 1, 2]


def test_a_cancelled_task_undoes_at_once_and_waits_for_nothing(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    loop, undone = Loop(), list[str]()

    def task() -> Task[None]:
        try:
            yield Wait(readable=reader, event=Event(), until=time.monotonic() + LONG)
            undone.append("it went on")
        finally:
            undone.append("undone")

    running = loop.start(task())
    loop.turn()
    running.cancel()
    assert undone == ["undone"]
    assert running.done.is_set
    os.write(writer, b"x")
    loop.result(sleep(A_MOMENT))
    running.cancel()
    assert undone == ["undone"]


def test_a_task_that_is_cancelled_when_it_is_about_to_go_on_does_not() -> None:
    loop, event, went_on = Loop(), Event(), list[bool]()

    def task() -> Task[None]:
        yield Wait(event=event)
        went_on.append(True)

    running = loop.start(task())
    loop.turn()
    event.set()
    running.cancel()
    loop.result(sleep(0))
    assert not went_on


def test_a_watcher_that_is_forgotten_by_another_is_not_called(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    other = os.dup(reader)
    loop, called = Loop(), list[int]()

    def forgets(number: int, rest: int) -> None:
        called.append(number)
        loop.forget(rest)
        loop.forget(number)

    loop.watch(reader, lambda _: forgets(reader, other))
    loop.watch(other, lambda _: forgets(other, reader))
    os.write(writer, b"x")
    loop.turn()
    os.close(other)
    assert len(called) == 1


def test_a_descriptor_has_one_watcher(pipe: tuple[int, int]) -> None:
    loop = Loop()
    loop.watch(pipe[0], lambda _: None)
    with pytest.raises(AssertionError):
        loop.watch(pipe[0], lambda _: None)


def test_timers_come_in_order_and_cancelled_ones_never() -> None:
    loop, called = Loop(), list[str]()
    now = time.monotonic()
    loop.at(now + 2 * A_MOMENT, lambda: called.append("second"))
    loop.at(now + A_MOMENT, lambda: called.append("first"))
    gone = loop.at(now, lambda: called.append("cancelled"))
    gone.cancel()
    gone.cancel()
    loop.result(sleep(3 * A_MOMENT))
    assert called == ["first", "second"]


def test_cancelled_timers_take_no_memory() -> None:
    loop = Loop()
    for _ in range(10_000):
        loop.at(time.monotonic() + LONG, lambda: None).cancel()
    assert len(loop._timers) < 1000


def test_a_task_that_never_waits_long_lets_others_have_their_turn() -> None:
    loop, ended = Loop(), Event()

    def busy() -> Task[None]:
        while not ended.is_set:
            yield Wait(until=0.0)

    def other() -> Task[None]:
        yield from sleep(A_MOMENT)
        ended.set()

    loop.start(other())
    loop.result(busy())
    assert ended.is_set
