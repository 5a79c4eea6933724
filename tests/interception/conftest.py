"""What the interception tests share: the programs built from C, and users to run as."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool.interception.architecture import architecture
from tests.interception.decisions import NOBODY

SOURCES = Path(__file__).with_name("programs")
_BARE = ("-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector")


@pytest.fixture(scope="session", autouse=True)
def _interception() -> None:
    if architecture(os.uname().machine) is None or not sys.platform.startswith("linux"):
        pytest.skip("no kernel interception on this machine")


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """A folder anybody may enter, with caller, flip, foreign, target_a, target_f, no_loader."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no C compiler")
    folder = Path(tempfile.mkdtemp(prefix="interception-"))
    folder.chmod(0o755)

    def build(source: str, name: str, *options: str) -> None:
        command = [gcc, "-O1", "-w", *options, "-o", str(folder / name), str(SOURCES / source)]
        subprocess.run(command, check=True)

    build("caller.c", "caller", "-pthread")
    build("flip.c", "flip", "-pthread")
    build("foreign.c", "foreign")
    build("target.c", "target_a", *_BARE)
    build("target.c", "target_f", "-DFORBIDDEN=1", *_BARE)
    build("foreign.c", "no_loader", "-Wl,--dynamic-linker=/nonexistent")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def as_nobody() -> list[str]:
    """The command that runs a Python of at least 3.11 as an ordinary user; skips without one."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user; these tests ran as an ordinary user")
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("no setpriv")
    user = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    # It must be able to start itself again: setpriv itself still has the rights of root.
    probe = (
        "import os, sys, tests.interception.decisions; assert sys.version_info >= (3, 11)\n"
        "os.execv(sys.executable, [sys.executable, '-c', ''])"
    )
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        found = subprocess.run(
            [*user, python, "-c", probe], cwd=SOURCES.parents[2], capture_output=True, check=False
        )
        if found.returncode == 0:
            return [*user, python]
    pytest.skip("no Python that an ordinary user may run, or a checkout it may not read")
