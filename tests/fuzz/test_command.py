"""`python -m fuzz`: what it does, what it leaves, what it says where it can do nothing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.targets import TARGETS
from tests.source_tree import ROOT


def _fuzz(*words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *words],
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def test_help_tells_what_every_target_holds_to() -> None:
    done = _fuzz("--help")
    assert done.returncode == 0
    told = " ".join(done.stdout.split())
    assert all(target.what and target.what in told for target in TARGETS.values())


def test_without_atheris_it_says_so(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is not None:
        pytest.skip("atheris is installed")
    done = _fuzz("--seconds", "1", "--only", "relay", "--corpus", str(tmp_path))
    assert done.returncode == 2
    assert "atheris is not installed" in done.stderr


def test_a_run_leaves_its_corpus_and_its_figures(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: pip install -e '.[fuzz]'")
    done = _fuzz("--seconds", "1", "--only", "wire", "--corpus", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "| `wire` |" in done.stdout
    assert json.loads((tmp_path / "wire/figures.json").read_text())["inputs"] > 0
    assert list((tmp_path / "wire/corpus").iterdir())
    assert not list((tmp_path / "wire/findings").iterdir())


def test_a_finding_is_kept_and_told(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed: pip install -e '.[fuzz]'")
    findings = tmp_path / "relay/findings"
    findings.mkdir(parents=True)
    (findings / "crash-1").write_bytes(b"\0")
    done = _fuzz("--seconds", "1", "--only", "relay", "--corpus", str(tmp_path))
    assert done.returncode == 1
    assert f"fuzz.one relay {findings / 'crash-1'}" in done.stderr
