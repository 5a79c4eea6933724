"""The plain command lines of `exec`, read as click reads them, and what is left to click."""

import click
import pytest

from codex_multitool.cli import exec as click_exec
from codex_multitool.cli.exec_options import SHELL_VARIABLE, Options, plain


def by_click(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Options:
    """What click makes of the words behind `exec`."""
    found: list[Options] = []

    monkeypatch.setattr(click_exec, "run", found.append)
    click_exec.exec_command.main(words, standalone_mode=False)
    return found[0]


@pytest.mark.parametrize(
    "words",
    [
        ["true"],
        ["--", "true"],
        [""],
        ["echo a b", "-x", "--", "--tree"],
        ["--", "--tree", "x"],
        ["--tree", "--json", "--accept-writable-server", "make", "--json"],
        ["-s", "workspace-write", "--sandbox=read-only", "true"],
        ["--intercept", "kernel", "-C", "/a=b", "--cd=/tmp", "true"],
        ["--rules", "one", "--rules=two=three", "--learn", "it.rules", "--", "true"],
        ["--shell", "/bin/sh", "-s", "danger-full-access", "true"],
    ],
)
@pytest.mark.parametrize("shell", ["", "/the/shell"])
def test_a_plain_one_is_what_click_makes_of_it(
    words: list[str], shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHELL_VARIABLE, shell)
    found = plain(["exec", *words], {SHELL_VARIABLE: shell})
    assert found is not None
    assert found == by_click(words, monkeypatch)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["--help"],
        ["-h", "true"],
        ["--tree"],
        ["-", "true"],
        ["--tre", "true"],
        ["-sread-only", "true"],
        ["-s=read-only", "true"],
        ["--sandbox", "none", "true"],
        ["--rules"],
        ["--rules", "--tree", "true"],
        ["--rules=", "true"],
        ["--tree=yes", "true"],
        ["-c", "a=b", "true"],
        ["--timeout", "5", "true"],
        ["--json-fd", "5", "true"],
    ],
)
def test_any_other_is_left_to_click(words: list[str]) -> None:
    assert plain(["exec", *words], {}) is None


@pytest.mark.parametrize("words", [[], ["doctor"], ["--tree", "exec", "true"], ["--help"]])
def test_other_commands_are_click_s(words: list[str]) -> None:
    assert plain(words, {}) is None


def test_every_option_with_a_text_is_known() -> None:
    seldom = {"timeout", "json_fd", "overrides", "words"}
    options = [each for each in click_exec.exec_command.params if each.name not in seldom]
    assert options
    for option in options:
        assert isinstance(option, click.Option)
        value = [] if option.is_flag else [next(iter(getattr(option.type, "choices", "x")))]
        for name in option.opts:
            found = plain(["exec", name, *value, "true"], {})
            assert found not in (None, Options(("true",))), name
