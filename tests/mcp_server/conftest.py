"""Benches for calls of the tool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.processes import kill_marked, marked, wait_until
from tests.machine import kernel_refusal
from tests.mcp_server.tool import Bench, way


@pytest.fixture(params=["wrapper", "kernel"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A bench for each way to see execs."""
    yield from bench_in(tmp_path, request.param)


@pytest.fixture
def any_bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench for what is the same whatever the way."""
    yield from bench_in(tmp_path, "kernel" if kernel_refusal() is None else "wrapper")


@pytest.fixture
def wrapper_bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench for what concerns the wrapper's way only."""
    yield from bench_in(tmp_path, "wrapper")


def bench_in(folder: Path, name: str) -> Iterator[Bench]:
    """A bench on which no process may be left when the test ends."""
    bench = Bench(way(name), folder.resolve())
    bench.workdir.mkdir()
    yield bench
    try:
        wait_until(lambda: not marked(bench.mark), "the end of every process of the test")
    finally:
        kill_marked(bench.mark)
