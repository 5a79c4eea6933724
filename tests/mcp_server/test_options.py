"""The plain command lines, read as click reads them, and what is left to click."""

import click
import pytest

from codex_multitool.mcp_server.command_line import command_line, parse
from codex_multitool.mcp_server.options import (
    COMPLETION_VARIABLE,
    SHELL_VARIABLE,
    Options,
    plain,
)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--intercept=kernel", "--shell", "/bin/bash"],
        ["--bash", "one", "--shell=two"],
        ["--execve=/a=b"],
        ["--rules", "one", "--rules=two"],
        ["--preserve-program-paths", "--dangerous-commands", "run"],
    ],
)
@pytest.mark.parametrize("shell", ["", "/the/shell"])
def test_a_plain_one_is_what_click_makes_of_it(
    arguments: list[str], shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHELL_VARIABLE, shell)
    found = plain(arguments, {SHELL_VARIABLE: shell})
    assert found is not None
    assert found == parse(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-V"],
        ["word"],
        ["--"],
        ["--inter", "kernel"],
        ["--intercept", "magic"],
        ["--intercept"],
        ["--shell="],
        ["--rules", "--shell"],
        ["--preserve-program-paths=yes"],
        ["--approval-timeout", "5"],
    ],
)
def test_any_other_is_left_to_click(arguments: list[str]) -> None:
    assert plain(arguments, {}) is None


def test_what_a_shell_asks_to_complete_is_left_to_click() -> None:
    assert plain([], {COMPLETION_VARIABLE: "bash_complete"}) is None


def test_every_option_with_a_text_is_known() -> None:
    seldom = {"approval_timeout", "help", "version"}
    options = [each for each in command_line.params if each.name not in seldom]
    assert options
    for option in options:
        assert isinstance(option, click.Option)
        value = [] if option.is_flag else [next(iter(getattr(option.type, "choices", "x")))]
        for name in option.opts:
            found = plain([name, *value], {})
            assert found not in (None, Options()), name
