"""What is made of samples: medians, ratios, whether a target is met, the page."""

from __future__ import annotations

import pytest

from bench.measures import Row
from bench.report import BEGIN, END, met, number, table, with_section
from bench.run import Result


def result(row: Row, **samples: list[float]) -> Result:
    return Result(row, samples)


def test_ratio_is_of_medians_to_the_base() -> None:
    row = Row("a", "ms", "what", base="launched")
    found = result(row, ours=[1, 9, 2], launched=[4, 4, 100], original=[1])
    assert (found.median("ours"), found.ratio("ours")) == (2, 0.5)
    assert found.ratio("wrapped") is None


def test_ratio_needs_a_base() -> None:
    assert result(Row("a", "ms", "what"), ours=[1]).ratio("ours") is None


@pytest.mark.parametrize(
    ("higher", "ours", "reached"),
    [(False, 7, True), (False, 8, False), (True, 7, True), (True, 6, False)],
)
def test_target_is_a_bound_of_the_ratio(higher: bool, ours: float, reached: bool) -> None:
    row = Row("a", "ms", "what", target=0.7, higher=higher)
    assert met(result(row, original=[10], ours=[ours]), "ours") is reached


def test_limit_is_a_bound_of_our_own_value() -> None:
    row = Row("a", "MiB", "what", limit=45)
    assert met(result(row, original=[1], ours=[45]), "ours") is True
    assert met(result(row, original=[1000], ours=[46]), "ours") is False


def test_wrapper_mode_has_a_target_of_its_own() -> None:
    found = result(Row("a", "ms", "what", wrapped_target=7), original=[1], ours=[9], wrapped=[8])
    assert (met(found, "ours"), met(found, "wrapped")) == (None, False)


def test_missed_target_is_marked() -> None:
    missed = result(Row("a", "ms", "slow", target=1), original=[1], ours=[2])
    reached = result(Row("b", "ms", "fast", target=1), original=[2], ours=[1])
    lines = table([missed, reached]).splitlines()
    assert ("✗" in lines[2], "✗" in lines[3]) == (True, False)


def test_columns_without_a_value_are_left_out() -> None:
    title = table([result(Row("a", "ms", "what"), floor=[1])]).splitlines()[0]
    assert "floor" in title
    assert "launcher" not in title


def test_other_build_has_a_ratio_of_its_own() -> None:
    found = result(Row("a", "ms", "what"), original=[8], ours=[1], against=[4])
    title, _, line = table([found]).splitlines()
    assert "to other" in title
    assert ("0.12" in line, "0.25" in line) == (True, True)


def test_missed_limit_is_marked_without_a_peer() -> None:
    assert "✗" in table([result(Row("a", "ms", "slow", limit=90), ours=[91])])


@pytest.mark.parametrize(("value", "text"), [(0.12345, "0.123"), (1234.5, "1234"), (None, "")])
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_section_is_put_in_place_of_the_old_one() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_section(page, "new") == "before\nnew\nafter\n"


@pytest.mark.parametrize("page", ["nothing", BEGIN, f"{END} {BEGIN}"])
def test_page_without_a_place_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no <!-- bench"):
        with_section(page, "new")
