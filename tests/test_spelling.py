"""The nearest name: what a slip is, and that looking for it always ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.spelling import did_you_mean, distance, nearest

NAMES = ("exclude_slash_tmp", "writable_roots", "network_access", "type", "--full-auto", "exec")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("exclude_slashtmp", "exclude_slash_tmp"),
        ("excludeSlashTmp", "exclude_slash_tmp"),
        ("writable_root", "writable_roots"),
        ("network_acces", "network_access"),
        ("netwrok_access", "network_access"),
        ("network", "network_access"),
        ("--full-autoo", "--full-auto"),
        ("--auto", "--full-auto"),
        ("tpye", "type"),
        ("execc", "exec"),
        ("ex", None),
        ("frobnicate", None),
        ("", None),
    ],
)
def test_a_slip_is_taken_for_the_nearest_name(word: str, name: str | None) -> None:
    assert nearest(word, NAMES) == name


def test_the_nearer_of_two_names_is_meant() -> None:
    assert nearest("maxmemory", ["max_memories", "max_memory"]) == "max_memory"
    assert nearest("abcdefgh", ["abcdefghij", "abcdefgi"]) == "abcdefgi"


def test_it_ends_a_sentence() -> None:
    assert did_you_mean("tyype", NAMES) == "; did you mean `type`?"
    assert did_you_mean("moon", NAMES) == ""


WORDS = st.text(st.sampled_from("ab_-é\ud800 "), max_size=12)


@given(WORDS, WORDS, st.integers(0, 5))
def test_distance_is_one_of_a_measure_and_bounded(one: str, other: str, most: int) -> None:
    far = distance(one, other, most)
    assert 0 <= far <= most + 1
    assert far == distance(other, one, most)
    assert (far == 0) == (one == other)
    assert min(distance(one, other, most + 1), most + 1) == far


@given(st.text(), st.lists(st.text(), max_size=5))
def test_any_words_can_be_compared(word: str, names: list[str]) -> None:
    assert nearest(word, names) in (None, *names)


def test_long_words_take_no_time() -> None:
    assert distance("a" * 10**6, "b" * 10**6, 3) == 4
    assert nearest("a" * 10**6, ["b" * 10**6] * 100) is None
