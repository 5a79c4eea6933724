"""`make run`: the demonstration passes with the built server, and notices when it should not."""

import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import ROOT, built

DEMO = ROOT / "packaging" / "demo.py"
BUILD_SHELLS = ROOT / "packaging" / "shells" / "build.py"


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DEMO, *arguments], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def bash() -> str:
    found = subprocess.run(
        [sys.executable, BUILD_SHELLS, "--print-path", "bash"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        pytest.skip(f"no patched bash: {found.stderr.strip()}")
    return found.stdout.strip()


def test_all_is_as_told(bash: str) -> None:
    done = demo("--server", built() / roles.MCP_SERVER, "--", "--bash", bash)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("  checked: ") == 18
    assert "All of it was as told." in done.stdout


def test_rule_that_does_not_take_effect_is_noticed(bash: str) -> None:
    # With this option the rule for `mkdir` does not cover /usr/bin/mkdir.
    options = ("--bash", bash, "--preserve-program-paths")
    done = demo("--server", built() / roles.MCP_SERVER, "--", *options)
    assert done.returncode == 1
    assert "not true" in done.stderr
    assert "All of it was as told." not in done.stdout


def test_server_that_ends_at_once_is_noticed() -> None:
    done = demo("--server", "/bin/false")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
