"""Measures this server and the original side by side: medians, ratios, a table and JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.client import BenchError
from bench.measures import MEASURES, Measure
from bench.run import run
from bench.subjects import ROOT, Bench
from tests import peer

_SECONDS = 240.0
_PAGE = ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit status."""
    chosen = options(arguments)
    measures = wanted(chosen)
    if chosen.write_page and (chosen.quick or chosen.only or chosen.against):
        _say("bench: the page takes the rows of a whole run only")
        return 2
    load = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory(prefix="codex-bench-") as folder:
            bench = Bench(Path(folder).resolve(), chosen.against)
            try:
                results = run(
                    bench, measures, seconds=chosen.seconds, quick=chosen.quick, tell=_say
                )
            finally:
                bench.close()
    except (BenchError, peer.Unavailable, OSError) as error:
        _say(f"bench: {error}")
        return 1
    if chosen.only:
        results = [result for result in results if result.row.name in chosen.only]
    machine = _machine(load)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    found = report.as_json(results, machine, quick=chosen.quick)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(report.table(results) + "\n")
    if chosen.write_page:
        section = report.section(results, machine)
        _PAGE.write_text(report.with_section(_PAGE.read_text(), section))
    return 0


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line says; SystemExit where it is wrong, or asks for help."""
    rows = {row.name: row.what for measure in MEASURES for row in measure.rows}
    parser = argparse.ArgumentParser(
        prog="bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="rows, `git` only when it is asked for:\n"
        + "\n".join(f"  {name:21} {what}" for name, what in rows.items()),
    )
    parser.add_argument(
        "--only", action="append", metavar="ROW", choices=rows, help="may be given again"
    )
    parser.add_argument("--quick", action="store_true", help="one sample of each")
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help="for all rows together (%(default).0f)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / "build" / "bench.json",
        metavar="FILE",
        help="%(default)s",
    )
    parser.add_argument(
        "--against", type=Path, metavar="DIST", help="measure another build of ours, too"
    )
    parser.add_argument(
        "--write-page",
        action="store_true",
        help=f"put the table into {_PAGE.relative_to(ROOT)}, with all rows: give it more time",
    )
    return parser.parse_args(arguments)


def wanted(chosen: argparse.Namespace) -> list[Measure]:
    """The measures that the options ask for."""
    if chosen.only:
        return [each for each in MEASURES if any(row.name in chosen.only for row in each.rows)]
    return [each for each in MEASURES if chosen.write_page or not each.asked]


def _machine(load: float) -> report.Machine:
    linux = ".".join(platform.release().split(".")[:2])
    return {
        "linux": linux,
        "architecture": platform.machine(),
        "cpus": os.cpu_count() or 1,
        "python": platform.python_version(),
        "load": round(load, 1),
    }


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
