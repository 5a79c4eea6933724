"""The executable under its names, built from the tree as it is, once per test run."""

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILDER = ROOT / "packaging" / "zipapp.py"

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
