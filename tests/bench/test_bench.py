"""`make bench` runs, its table and its JSON say the same, and the page shows what it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import options, wanted
from bench.measures import MEASURES
from bench.report import BEGIN, END, number
from bench.subjects import ROOT
from tests import peer
from tests.executables import built, patched_shell

ROWS = [row for measure in MEASURES for row in measure.rows]
PAGE = ROOT / "docs" / "performance.md"


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "CODEX_MULTITOOL_DIST": str(built())},
    )


@pytest.fixture
def installed() -> None:
    """What the bench compares with, or a reason to skip."""
    try:
        peer.original()
    except peer.Unavailable as reason:
        pytest.skip(f"the original is not to be had: {reason}")
    patched_shell("bash")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def tabled(lines: Sequence[str]) -> dict[str, dict[str, str]]:
    """The table's rows by what they measure; each by column title."""
    titles, _, *rows = (cells(line) for line in lines)
    assert all(len(row) == len(titles) for row in rows)
    return {row[0]: dict(zip(titles, row, strict=True)) for row in rows}


@pytest.mark.usefixtures("installed")
def test_table_and_json_of_some_rows_agree(tmp_path: Path) -> None:
    names = ["call-read-only", "exec-denied", "spawn"]
    only = [word for name in names for word in ("--only", name)]
    file = tmp_path / "deep" / "found.json"
    done = bench("--quick", "--json", file, "--against", built(), *only)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert list(found["rows"]) == names
    assert found["quick"]
    table = tabled(done.stdout.splitlines())
    assert list(table) == [found["rows"][name]["what"] for name in names]
    for row in found["rows"].values():
        agrees(table[row["what"]], row)
    assert [line.split()[1] for line in done.stderr.splitlines()] == names


def agrees(shown: dict[str, str], row: dict[str, Any]) -> None:
    medians, ratios = row["medians"], row["ratios"]
    titles = {"original": "original", "ours": "ours", "against": "other build", "floor": "floor"}
    for column, title in titles.items():
        assert shown[title] == number(medians.get(column))
        assert len(row["samples"].get(column, [])) == (column in medians)
    if "original" in medians:
        assert ratios["ours"] == pytest.approx(medians["ours"] / medians["original"])
        assert shown["ratio"].split()[0] == f"{ratios['ours']:.2f}"
        other = medians["ours"] / medians["against"]
        assert (row["ratio_to_other"], shown["to other"]) == (pytest.approx(other), f"{other:.2f}")
        missed = ratios["ours"] > row["targets"]["ours"]
        assert ("✗" in shown["ratio"], row["met"]["ours"]) == (missed, not missed)
    else:
        assert shown["ratio"] == ""


def test_help_names_every_row() -> None:
    done = bench("--help")
    assert done.returncode == 0
    listed = done.stdout.partition("asked for:\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [[row.name, row.what] for row in ROWS]


@pytest.mark.parametrize(
    ("arguments", "asked"), [([], False), (["--only=git"], True), (["--write-page"], True)]
)
def test_git_is_run_for_the_page_or_when_asked(arguments: list[str], asked: bool) -> None:
    measures = wanted(options(arguments))
    assert ("git" in [row.name for measure in measures for row in measure.rows]) is asked


def test_unknown_row_is_refused() -> None:
    done = bench("--only", "no-such-row")
    assert done.returncode == 2
    assert "no-such-row" in done.stderr


@pytest.mark.parametrize("option", ["--quick", "--only=start", "--against=dist"])
def test_page_takes_whole_runs_only(option: str) -> None:
    before = PAGE.read_bytes()
    done = bench("--write-page", option)
    assert (done.returncode, PAGE.read_bytes()) == (2, before)


def test_page_shows_the_rows_that_are_measured() -> None:
    generated = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in generated.splitlines() if line.startswith("|")]
    assert list(tabled(lines)) == [row.what for row in ROWS]
