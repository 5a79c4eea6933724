"""The arguments of a call: what is taken, and what is said of the rest."""

from typing import Any

import pytest

from codex_multitool.mcp_server import shell_tool
from codex_multitool.mcp_server.arguments import ArgumentError, parse_arguments
from codex_multitool.mcp_server.calls import CommandSpec, ToolError

GIVEN = {"command": "true", "workdir": "/"}


def test_defaults() -> None:
    assert parse_arguments(GIVEN) == CommandSpec("true", "/", 10_000, login=True)
    nulls = {**GIVEN, "timeout_ms": None, "login": None}
    assert parse_arguments(nulls) == CommandSpec("true", "/", 10_000, login=True)


def test_all_given_and_unknown_ones_ignored() -> None:
    given = {**GIVEN, "timeout_ms": 5, "login": False, "sandbox": "none"}
    assert parse_arguments(given) == CommandSpec("true", "/", 5, login=False)


@pytest.mark.parametrize(
    ("timeout", "milliseconds"),
    [(0, 0), (1.0, 1), (2**53, 2**53), (10**400, 2**53), (1e300, 2**53)],
)
def test_any_timeout_from_0_up(timeout: float, milliseconds: int) -> None:
    assert parse_arguments({**GIVEN, "timeout_ms": timeout}).timeout_ms == milliseconds


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "missing field `command`"),
        ({"command": "true"}, "missing field `workdir`"),
        ({"workdir": "/"}, "missing field `command`"),
        ({**GIVEN, "command": 7}, "`command` must be a string, not a number"),
        ({**GIVEN, "command": None}, "`command` must be a string, not null"),
        ({**GIVEN, "workdir": ["/"]}, "`workdir` must be a string, not an array"),
        ({**GIVEN, "timeout_ms": "5"}, "`timeout_ms` must be an integer"),
        ({**GIVEN, "timeout_ms": True}, "`timeout_ms` must be an integer"),
        ({**GIVEN, "timeout_ms": 1.5}, "`timeout_ms` must be an integer"),
        ({**GIVEN, "timeout_ms": -1}, "`timeout_ms` must be 0 or more, not -1"),
        ({**GIVEN, "login": "no"}, "`login` must be a boolean, not a string"),
        ({**GIVEN, "login": 0}, "`login` must be a boolean, not a number"),
    ],
)
def test_what_breaks_the_schema_is_named(arguments: Any, why: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_arguments(arguments)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({**GIVEN, "workdir": "src"}, "workdir 'src': it must be an absolute path"),
        ({**GIVEN, "workdir": ""}, "workdir '': it must be an absolute path"),
        ({**GIVEN, "workdir": "/a\0"}, "`workdir` holds a NUL"),
        ({**GIVEN, "command": "a\0b"}, "`command` holds a NUL"),
    ],
)
def test_what_is_of_no_use_is_told_to_the_model(arguments: Any, why: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_arguments(arguments)
    assert str(caught.value).startswith(why)


def test_without_a_timeout_it_is_the_one_told() -> None:
    assert parse_arguments(GIVEN).timeout_ms == shell_tool.DEFAULT_TIMEOUT_MS
