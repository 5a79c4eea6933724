"""A kernel that cannot confine: the server says so when it starts, not first at a call."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import ROOT, built

# Under it Landlock does not exist, as before Linux 5.13, or is not switched on.
_WITHOUT_LANDLOCK = """
import os, sys
import pyseccomp
program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
program.add_rule(pyseccomp.ERRNO(int(sys.argv[1])), "landlock_create_ruleset")
program.load()
os.execv(sys.argv[2], sys.argv[2:])
"""
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}},
}


def started(home: Path, number: int, config: str) -> "subprocess.CompletedProcess[str]":
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(config)
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_LANDLOCK, str(number), built() / roles.MCP_SERVER],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)},
        input=json.dumps(_HELLO) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("number", "why"), [(38, "Linux 5.13"), (95, "`landlock` in lsm=")])
def test_the_server_says_so_at_its_start(tmp_path: Path, number: int, why: str) -> None:
    ran = started(tmp_path, number, "")
    assert ran.returncode == 0
    assert why in ran.stderr
    told = json.loads(ran.stdout.splitlines()[0])["result"]["instructions"]
    assert "No command runs in a sandbox on this machine" in told
    assert why in told


def test_with_a_sandbox_configured_it_does_not_start(tmp_path: Path) -> None:
    ran = started(tmp_path, 38, 'sandbox_mode = "workspace-write"\n')
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "sandbox_mode = 'workspace-write': this kernel has no Landlock" in ran.stderr


def test_with_full_access_configured_there_is_nothing_to_say(tmp_path: Path) -> None:
    ran = started(tmp_path, 38, 'sandbox_mode = "danger-full-access"\n')
    assert ran.returncode == 0
    assert "No command runs" not in ran.stdout + ran.stderr
