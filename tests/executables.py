"""The executable under its names, built from the tree as it is, once per test run."""

import functools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILDER = ROOT / "packaging" / "zipapp.py"
SHELLS = ROOT / "packaging" / "shells" / "build.py"

_FOLDER = tempfile.TemporaryDirectory(prefix="codex-multitool-tests-", dir="/var/tmp")


@functools.cache
def built() -> Path:
    """The folder that holds codex-multitool, its dependencies and its other names."""
    out = Path(_FOLDER.name).resolve() / "dist"
    build(out)
    return out


def build(out: Path) -> None:
    """Build the executable into `out`, as `make build` does."""
    subprocess.run([sys.executable, BUILDER, "--out", out], check=True, capture_output=True)


@functools.cache
def loader(program: str = "/bin/sh") -> str:
    """The ELF loader that a program names (elf(5), PT_INTERP): a machine may have others, too."""
    found = re.search(rb"/[!-~]*/ld[-.!-~]*\.so[.0-9]*\0", Path(program).read_bytes())
    assert found, f"{program} names no loader"
    return found[0][:-1].decode()


def patched_shell(name: str) -> Path:
    """The patched shell that `make shells` built; skips where it is not built."""
    path, why = find_patched_shell(name)
    if not path:
        pytest.skip(f"no patched {name}: {why}")
    return Path(path)


@functools.cache
def find_patched_shell(name: str) -> tuple[str, str]:
    """The patched shell, or nothing and why it is not built."""
    command = [sys.executable, str(SHELLS), "--print-path", name]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return told.stdout.strip(), told.stderr.strip()
