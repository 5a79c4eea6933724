"""The values rules are made of."""

import pytest

from codex_multitool.execpolicy.rules import (
    Decision,
    Location,
    PrefixRule,
    RulesError,
    normal_path,
)


def test_a_stricter_decision_is_larger() -> None:
    assert Decision.ALLOW < Decision.PROMPT < Decision.FORBIDDEN
    assert [decision.word for decision in Decision] == ["allow", "prompt", "forbidden"]


@pytest.mark.parametrize(
    ("command", "matches"),
    [
        (["git", "push"], True),
        (["git", "fetch", "origin"], True),
        (["git"], False),
        (["git", "pull"], False),
        (["git", "Push"], False),
        (["hg", "push"], False),
        ([], False),
    ],
)
def test_a_rule_matches_by_whole_leading_tokens(command: list[str], matches: bool) -> None:
    rule = PrefixRule((("git",), ("push", "fetch")), Decision.PROMPT)
    assert rule.matches(command) is matches


def test_a_rule_reads_as_in_its_file() -> None:
    rule = PrefixRule((("git",), ("push", "é")), Decision.PROMPT)
    assert str(rule) == 'prefix_rule(pattern=["git", ["push", "é"]], decision="prompt")'


def test_an_error_names_place_fault_and_remedy() -> None:
    located = RulesError(Location("a.rules", 3, 7), "is wrong", "do right")
    assert str(located) == "a.rules:3:7: is wrong\n  do right"
    assert located.path == "a.rules"
    assert str(RulesError(None, "is wrong", "do right", path="a")) == "a: is wrong\n  do right"
    assert str(RulesError(None, "is wrong", "do right")) == "is wrong\n  do right"


@pytest.mark.parametrize(
    ("path", "normal"),
    [("/a//b/./c/", "/a/b/c"), ("//a", "/a"), ("/../a/../b", "/b"), ("/", "/"), ("/a/..", "/")],
)
def test_paths_are_normalised_lexically(path: str, normal: str) -> None:
    assert normal_path(path) == normal
