"""What each client did of each feature, as the table that docs/how-to/clients.md has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FEATURES = [
    "a command",
    "its own shell",
    "a question",
    "allowed",
    "denied",
    "forbidden",
    "2,000 lines",
]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(name, *cell): a column of the table")


@pytest.fixture(autouse=True)
def _cell(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Say where in the table the test's outcome goes: the row is named by its parameters."""
    marker = request.node.get_closest_marker("feature")
    if marker is None:
        return
    *names, cell = marker.args
    params = request.node.callspec.params
    row = " ".join(str(value) for value in params.values())
    record_property("cells", (row, names, cell))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows: dict[str, dict[str, str]] = {}
    for outcome, said in (("passed", None), ("failed", "FAILED"), ("skipped", "not tried")):
        for report in terminalreporter.stats.get(outcome, []):
            for key, value in report.user_properties:
                if key == "cells":
                    row, names, cell = value
                    rows.setdefault(row, {}).update(dict.fromkeys(names, said or cell))
    if not rows:
        return
    write = terminalreporter.write_line
    write("")
    write(f"| client | {' | '.join(FEATURES)} |")
    write("|---" * (len(FEATURES) + 1) + "|")
    for row in sorted(rows, key=str.casefold):
        write(f"| {row} | {' | '.join(rows[row].get(name, '-') for name in FEATURES)} |")
