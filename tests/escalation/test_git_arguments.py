"""git's own options are told from those of its subcommands."""

import pytest

from codex_multitool.escalation.git_arguments import GitArguments, git_arguments


@pytest.mark.parametrize(
    ("program", "words", "subcommand", "rest"),
    [
        ("git", [], "", []),
        ("git", ["push", "-f"], "push", ["-f"]),
        ("git", ["-C", "push", "status"], "status", []),
        ("git", ["-c", "a.b=push", "--no-pager", "log"], "log", []),
        ("git", ["--git-dir", "push", "--work-tree=x", "-p", "log"], "log", []),
        ("git", ["--namespace", "n", "--exec-path=/x", "--bare", "gc", "-q"], "gc", ["-q"]),
        ("git", ["--exec-path", "gc"], "gc", []),
        ("git-push", ["-f"], "push", ["-f"]),
    ],
)
def test_the_subcommand_is_found(
    program: str, words: list[str], subcommand: str, rest: list[str]
) -> None:
    git = git_arguments(program, words)
    assert git is not None
    assert (git.subcommand, git.words) == (subcommand, rest)


def test_settings_are_read_with_their_key_in_lower_case() -> None:
    git = git_arguments("git", ["-c", "Alias.X=!a=b", "-c", "core.bare", "x"])
    expected = (("alias.x", "!a=b"), ("core.bare", ""))
    assert git == GitArguments(expected, "x", [])


def test_another_program_is_not_git() -> None:
    assert git_arguments("github", ["push"]) is None
