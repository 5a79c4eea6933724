"""The original's `codex execpolicy check`, to compare with."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import peer

BASE = peer.ORIGINAL_VERSION
# A later release, which knows host_executable, network_rule and resolution.
HOST_EXECUTABLES = "0.107.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """How it ended and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


@functools.cache
def _codex(version: str) -> Path | str:
    """The binary, or why there is none: a failing installation is tried once per run."""
    try:
        return peer.codex(version)
    except peer.Unavailable as reason:
        return str(reason)


def codex(version: str) -> Path:
    """The codex binary of this version; skips the test where it can't be had."""
    found = _codex(version)
    if isinstance(found, str):
        pytest.skip(f"the original's codex {version}: {found}")
    return found


def check(version: str, arguments: Sequence[str], *, cwd: Path) -> Answer:
    """What its `execpolicy check` answers to these arguments."""
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("RUST_")}
    done = subprocess.run(
        [codex(version), "execpolicy", "check", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**quiet, "HOME": str(cwd)},
        timeout=60,
        check=False,
    )
    # It warns of a home in a temporary folder before it does what it is asked to.
    errors = [line for line in done.stderr.splitlines(True) if not line.startswith("WARNING: ")]
    return Answer(done.returncode, done.stdout, "".join(errors))
