"""The layout of rules texts: one for each text, and no text means anything else in it."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_multitool.execpolicy.layout import laid_out
from codex_multitool.execpolicy.layout_tree import LayoutError
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Policy, RulesError
from tests.execpolicy.test_properties import CALLS, SNIPPETS

LONG = "a" * 60


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("\n\n", ""),
        ("# only this", "# only this\n"),
        ("x=1\n\n\n\ny=2\n# c\n", "x = 1\n\ny = 2\n# c\n"),
        (
            "prefix_rule( pattern = ['git',[\"status\",'log']] ,decision='allow' )#why",
            'prefix_rule(pattern=["git", ["status", "log"]], decision="allow")  #why\n',
        ),
        ("prefix_rule(\n  ['ls']\n)\n", 'prefix_rule(["ls"])\n'),
        ("f(a,)", "f(\n    a,\n)\n"),
        ("f()\nf(\n)\n", "f()\nf()\n"),
        ("f(# one\n)\n", "f(\n    # one\n)\n"),
        ("x = ['it\\'s', 'a\"b', r'\\d', '''a''']", "x = ['it\\'s', 'a\"b', r'\\d', '''a''']\n"),
        ("x=-1 - -y*2**z", "x = -1 - -y * 2 ** z\n"),
        ("x=a[1:2] [ 'k' ]( b ).c", 'x = a[1:2]["k"](b).c\n'),
        ("x={'a':1,'b':[]}", 'x = {"a": 1, "b": []}\n'),
        ("x=(a,);y=()", "x = (a,); y = ()\n"),
        ("x = 1 + \\\n  2\n", "x = 1 + 2\n"),
        ("x = not a if b else lambda c:d\n", "x = not a if b else lambda c: d\n"),
        ("f(*a,**b)", "f(*a, **b)\n"),
        ("x = [a for a in b if a]", "x = [a for a in b if a]\n"),
        ("x = '''a\n  b'''\n", "x = '''a\n  b'''\n"),
        ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ('x = f"{a}{{"', 'x = f"{a}{{"\n'),
    ],
)
def test_layout(before: str, after: str) -> None:
    assert laid_out(before) == after
    assert laid_out(after) == after


def test_what_does_not_fit_has_a_line_for_each_item() -> None:
    assert laid_out(f'f(a="{LONG}", b=["{LONG}"], c=[1, "{LONG}", "{LONG}"])\n') == (
        f'f(\n    a="{LONG}",\n    b=["{LONG}"],\n'
        f'    c=[\n        1,\n        "{LONG}",\n        "{LONG}",\n    ],\n)\n'
    )
    # A comma would make a tuple of the one, and is no syntax in the others.
    assert laid_out(f'x = ("{LONG}" + "{LONG}")\n') == f'x = (\n    "{LONG}" + "{LONG}"\n)\n'
    assert laid_out(f'f(**g("{LONG}", "{LONG}"))\n').endswith("    )\n)\n")
    assert laid_out(f'x = ["{LONG}" + a for a in "{LONG}"]\n').endswith(f'in "{LONG}"\n]\n')


def test_the_last_column_is_used_and_no_more() -> None:
    for word in ("a" * 95, "a" * 96):
        text = laid_out(f'f("{word}")')
        assert (text == f'f("{word}")\n') == (len(word) == 95)


def test_comments_stay_where_they_are() -> None:
    text = """\
# head

# of the rule
prefix_rule(
    # of the pattern
    pattern=[
        "git",  # a
        # between
        "push",
        # at the end
    ],  # behind
    decision="prompt",
    # of nothing
)  # done
for a in [
    "x",  # one
]:  # two
    # three
    prefix_rule([a])
    # four

    # five
# six
x = 1  # seven
# eight
"""
    assert laid_out(text) == text


def test_comments_in_odd_places_find_one() -> None:
    assert laid_out("f( # a\n x # b\n , # c\n y = # d\n 1 # e\n # f\n)\n") == (
        "f(\n    # a\n    # b\n    x,  # c\n    # d\n    y=1,  # e\n    # f\n)\n"
    )
    assert laid_out("for a in b: # x\n        # y\n  f(a)\n      # z\n # w\n") == (
        "for a in b:  # x\n    # y\n    f(a)\n    # z\n# w\n"
    )


@pytest.mark.parametrize(("text", "line", "column"), [("x = 1\ny = $", 2, 5), ("f(", 2, 1)])
def test_text_that_is_not_understood_is_told_with_its_place(
    text: str, line: int, column: int
) -> None:
    with pytest.raises(LayoutError) as error:
        laid_out(text)
    # The tokenizers of different Pythons point to either end of it.
    assert error.value.line in (line - 1, line, line + 1)
    assert error.value.column >= 1
    assert column


def policy(text: str) -> Policy | None:
    """What a text states, wherever in it; None for nothing that can be used."""
    try:
        found = parse([Source("f.rules", text)], examples=False)
    except RulesError:
        return None
    return Policy(
        {
            token: tuple(rule._replace(location=None) for rule in listed)
            for token, listed in found.rules.items()
        },
        dict(found.host_executables),
        tuple(rule._replace(location=None) for rule in found.network_rules),
    )


def blanks(drawn: str) -> st.SearchStrategy[str]:
    """The text with blanks, line ends and comments where brackets let them be."""
    fillers = st.sampled_from(["", "", " ", "\n", "  # c\n", "\n# d\n", ",\n"])
    parts = drawn.replace("[", "[\0").replace(", ", ",\0").replace(")", "\0)").split("\0")
    return st.lists(fillers, min_size=len(parts) - 1, max_size=len(parts) - 1).map(
        lambda chosen: "".join(
            part + filler for part, filler in zip(parts, [*chosen, ""], strict=True)
        )
    )


@settings(deadline=None, max_examples=150)
@given(st.one_of(SNIPPETS, CALLS.flatmap(blanks), st.text(max_size=20)))
@example("prefix_rule(pattern=['a'],\n# c\n match=[('a')])")
@example("x = 'a\\\nb'\nprefix_rule([x])")
@example("x = '\\'\nprefix_rule(['a'])")
@example("def f():\n  return 1\n# c\n  # d\nprefix_rule(['a'])")
@example("(" * 300 + ")" * 300)
@example("prefix_rule(['a'])\x0c\nprefix_rule(['b'])")
@example("\ufeffprefix_rule(['a'])")
@example("prefix_rule(['a'])\u2028prefix_rule(['b'])")
def test_no_text_means_anything_else_and_the_second_time_changes_nothing(text: str) -> None:
    try:
        found = laid_out(text)
    except LayoutError:
        return
    assert laid_out(found) == found
    before = policy(text)
    if before is not None:
        assert policy(found) == before
