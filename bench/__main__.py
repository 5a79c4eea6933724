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

_SECONDS = 210.0
_PAGE = ROOT / "docs" / "performance.md"


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit status."""
    options = _options(arguments)
    measures = [measure for measure in MEASURES if _wanted(measure, options.only)]
    if options.write_page and (options.quick or options.only):
        _say("bench: the page takes the rows of a whole run only")
        return 2
    load = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory(prefix="codex-bench-") as folder:
            bench = Bench(Path(folder).resolve())
            try:
                results = run(
                    bench, measures, seconds=options.seconds, quick=options.quick, tell=_say
                )
            finally:
                bench.close()
    except (BenchError, peer.Unavailable, OSError) as error:
        _say(f"bench: {error}")
        return 1
    if options.only:
        results = [result for result in results if result.row.name in options.only]
    machine = _machine(load)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    found = report.as_json(results, machine, quick=options.quick)
    options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(report.table(results) + "\n")
    if options.write_page:
        section = report.section(results, machine)
        _PAGE.write_text(report.with_section(_PAGE.read_text(), section))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    rows = {row.name: row.what for measure in MEASURES for row in measure.rows}
    parser = argparse.ArgumentParser(
        prog="bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="rows:\n" + "\n".join(f"  {name:21} {what}" for name, what in rows.items()),
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
        "--write-page", action="store_true", help=f"put the table into {_PAGE.relative_to(ROOT)}"
    )
    return parser.parse_args(arguments)


def _wanted(measure: Measure, only: list[str] | None) -> bool:
    return not only or any(row.name in only for row in measure.rows)


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
