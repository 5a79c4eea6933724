"""git's own tests, from Debian's source package of git, built once into the cache folder."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.client import BenchError
from bench.subjects import ROOT
from tests import peer

_TESTS = "t[234][01]0[0-9]-*.sh"  # 54 in git 2.39, each well below a second
_COUNT = 40
_WITHOUT = ("CURL", "EXPAT", "GETTEXT", "OPENSSL", "PERL", "PYTHON", "TCLTK")
_PACKAGES = "dpkg-dev gcc libc6-dev make zlib1g-dev"
_TAIL = 5  # lines of what a step that failed said


def script(output: Path) -> str:
    """Runs the tests, what they make in the folder `output`, and prints the names that failed."""
    folder = _tree() / "t"
    names = [path.name for path in sorted(folder.glob(_TESTS))[:_COUNT]]
    if len(names) < _COUNT:
        raise BenchError(f"{folder}: {len(names)} tests only are called {_TESTS}")
    return (
        f"export TEST_OUTPUT_DIRECTORY={output}; cd {folder}; "
        f"for test in {' '.join(names)}; do ./$test >/dev/null 2>&1 || echo $test; done"
    )


def _tree() -> Path:
    """The source tree of git, built."""
    debian = runpy.run_path(str(ROOT / "packaging" / "shells" / "debian_sources.py"))
    release = debian["release"]()
    return peer.once(
        f"git-{release.get('ID', '')}-{release.get('VERSION_ID', '')}",
        lambda folder: _build(folder, debian),
    )


def _build(folder: Path, debian: dict[str, Any]) -> None:
    fetch, machine_sources, error = (
        debian[name] for name in ("fetch", "machine_sources", "SourceError")
    )
    downloads = folder.with_name(f"{folder.name}.apt")
    try:
        source = fetch("git", machine_sources(None), downloads)
    except error as failed:
        raise BenchError(f"no source of git: {failed}") from failed
    folder.rmdir()  # dpkg-source(1) makes it itself
    _run(["dpkg-source", "--no-check", "-x", str(source.dsc), str(folder)], downloads)
    shutil.rmtree(downloads)
    _run(
        [
            "make",
            f"-j{os.cpu_count()}",
            "CFLAGS=-O2",
            *(f"NO_{name}=1" for name in _WITHOUT),
            "all",
        ],
        folder,
    )


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise BenchError(f"{missing}; git's tests take {_PACKAGES}") from missing
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL:])
        raise BenchError(f"{command[0]}: git's tests take {_PACKAGES}\n{said}")
