"""`execpolicy check` as its users call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from codex_multitool.cli.execpolicy import execpolicy

ROOT = Path(__file__).parents[2]
GIT_PUSH = (
    '{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","push"],'
    '"decision":"forbidden"}}],"decision":"forbidden"}\n'
)


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "policy.rules"
    path.write_text('prefix_rule(["git", "push"], "forbidden")\n')
    return str(path)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(execpolicy, ["check", *arguments])


def test_a_forbidden_command_is_an_answer_not_a_failure(rules: str) -> None:
    result = check("--rules", rules, "git", "push", "origin", "main")
    assert (result.stdout, result.stderr, result.exit_code) == (GIT_PUSH, "", 0)


def test_a_justification_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text('prefix_rule(["git"], "prompt", justification="café \\" \\n")')
    assert check("-r", str(path), "git").stdout == (
        '{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git"],"decision":"prompt",'
        '"justification":"café \\" \\n"}}],"decision":"prompt"}\n'
    )


def test_no_match_has_no_decision(rules: str) -> None:
    assert check("-r", rules, "ls").stdout == '{"matchedRules":[]}\n'
    assert check("-r", rules, "--pretty", "ls").stdout == '{\n  "matchedRules": []\n}\n'


def test_every_rules_option_counts(rules: str, tmp_path: Path) -> None:
    other = tmp_path / "other.rules"
    other.write_text('prefix_rule(["ls"], "prompt")')
    assert '"decision":"prompt"' in check("-r", rules, f"--rules={other}", "ls").stdout
    assert '"decision":"forbidden"' in check("-r", str(other), "-r", rules, "git", "push").stdout


def test_host_executables_are_resolved_on_request(rules: str) -> None:
    assert check("-r", rules, "/usr/bin/git", "push").stdout.startswith('{"matchedRules":[],')
    result = check("-r", rules, "--resolve-host-executables", "/usr/bin/git", "push")
    assert '"decision":"forbidden","resolvedProgram":"/usr/bin/git"}' in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["git", "push", "--pretty"],
        ["git", "push", "-r", "/dev/null", "--", "-h"],
        ["--", "git", "push", "--help"],
    ],
)
def test_options_behind_the_command_are_its_own(rules: str, command: list[str]) -> None:
    assert check("-r", rules, *command).stdout == GIT_PUSH


def test_a_command_may_begin_with_a_dash_behind_two_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text('prefix_rule(["-x", "--pretty"])')
    result = check("-r", str(path), "--", "-x", "--pretty")
    assert '"matchedPrefix":["-x","--pretty"]' in result.stdout


@pytest.mark.parametrize("arguments", [[], ["--rules"], ["--rules", "x"]])
def test_missing_arguments_are_a_usage_error(arguments: list[str]) -> None:
    result = check(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("`execpolicy check --help` says more\n")


def test_what_has_no_effect_is_told_once_and_never_in_the_json(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(
        'network_rule("example.org", "https", "deny")\nprefix_rule(["git push"])\n'
        'prefix_rule(["git", "push"], "forbidden")\n'
    )
    result = check("-r", str(path), "git", "push")
    assert (result.exit_code, result.stdout) == (0, GIT_PUSH)
    first, second = result.stderr.splitlines()
    assert first.startswith(f"execpolicy check: {path}:1:1: network_rule has no effect here")
    assert second.startswith(f"execpolicy check: {path}:2:1: ")
    assert 'write ["git", "push"]' in second


def test_help(rules: str) -> None:
    for arguments in (["-h"], ["--help"], ["-r", rules, "--help"]):
        result = check(*arguments)
        assert result.exit_code == 0
        assert "--resolve-host-executables" in result.stdout


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text("\nprefix_rule([])")
    result = check("-r", str(path), "git")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"execpolicy check: failed to parse policy at {path}\n"
        f"{path}:2:1: invalid pattern element: pattern cannot be empty\n"
        '  list words, and lists of alternative words: pattern=["git", ["pull", "fetch"]]\n'
    )


def test_an_unreadable_file_is_named(rules: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    result = check("-r", rules, "-r", missing, "git", "push")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"execpolicy check: failed to read policy at {missing}: No such file or directory\n"
    )
    (tmp_path / "latin").write_bytes(b"\n\xe9")
    result = check("-r", str(tmp_path / "latin"), "git")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"execpolicy check: failed to read policy at {tmp_path}/latin\n"
    )
    assert ":2:1: not UTF-8: byte 0xe9\n" in result.stderr


def run(code: str, *arguments: str | bytes, cwd: Path) -> bytes:
    """What `check` prints in a fresh interpreter that ran `code` first."""
    program = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from codex_multitool.cli.execpolicy import execpolicy\n{code}\nexecpolicy(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, "check", *arguments]
    return subprocess.run(command, capture_output=True, cwd=cwd, check=True).stdout


def test_words_that_are_not_utf8_come_out_as_they_went_in(rules: str, tmp_path: Path) -> None:
    program = b"/caf\xe9/git"
    printed = run(
        "", "-r", rules, "--resolve-host-executables", program, "push", b"\xff", cwd=tmp_path
    )
    assert b'"resolvedProgram":"/caf\xe9/git"' in printed


def test_a_working_directory_that_is_gone(rules: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    arguments = ["-r", rules, "--resolve-host-executables", "git", "push"]
    assert run("os.rmdir(os.getcwd())", *arguments, cwd=gone) == GIT_PUSH.encode()
