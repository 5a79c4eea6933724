"""Rules files to a policy, or to an error that says where and how to mend it."""

from __future__ import annotations

import pytest

from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Decision, NetworkRule, Policy, RulesError


def load(*texts: str) -> Policy:
    return parse([Source(f"{number}.rules", text) for number, text in enumerate(texts)])


def error(*texts: str) -> RulesError:
    with pytest.raises(RulesError) as caught:
        load(*texts)
    return caught.value


def test_a_rule_keeps_all_it_states() -> None:
    policy = load(
        '\n  # why\nprefix_rule(["git", ["push", "fetch"]], "prompt", justification=" j ")'
    )
    (rule,) = policy.rules["git"]
    assert rule.pattern == (("git",), ("push", "fetch"))
    assert (rule.decision, rule.justification) == (Decision.PROMPT, " j ")
    assert str(rule.location) == "0.rules:3:1"


def test_a_rule_allows_unless_told_otherwise() -> None:
    assert load('prefix_rule(pattern=["ls"])').rules["ls"][0].decision is Decision.ALLOW


def test_first_alternatives_become_rules_and_later_ones_stay() -> None:
    policy = load('prefix_rule([["a", "b"], ["c", "d"]])')
    assert {token: [rule.pattern for rule in rules] for token, rules in policy.rules.items()} == {
        "a": [(("a",), ("c", "d"))],
        "b": [(("b",), ("c", "d"))],
    }


def test_files_add_up_in_order() -> None:
    policy = load(
        'prefix_rule(["a"], "forbidden")\nhost_executable("a", ["/old/a"])',
        'host_executable("a", ["/x/a", "/x//a", "/y/a"])\nprefix_rule(["a", "b"])',
    )
    assert [str(rule.location) for rule in policy.rules["a"]] == ["0.rules:1:1", "1.rules:2:1"]
    assert policy.host_executables == {"a": ("/x/a", "/y/a")}


def test_files_do_not_share_names() -> None:
    assert "Variable `x` not found" in error("x = 'a'", "prefix_rule([x])").what


def test_every_rule_of_a_loop_is_located() -> None:
    policy = load('def f(name):\n    return prefix_rule([name])\n\n[f(n) for n in ["a", "b"]]\n')
    assert [str(policy.rules[name][0].location) for name in "ab"] == ["0.rules:2:12"] * 2


def test_network_rules_are_kept_in_order() -> None:
    policy = load(
        'network_rule("X.org:443", "https_connect", "deny", "j")\n'
        'network_rule(host="[::1]", protocol="socks5_udp", decision="allow")'
    )
    places = [rule.location for rule in policy.network_rules]
    assert policy.network_rules == (
        NetworkRule("x.org", "https", Decision.FORBIDDEN, "j", places[0]),
        NetworkRule("::1", "socks5_udp", Decision.ALLOW, None, places[1]),
    )
    assert [str(place) for place in places] == ["0.rules:1:1", "0.rules:2:1"]


