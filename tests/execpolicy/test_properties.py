"""Whatever a rules file holds: a policy or a RulesError, nothing else."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_multitool.execpolicy.evaluate import judge, matches, strictest
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Decision, Policy, RulesError
from codex_multitool.execpolicy.shell_words import UnbalancedError, split

WORDS = st.sampled_from(["git", "push", "/usr/bin/git", "-f", "a b", "é", ""])
VALUES = st.recursive(
    st.one_of(
        WORDS.map(lambda word: json.dumps(word, ensure_ascii=False)),
        st.text(max_size=6).map(lambda word: json.dumps(word, ensure_ascii=False)),
        st.sampled_from(["None", "1", "1.5", "True", "len", "{}", "()", "x", "range(9)", '"deny"']),
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda values: f"[{', '.join(values)}]"),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["pattern", "decision", "match", "not_match", "justification", "host", "protocol", "paths"]
)
CALLS = st.builds(
    "{}({})".format,
    st.sampled_from(["prefix_rule", "network_rule", "host_executable"]),
    st.lists(st.one_of(VALUES, st.builds("{}={}".format, NAMES, VALUES)), max_size=4).map(
        ", ".join
    ),
)
SNIPPETS = st.lists(
    st.one_of(
        CALLS,
        st.sampled_from(
            ["x = 1", "for n in [1]:", "    pass", "def f():", "    return f()", "f()", "#", "'''"]
        ),
        st.text(max_size=12),
    ),
    max_size=5,
).map("\n".join)


def policy_or_error(text: str) -> Policy | RulesError:
    try:
        return parse([Source("f.rules", text)])
    except RulesError as error:
        return error


@settings(max_examples=300)
@given(st.one_of(SNIPPETS, st.text(st.characters(), max_size=40)))
@example("\x00")
@example("prefix_rule(['\\x00'])")
@example("\ud800")
@example("\r")
@example("f'{'")
@example("1 << 1000000")
@example("9" * 5000)
@example("x = 10 // 0")
@example("'%s' % ()")
@example("{}['a']")
@example("[].pop()")
@example("''.join([1])")
@example("range(1, 2, 0)")
@example("int('9' * 4000)")
@example("fail(fail)")
@example("'\\U00110000'")
def test_any_text_is_a_policy_or_an_error(text: str) -> None:
    result = policy_or_error(text)
    if isinstance(result, RulesError):
        assert result.path == "f.rules"
        assert result.what
        assert result.mend
        if result.location is not None:
            assert 1 <= result.location.line <= text.count("\n") + 1
            assert result.location.column >= 1


RULES = st.lists(
    st.tuples(
        st.lists(st.one_of(WORDS, st.lists(WORDS, min_size=1)), min_size=1, max_size=3),
        st.sampled_from(["allow", "prompt", "forbidden"]),
    ),
    max_size=5,
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=3)


@given(RULES, COMMANDS)
def test_matching_agrees_with_its_definition(
    rules: list[tuple[list[str | list[str]], str]], command: list[str]
) -> None:
    text = "\n".join(f"prefix_rule({json.dumps(p, ensure_ascii=False)}, '{d}')" for p, d in rules)
    policy = policy_or_error(text)
    if isinstance(policy, RulesError):  # it covers nothing
        assert policy.what.startswith("invalid rule: ")
        return
    expected = []
    for pattern, decision in rules:
        first = pattern[0] if isinstance(pattern[0], list) else [pattern[0]]
        for token in first:
            heads = [[token], *([each] if isinstance(each, str) else each for each in pattern[1:])]
            if len(command) >= len(heads) and all(
                word in head for word, head in zip(command, heads, strict=False)
            ):
                expected.append(decision)
    matched = matches(policy, command, resolve_host_executables=False)
    assert [match.decision.word for match in matched] == expected
    assert all(
        match.matched_prefix == tuple(command[: len(match.rule.pattern)]) for match in matched
    )


@given(RULES, st.lists(WORDS, max_size=2), st.booleans())
def test_judging_is_never_laxer_than_the_language(
    rules: list[tuple[list[str | list[str]], str]], arguments: list[str], listed: bool
) -> None:
    text = "\n".join(f"prefix_rule({json.dumps(p, ensure_ascii=False)}, '{d}')" for p, d in rules)
    if listed:
        text += '\nhost_executable("git", ["/opt/git"])'
    policy = policy_or_error(text)
    if isinstance(policy, RulesError):  # it covers nothing
        assert policy.what.startswith("invalid rule: ")
        return
    program = "/usr/bin/git"
    language = strictest(matches(policy, [program, *arguments], resolve_host_executables=True))
    judged = strictest(judge(policy, program, arguments, preserve_program_paths=False))
    if language is not None and judged is not None:
        assert judged >= language
    if language is not None:
        assert judged is not None
    if language is None and judged is not None:
        assert judged > Decision.ALLOW


@given(st.lists(st.text()))
def test_quoted_words_split_back(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    assert split(quoted) == words


@given(st.text(st.sampled_from("ab '\"\\#\n\t$")))
def test_splitting_ends_in_words_or_a_refusal(text: str) -> None:
    try:
        words = split(text)
    except UnbalancedError:
        return
    assert all(isinstance(word, str) for word in words)
