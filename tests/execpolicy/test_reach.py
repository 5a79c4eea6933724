"""Patterns that cover nothing: an error where they would restrict, else a warning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.reach import doubts
from codex_multitool.execpolicy.rules import Policy, RulesError

NEVER = [
    ('["git push"]', 'write ["git", "push"]'),
    ('["git  push -f", "x"]', 'write ["git", "push", "-f"]'),
    ('["git\\tpush"]', 'write ["git", "push"]'),
    ('[["git", "rm -rf"]]', 'write ["rm", "-rf"]'),
    ('[""]', 'name one: pattern=["git", "push"]'),
    ('[" "]', "name one"),
    ('["."]', "name one"),
    ('[".."]', "name one"),
    ('["git "]', 'write ["git"]'),
    ('["/usr/bin/git/"]', 'write "/usr/bin/git"'),
    ('["./build.sh"]', 'write "build.sh", or the absolute path'),
    ('["bin/tool"]', 'write "tool", or the absolute path'),
    ('["~/bin/tool"]', 'write "tool", or the absolute path'),
    ('["/usr//bin/git"]', 'write "/usr/bin/git"'),
    ('["/usr/bin/../bin/git"]', 'write "/usr/bin/git"'),
    ('["//usr/bin/git"]', 'write "/usr/bin/git"'),
    ('["python*"]', "list the names"),
    ('["*"]', "list the names"),
    ('["CI=1", "make"]', "begin with the program"),
    ('["git", "a\\0b"]', "leave it out"),
]
FINE = [
    '["git", "push"]',
    '["/opt/My App/run"]',
    '["/opt/My App/My App"]',
    '["["]',
    '["g++"]',
    '["sh", "-c", "git push && make"]',
    '["git", ""]',
    '["git", "commit", "-m", "two words"]',
    '["My App"], match=[["My App"]]',
    '["My App"], match=["\'My App\' now"]',
    '["a*b"], match=["a*b"]',
    '["find", "*"], match=["find \'*\'"]',
]


def policy(text: str) -> Policy:
    return parse([Source("f.rules", text)])


@pytest.mark.parametrize(("pattern", "mend"), NEVER)
@pytest.mark.parametrize("decision", ["prompt", "forbidden"])
def test_a_rule_that_would_restrict_and_covers_nothing_is_a_mistake(
    pattern: str, mend: str, decision: str
) -> None:
    with pytest.raises(RulesError) as caught:
        policy(f'\nprefix_rule({pattern}, decision="{decision}")')
    assert str(caught.value.location) == "f.rules:2:1"
    assert caught.value.what.startswith("invalid rule: ")
    assert mend in caught.value.mend


@pytest.mark.parametrize(("pattern", "mend"), NEVER)
def test_one_that_would_allow_is_told(pattern: str, mend: str) -> None:
    (warning,) = policy(f"prefix_rule({pattern})").warnings
    assert warning.startswith("f.rules:1:1: ")
    assert mend in warning


@pytest.mark.parametrize("pattern", FINE)
def test_what_can_be_meant_is_taken(pattern: str) -> None:
    assert policy(f'prefix_rule({pattern}, decision="forbidden")').warnings == ()


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (
            '["git", "push --force"]',
            '"push --force" is one word with blanks in it; write "push", "',
        ),
        ('["rm", "-rf", "*"]', '"*" covers the word * alone: there are no globs; leave it out'),
        ('[["git", "git"]]', '"git" stands twice in one place'),
        ('["git", ["push", "pull", "push"]]', '"push" stands twice in one place'),
    ],
)
def test_what_covers_less_than_it_seems_is_told(pattern: str, told: str) -> None:
    (warning,) = policy(f'prefix_rule({pattern}, decision="forbidden")').warnings
    assert told in warning


def test_network_rules_are_told_to_have_no_effect_once_a_file() -> None:
    rule = 'network_rule(host="example.org", protocol="https", decision="deny")\n'
    first, second = Source("a.rules", f"\n{rule}{rule}{rule}"), Source("b.rules", rule)
    what = "network_rule has no effect here"
    why = "the sandbox has the whole network or none"
    assert parse([first, second]).warnings == (
        f"a.rules:2:1: {what}, nor have the others of this file (2): {why}",
        f"b.rules:1:1: {what}: {why}",
    )


def test_warnings_are_bounded() -> None:
    found = policy('[prefix_rule(["a b%d" % n]) for n in range(100)]').warnings
    assert len(found) == 21
    assert found[-1] == "80 more warnings of rules"


@given(
    st.lists(st.lists(st.text(), min_size=1), min_size=1), st.lists(st.lists(st.text(), min_size=1))
)
def test_any_pattern_can_be_looked_at(pattern: list[list[str]], examples: list[list[str]]) -> None:
    for doubt in doubts(pattern, examples):
        assert doubt.what
        assert doubt.mend
        json.dumps(doubt.what)


def test_an_error_of_the_engine_is_short() -> None:
    with pytest.raises(RulesError) as caught:
        policy('prefix_rule(pattern=["x"] decision="forbidden")')
    assert caught.value.what == (
        "starlark error: Parse error: unexpected identifier 'decision' here, expected one of "
        '",", ")", "]" or 43 others'
    )
