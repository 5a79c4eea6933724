"""The clock of a call: it runs out at its limit, and stands still while a human is asked."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.running.deadline import Deadline


def test_it_expires_at_its_limit_and_not_before() -> None:
    deadline = Deadline(10, now=100)
    assert deadline.expires_at() == 110
    assert not deadline.expired(109.999)
    assert deadline.expired(110)


def test_without_any_time_it_has_expired_at_once() -> None:
    assert Deadline(0, now=100).expired(100)


def test_a_pause_prevents_the_end_until_it_is_over() -> None:
    deadline = Deadline(10, now=100)
    deadline.pause(104)
    assert deadline.expires_at() == inf
    assert not deadline.expired(1_000_000)
    deadline.resume(1_000_000)
    assert deadline.expires_at() == 1_000_006


def test_overlapping_pauses_end_with_the_last() -> None:
    deadline = Deadline(10, now=0)
    deadline.pause(1)
    deadline.pause(2)
    deadline.resume(50)
    assert deadline.expires_at() == inf
    deadline.resume(60)
    assert deadline.expires_at() == 69


def test_pauses_one_after_the_other_add_up() -> None:
    deadline = Deadline(10, now=0)
    for start in (2, 102, 202):
        deadline.pause(start)
        deadline.resume(start + 98)
    assert deadline.expires_at() == 304  # two seconds ran before each pause


def test_resuming_without_a_pause_changes_nothing() -> None:
    deadline = Deadline(10, now=0)
    deadline.resume(5)
    assert deadline.expires_at() == 10
    deadline.pause(6)
    deadline.resume(7)
    deadline.resume(8)
    assert deadline.expires_at() == 11


def test_a_pause_after_the_end_brings_no_time_back() -> None:
    deadline = Deadline(10, now=0)
    deadline.pause(15)
    deadline.resume(20)
    assert deadline.expired(20)


@given(
    limit=st.integers(0, 1000),
    steps=st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from(["pause", "resume"])), max_size=30
    ),
)
def test_it_expires_when_the_time_spent_running_reaches_the_limit(
    limit: int, steps: list[tuple[int, str]]
) -> None:
    deadline, now, pauses, ran = Deadline(limit, now=0), 0, 0, 0
    for wait, step in steps:
        now += wait
        ran += 0 if pauses else wait
        getattr(deadline, step)(now)
        pauses = pauses + 1 if step == "pause" else max(0, pauses - 1)
    if pauses:
        assert deadline.expires_at() == inf
    else:
        assert deadline.expires_at() == pytest.approx(now + limit - ran)
