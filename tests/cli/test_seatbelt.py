"""Seatbelt profiles as text."""

import pytest

from codex_multitool.cli.seatbelt import PROGRAM, command_line, profile
from codex_multitool.sandbox.policy import SandboxPolicy

READ_ONLY = SandboxPolicy("read-only")
WORKSPACE = SandboxPolicy("workspace-write")
POLICIES = [
    READ_ONLY,
    WORKSPACE,
    SandboxPolicy("workspace-write", network_access=True),
    SandboxPolicy("external-sandbox"),
    SandboxPolicy("danger-full-access"),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_parentheses_and_quotes_are_in_pairs(policy: SandboxPolicy) -> None:
    text = profile(policy, ["/a", "/b"])
    assert text.count("(") == text.count(")")
    assert text.count('"') % 2 == 0
    assert text.startswith("(version 1)\n")


def test_read_only_writes_nothing_and_has_no_network() -> None:
    text = profile(READ_ONLY, [])
    assert "(deny default)" in text
    assert "(allow file-read*)" in text
    assert "(allow file-write*" not in text
    assert "subpath" not in text
    assert "network" not in text


def test_roots_are_parameters_never_text() -> None:
    hostile = '/x")) (allow default) ("'
    words = command_line(WORKSPACE, ["/work", hostile], ["make", "-p"])
    assert words[:2] == [PROGRAM, "-p"]
    assert hostile not in words[2]
    assert '(subpath (param "ROOT_0"))' in words[2]
    assert '(subpath (param "ROOT_1"))' in words[2]
    assert words[3:] == ["-DROOT_0=/work", f"-DROOT_1={hostile}", "--", "make", "-p"]
    assert "ROOT_2" not in words[2]


def test_network_is_all_or_nothing() -> None:
    assert "(allow network-outbound)" in profile(POLICIES[2], [])
    assert "network-outbound" not in profile(WORKSPACE, [])


def test_full_write_without_network() -> None:
    words = command_line(SandboxPolicy("external-sandbox"), ["/work"], ["true"])
    assert "(allow file-write*)\n" in words[2]
    assert "network-outbound" not in words[2]
    assert words[3:] == ["--", "true"]


def test_no_restriction_at_all() -> None:
    assert profile(SandboxPolicy("danger-full-access"), []) == "(version 1)\n(allow default)\n"
