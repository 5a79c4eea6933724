"""Runs measures: every column by turns, so that what else the machine does hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.measures import Measure, Row
from bench.samples import Values
from bench.subjects import Bench

_FEWEST = 3  # samples of a row, unless that takes longer than all the time there is


@dataclass(frozen=True, slots=True)
class Result:
    """A row and its samples by column."""

    row: Row
    samples: dict[str, list[float]]

    def median(self, column: str) -> float | None:
        """None where the column has nothing."""
        found = self.samples.get(column)
        return statistics.median(found) if found else None

    def ratio(self, column: str, base_column: str | None = None) -> float | None:
        """Of the column's median to that of another: by itself, of the row's base."""
        ours, base = self.median(column), self.median(base_column or self.row.base)
        return None if ours is None or not base else ours / base


def run(
    bench: Bench,
    measures: Sequence[Measure],
    *,
    seconds: float,
    quick: bool,
    tell: Callable[[str], None],
) -> list[Result]:
    """All results. seconds: for all measures together. quick: one sample of each."""
    results = []
    end = time.monotonic() + seconds
    for place, measure in enumerate(measures, start=1):
        tell(f"[{place}/{len(measures)}] {', '.join(row.name for row in measure.rows)}")
        begun = time.monotonic()
        share = measure.share / sum(each.share for each in measures[place - 1 :])
        until = begun + (end - begun) * share
        results += _measured(bench, measure, until=until, end=end, quick=quick)
    return results


def _measured(
    bench: Bench, measure: Measure, *, until: float, end: float, quick: bool
) -> list[Result]:
    rounds: list[dict[str, Values]] = []
    longest, most = 0.0, 1 if quick else measure.most
    named = bench.columns(measure.columns)
    while len(rounds) < most:
        begun = time.monotonic()
        if rounds and begun + longest > (until if len(rounds) > _FEWEST else end):
            break
        columns = _turned(named, len(rounds))
        rounds.append({column: measure.sample(bench, column) for column in columns})
        longest = max(longest, time.monotonic() - begun)
    # The first warms servers and caches up.
    kept = rounds[1:] if len(rounds) > _FEWEST else rounds
    return [Result(row, _samples(row.name, named, kept)) for row in measure.rows]


def _samples(
    name: str, columns: Sequence[str], rounds: Sequence[dict[str, Values]]
) -> dict[str, list[float]]:
    found = {
        column: [values[column][name] for values in rounds if name in values[column]]
        for column in columns
    }
    return {column: values for column, values in found.items() if values}


def _turned(columns: Sequence[str], count: int) -> Sequence[str]:
    start = count % len(columns)
    return [*columns[start:], *columns[:start]]
