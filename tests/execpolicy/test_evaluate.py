"""What a policy says about commands."""

from __future__ import annotations

import pytest

from codex_multitool.execpolicy.evaluate import judge, matches, strictest, to_object
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Decision, Policy, RuleMatch

ALLOW, PROMPT, FORBIDDEN = Decision


def policy(text: str) -> Policy:
    return parse([Source("t.rules", text)])


def decisions(matched: tuple[RuleMatch, ...]) -> list[Decision]:
    return [match.decision for match in matched]


GIT = policy(
    """
prefix_rule(["git", ["push", "fetch"]], "prompt", justification = "j")
prefix_rule(["git", "push", "--force"], "forbidden")
prefix_rule(["git"])
"""
)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["git", "push", "--force", "x"], FORBIDDEN),
        (["git", "fetch"], PROMPT),
        (["git"], ALLOW),
        (["hg"], None),
        (["/usr/bin/git"], None),
        ([], None),
    ],
)
def test_the_strictest_of_all_matches_decides(
    command: list[str], expected: Decision | None
) -> None:
    assert strictest(matches(GIT, command, resolve_host_executables=False)) is expected


def test_matches_are_in_file_order_with_what_they_cover() -> None:
    matched = matches(GIT, ["git", "push", "--force", "x"], resolve_host_executables=False)
    assert [match.matched_prefix for match in matched] == [
        ("git", "push"),
        ("git", "push", "--force"),
        ("git",),
    ]
    assert to_object(matched) == {
        "matchedRules": [
            {
                "prefixRuleMatch": {
                    "matchedPrefix": ["git", "push"],
                    "decision": "prompt",
                    "justification": "j",
                }
            },
            {
                "prefixRuleMatch": {
                    "matchedPrefix": ["git", "push", "--force"],
                    "decision": "forbidden",
                }
            },
            {"prefixRuleMatch": {"matchedPrefix": ["git"], "decision": "allow"}},
        ],
        "decision": "forbidden",
    }
    assert to_object(()) == {"matchedRules": []}


def test_a_base_name_counts_only_when_asked_for() -> None:
    command = ["/usr/bin/git", "fetch"]
    matched = matches(GIT, command, resolve_host_executables=True)
    assert decisions(matched) == [PROMPT, ALLOW]
    assert matched[0].matched_prefix == ("git", "fetch")
    assert matched[0].resolved_program == "/usr/bin/git"
    assert matches(GIT, command, resolve_host_executables=False) == ()


@pytest.mark.parametrize(
    ("entries", "program", "expected"),
    [
        ("", "/anywhere/git", [PROMPT]),
        ('host_executable("git", ["/usr/bin/git"])', "/usr/bin/git", [PROMPT]),
        ('host_executable("git", ["/usr/bin/git"])', "/usr//bin/./git", [PROMPT]),
        ('host_executable("git", ["/usr/bin/git"])', "/tmp/git", []),
        ('host_executable("git", [])', "/usr/bin/git", []),
        ('host_executable("hg", [])', "/usr/bin/git", [PROMPT]),
        ('prefix_rule(["/usr/bin/git"])', "/usr/bin/git", [ALLOW]),
        ('prefix_rule(["/usr/bin/git", "x"])', "/usr/bin/git", [PROMPT]),
    ],
)
def test_host_executables_say_which_files_a_name_stands_for(
    entries: str, program: str, expected: list[Decision]
) -> None:
    rules = policy(f'prefix_rule(["git"], "prompt")\n{entries}')
    matched = matches(rules, [program, "push"], resolve_host_executables=True)
    assert decisions(matched) == expected


def test_a_relative_program_is_a_path_only_from_a_working_directory() -> None:
    rules = policy('prefix_rule(["git"])\nhost_executable("git", ["/w/git"])')
    for cwd, expected in (("/w", [ALLOW]), ("/v/../w", [ALLOW]), ("/v", []), (None, [])):
        matched = matches(rules, ["./git"], resolve_host_executables=True, cwd=cwd)
        assert decisions(matched) == expected


LISTED = 'host_executable("git", ["/usr/bin/git"])\n'


@pytest.mark.parametrize("keep_paths", [False, True])
@pytest.mark.parametrize(
    ("text", "program", "by_either", "by_path"),
    [
        # both kinds count together, and the stricter decides
        ('prefix_rule(["git"], "{}")', "/usr/bin/git", True, False),
        ('prefix_rule(["/usr/bin/git"], "{}")', "/usr/bin/git", True, True),
        ('prefix_rule(["/usr/bin/git"], "{}")', "/tmp/git", False, False),
        # arguments count
        ('prefix_rule(["git", "push"], "{}")', "/usr/bin/git", False, False),
        ('prefix_rule(["/usr/bin/git", "pull"], "{}")', "/usr/bin/git", True, True),
        ('prefix_rule(["GIT"], "{}")', "/usr/bin/git", False, False),
    ],
)
@pytest.mark.parametrize("decision", Decision)
def test_judge_takes_rules_on_path_and_base_name(
    text: str, program: str, by_either: bool, by_path: bool, decision: Decision, keep_paths: bool
) -> None:
    rules = policy(text.format(decision.word))
    matched = judge(rules, program, ["pull", "x"], preserve_program_paths=keep_paths)
    expected = by_path if keep_paths else by_either
    assert decisions(matched) == ([decision] if expected else [])


def test_judge_joins_what_the_language_would_hide() -> None:
    rules = policy('prefix_rule(["/usr/bin/git"])\nprefix_rule(["git", "push"], "forbidden")')
    matched = judge(rules, "/usr/bin/git", ["push"], preserve_program_paths=False)
    assert decisions(matched) == [ALLOW, FORBIDDEN]
    assert [match.resolved_program for match in matched] == [None, "/usr/bin/git"]
    assert [match.matched_prefix for match in matched] == [("/usr/bin/git",), ("git", "push")]
    command = ["/usr/bin/git", "push"]
    assert strictest(matches(rules, command, resolve_host_executables=True)) is ALLOW


@pytest.mark.parametrize(
    ("decision", "program", "counts"),
    [
        (ALLOW, "/usr/bin/git", True),
        (ALLOW, "/usr/bin/./git", True),
        (ALLOW, "/tmp/git", False),
        (PROMPT, "/tmp/git", True),
        (FORBIDDEN, "/tmp/git", True),
        (FORBIDDEN, "/usr/bin/git", True),
    ],
)
def test_host_executables_narrow_what_is_allowed_never_what_is_refused(
    decision: Decision, program: str, counts: bool
) -> None:
    rules = policy(f'{LISTED}prefix_rule(["git"], "{decision.word}")')
    matched = judge(rules, program, [], preserve_program_paths=False)
    assert decisions(matched) == ([decision] if counts else [])
    nothing_listed = policy(f'host_executable("git", [])\nprefix_rule(["git"], "{decision.word}")')
    matched = judge(nothing_listed, program, [], preserve_program_paths=False)
    assert decisions(matched) == ([] if decision is ALLOW else [decision])


def test_an_allow_rule_on_the_path_needs_no_host_executable() -> None:
    rules = policy(f'{LISTED}prefix_rule(["/opt/git"])')
    assert decisions(judge(rules, "/opt/git", [], preserve_program_paths=False)) == [ALLOW]


def test_a_program_without_a_base_name_matches_nothing() -> None:
    rules = policy('prefix_rule([""])\nprefix_rule(["/"])')
    assert judge(rules, "/tmp/", [], preserve_program_paths=True) == ()
    assert matches(rules, [], resolve_host_executables=True) == ()