def test_no_sources_make_an_empty_policy() -> None:
    assert parse([]) == Policy()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'prefix_rule(["ls"], decision="maybe")',
            '0.rules:1:1: invalid decision: maybe\n  use one of "allow", "prompt", "forbidden"',
        ),
        (
            'network_rule("x", "http", "no")',
            (
                "0.rules:1:1: invalid decision: no\n"
                '  use one of "allow", "prompt", "forbidden", "deny"'
            ),
        ),
        (
            'if True:\n    prefix_rule(\n        "ls",\n    )',
            (
                "0.rules:2:5: Type of parameter `pattern` doesn't match, expected `list`, "
                "actual `string`\n  give pattern as a list in brackets"
            ),
        ),
        (
            'prefix_rule(["a"])\nprefix_rule(["a", ["b", 1]])',
            (
                "0.rules:2:1: invalid pattern element: "
                "pattern alternative must be a string (got int)\n"
                '  list words, and lists of alternative words: pattern=["git", ["pull", "fetch"]]'
            ),
        ),
        (
            'prefix_rule(["a"], justification="\\t")',
            (
                "0.rules:1:1: invalid rule: justification cannot be empty\n"
                "  say in a few words why, or leave the justification out"
            ),
        ),
        (
            'prefix_rule(["a"], colour="red")',
            (
                "0.rules:1:1: starlark error: Found `colour` extra named parameter(s) for call to "
                "prefix_rule\n  the builtins take: "
                "prefix_rule(pattern, decision, match, not_match, justification)"
            ),
        ),
        (
            'host_executable("git", ["bin/git"])',
            (
                "0.rules:1:1: invalid rule: host_executable paths must be absolute (got bin/git)\n"
                '  list absolute paths that end in the name: paths=["/usr/bin/git"]'
            ),
        ),
        (
            "\ufeff",
            (
                "0.rules:1:1: starlark error: Parse error: invalid input `\ufeff`\n"
                "  save the file without a byte order mark"
            ),
        ),
        (
            "load('a', 'b')",
            (
                "0.rules:1:1: starlark error: `load` is not allowed in this dialect\n"
                "  write the rules into this file; other files can't be loaded"
            ),
        ),
        (
            "# fine\nx = '\ud800'",
            "0.rules:2:6: not UTF-8 text\n  save the file as UTF-8",
        ),
        (
            "[" * 20_000 + "]" * 20_000,
            (
                "0.rules: starlark error: the text is nested too deeply for the Starlark engine\n"
                "  split the deepest expression over several statements"
            ),
        ),
        (
            'prefix_rule([["a", "b"], ["c", "d"]], match=["a c", "a e", "b\'"[:1], ["a", "x y"]])',
            (
                "0.rules:1:1: expected every example to match at least one rule. rules: "
                '[`prefix_rule(pattern=["a", ["c", "d"]], decision="allow")`, '
                '`prefix_rule(pattern=["b", ["c", "d"]], decision="allow")`]; '
                "unmatched examples: [`a e`, `b`, `a 'x y'`]\n"
                "  correct the pattern or the example; an example is tested by its own rule only"
            ),
        ),
        (
            'x = 1\nprefix_rule([["a", "b"]],\n  not_match=["c", "b \'c d\'"])',
            (
                "0.rules:2:1: expected example to not match rule "
                '`prefix_rule(pattern=["b"], decision="allow")`: b \'c d\'\n'
                "  correct the pattern or the example; an example is tested by its own rule only"
            ),
        ),
    ],
)
def test_errors_say_where_what_and_how_to_mend(text: str, expected: str) -> None:
    assert str(error(text)) == expected


def test_the_first_fault_of_a_file_is_named() -> None:
    assert "invalid decision: x" in error('prefix_rule(["a"], "x")\n1 / 0').what
    assert "division by zero" in error('prefix_rule(["a"], match=["b"])\n1 / 0').what
    assert error('prefix_rule(["a"])', "prefix_rule([])", "foo").path == "1.rules"


def test_examples_are_tested_by_their_own_rule_only() -> None:
    load('prefix_rule(["a"])\nprefix_rule(["a", "b"], "forbidden", not_match=["a c"])')
    assert error('prefix_rule(["a"])\nprefix_rule(["b"], match=["a"])').location is not None


def test_examples_know_the_host_executables_stated_so_far() -> None:
    entry = 'host_executable("git", ["/usr/bin/git"])'
    rule = 'prefix_rule(["git"], match=["/usr/bin/git x"], not_match=["/tmp/git x"])'
    load(f"{rule}\n{entry}")
    load(entry, rule)
    assert error(rule, entry).path == "0.rules"


def test_relative_programs_in_examples_do_not_depend_on_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cwd in ("/", "/usr"):
        monkeypatch.chdir(cwd)
        load('prefix_rule(["git"], match=["./git a", "sub/../git"], not_match=["./hg"])')


def test_an_endless_file_is_an_error_that_names_its_line() -> None:
    endless = "def f():\n    for i in range(2000000000):\n        pass\n\nf()\n"
    with pytest.raises(RulesError) as caught:
        parse([Source("fine", ""), Source("endless.rules", endless)], seconds=0.3)
    assert caught.value.what == "starlark error: evaluation takes longer than 0.3 s"
    assert caught.value.mend == "state the rules without long loops"
    assert caught.value.path == "endless.rules"


def test_many_rules_load() -> None:
    lines = [f'prefix_rule(["tool", "{number}"], "prompt")' for number in range(5000)]
    rules = load("\n".join(lines)).rules["tool"]
    assert len(rules) == 5000
    assert rules[-1].location is not None
    assert rules[-1].location.line == 5000
