"""What the bench found, for people and as JSON — pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from bench.run import Result
from bench.subjects import AGAINST, COLUMNS, FLOOR, LAUNCHED, ORIGINAL, OURS, WRAPPED


class Machine(TypedDict):
    """Where it was measured. load: before the bench began."""

    linux: str
    architecture: str
    cpus: int
    python: str
    load: float


_BASES = {LAUNCHED: "launcher", FLOOR: "floor"}  # as a target names them

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def as_json(results: Sequence[Result], machine: Machine, *, quick: bool) -> dict[str, Any]:
    """Everything measured: per row its samples, medians and ratios."""
    return {
        "machine": machine,
        "quick": quick,
        "rows": {result.row.name: _row_as_json(result) for result in results},
    }


def _row_as_json(result: Result) -> dict[str, Any]:
    row = result.row
    return {
        "what": row.what,
        "unit": row.unit,
        "better": "higher" if row.higher else "lower",
        "base": row.base,
        "targets": targets(result),
        "limit": row.limit,
        "medians": {column: result.median(column) for column in result.samples},
        "ratios": {column: result.ratio(column) for column in (OURS, WRAPPED)},
        "ratio_to_other": result.ratio(OURS, AGAINST),
        "met": {column: met(result, column) for column in (OURS, WRAPPED)},
        "samples": result.samples,
    }


def targets(result: Result) -> dict[str, float]:
    """The ratios to reach, by column."""
    found = {OURS: result.row.target, WRAPPED: result.row.wrapped_target}
    return {column: target for column, target in found.items() if target is not None}


def met(result: Result, column: str) -> bool | None:
    """Whether the column is as good as its target; None where it has none, or no value."""
    row, value, wanted = result.row, result.ratio(column), targets(result).get(column)
    if row.limit is not None and column == OURS:
        value, wanted = result.median(column), row.limit
    if value is None or wanted is None:
        return None
    return value >= wanted if row.higher else value <= wanted


def table(results: Sequence[Result]) -> str:
    """Markdown that a terminal shows readably, too."""
    shown = [column for column in COLUMNS if any(column in each.samples for each in results)]
    ratios = ["ratio", *(["to other"] if AGAINST in shown else []), "wrapper"]
    titles = ["measure", "", *(COLUMNS[column] for column in shown), *ratios, "target"]
    lines = [titles, *(_cells(result, shown) for result in results)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(_line(cells, widths) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"


def _cells(result: Result, columns: Sequence[str]) -> list[str]:
    return [
        result.row.what,
        result.row.unit,
        *(number(result.median(column)) for column in columns),
        _ratio(result, OURS),
        *([_plain(result.ratio(OURS, AGAINST))] if AGAINST in columns else []),
        _ratio(result, WRAPPED),
        _target(result),
    ]


def number(value: float | None) -> str:
    """A value as the table shows it."""
    if value is None:
        return ""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _ratio(result: Result, column: str) -> str:
    missed = " ✗" if met(result, column) is False else ""
    return (_plain(result.ratio(column)) + missed).strip()


def _plain(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _target(result: Result) -> str:
    row, sign = result.row, "≥" if result.row.higher else "≤"
    words = [] if row.limit is None else [f"{sign} {row.limit:g} {row.unit}"]
    for column, target in targets(result).items():
        words.append(f"{sign} {target:g}" + (" (wrapper)" if column == WRAPPED else ""))
    base = "" if row.base == ORIGINAL else f" of the {_BASES[row.base]}"
    return ", ".join(words) + (base if words else "")


def section(results: Sequence[Result], machine: Machine) -> str:
    """The part of docs/performance.md that a run writes."""
    told = (
        f"Linux {machine['linux']}, {machine['architecture']}, {machine['cpus']} CPUs, "
        f"CPython {machine['python']}, load {machine['load']} before the bench began."
    )
    return f"{BEGIN}\n{told}\n\n{table(results)}\n{END}"


def with_section(page: str, text: str) -> str:
    """The page with the part between its marks replaced; ValueError if it has no such part."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} ... {END}")
    return before + text + after
