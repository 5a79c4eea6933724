"""Callers that may not be looked at, and programs that may not be read: an ordinary user's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.client import Client, ShellResult
from tests.end_to_end.ordinary import ordinary_box, ordinary_server
from tests.end_to_end.rig import FULL_ACCESS, KERNEL, ONLY_WORKSPACE, Box

# As ssh-agent does, and gpg-agent, before they execute what they are given.
NOT_DUMPABLE = (
    "python3 -IS -c 'import ctypes, os, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0);"
    " os.execvp(sys.argv[1], sys.argv[1:])' {}"
)
FORBIDS = 'prefix_rule(pattern=["sudo"], decision="forbidden")\n'


@contextmanager
def session(policy: dict[str, Any], rules: str) -> Iterator[tuple[Box, Client]]:
    with ordinary_box("") as box, ordinary_server(box, KERNEL, rules=rules) as client:
        state = box.state(policy, codexLinuxSandboxExe="/nonexistent")
        assert client.request("codex/sandbox-state/update", state) == {}
        yield box, client


def notes(result: ShellResult) -> str:
    assert result.structured is not None
    return "\n".join(result.structured["notes"])


def test_with_full_access_and_nothing_forbidden_it_runs() -> None:
    with session(FULL_ACCESS, 'prefix_rule(pattern=["git"])\n') as (_, client):
        result = client.shell(NOT_DUMPABLE.format("echo hi"))
        assert (result.exit_code, result.output) == (0, "hi\n")


@pytest.mark.parametrize(
    ("policy", "rules"),
    [(FULL_ACCESS, FORBIDS), (ONLY_WORKSPACE, "")],
    ids=["a rule that forbids", "a sandbox"],
)
def test_else_it_is_refused_and_told_why(policy: dict[str, Any], rules: str) -> None:
    with session(policy, rules) as (_, client):
        result = client.shell(NOT_DUMPABLE.format("echo hi") + " 2>&1")
        assert result.exit_code == 1
        assert "PermissionError" in result.output
        assert "not dumpable" in notes(result)


@pytest.fixture
def only_executable() -> Iterator[Path]:
    """A program of root's that others may execute, and not read."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that these tests' user may not read")
    path = Path("/var/tmp/only-executable")
    shutil.copy("/bin/echo", path)
    path.chmod(0o711)
    yield path
    path.unlink()


def test_what_cannot_be_read_runs_where_there_is_no_sandbox(only_executable: Path) -> None:
    with session(FULL_ACCESS, FORBIDS) as (_, client):
        result = client.shell(f"{only_executable} hi; {only_executable} again")
        assert (result.exit_code, result.output) == (0, "hi\nagain\n")


def test_rules_hold_for_it_by_its_name(only_executable: Path) -> None:
    rules = 'prefix_rule(pattern=["only-executable", "no"], decision="forbidden")\n'
    with session(FULL_ACCESS, rules) as (_, client):
        assert client.shell(f"{only_executable} yes").output == "yes\n"
        assert "Execution denied" in client.shell(f"{only_executable} no").output


def test_in_a_sandbox_it_is_denied(only_executable: Path) -> None:
    with session(ONLY_WORKSPACE, "") as (_, client):
        result = client.shell(f"{only_executable} hi")
        assert "cannot be read, so it cannot be judged" in result.output
