"""Options are taken apart as getopt_long(3) does it."""

import getopt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.options import options


def test_options_may_follow_operands_until_two_dashes() -> None:
    parsed = options(["a", "-v", "b", "--force", "--", "-r"])
    assert parsed.operands == ["a", "b", "-r"]
    assert parsed.found == (("-v", ""), ("--force", ""))


def test_without_permutation_the_first_operand_ends_the_options() -> None:
    parsed = options(["-v", "rm", "-rf"], permute=False)
    assert (parsed.found, parsed.operands) == ((("-v", ""),), ["rm", "-rf"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-n10"], (("-n", "10"),)),
        (["-n", "10"], (("-n", "10"),)),
        (["-vn", "10"], (("-v", ""), ("-n", "10"))),
        (["-n"], (("-n", ""),)),
        (["-i", "x"], (("-i", ""),)),
        (["-ix"], (("-i", "x"),)),
        (["--user", "me"], (("--user", "me"),)),
        (["--us", "me"], (("--us", "me"),)),
        (["--user=me"], (("--user", "me"),)),
        (["--other", "me"], (("--other", ""),)),
        (["-"], ()),
    ],
)
def test_values_are_found_where_getopt_finds_them(
    words: list[str], found: tuple[tuple[str, str], ...]
) -> None:
    assert options(words, short="n:i::", long=("user",)).found == found


def test_a_long_option_may_be_abbreviated() -> None:
    parsed = options(["--rec", "-x"])
    assert parsed.has("", "recursive", "force")
    assert parsed.has("x")
    assert not parsed.has("r", "force")
    assert not options(["--recursively"]).has("", "recursive")


@given(st.lists(st.text()))
def test_any_words_are_taken_apart(words: list[str]) -> None:
    parsed = options(words, short="a:b::", long=("name",))
    assert len(parsed.operands) <= len(words)


@given(st.lists(st.text("-ab=xn", max_size=4)))
def test_it_agrees_with_the_standard_library(words: list[str]) -> None:
    try:
        found, operands = getopt.gnu_getopt(words, "xa:n")
    except getopt.GetoptError:
        return
    parsed = options(words, short="a:")
    assert parsed.operands == operands
    assert {name for name, _ in parsed.found} == {name for name, _ in found}
