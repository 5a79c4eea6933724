"""The fixtures of the end-to-end cases: a box of folders, and servers started in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.processes import kill_marked
from tests.end_to_end.rig import Box, Start, make_box
from tests.end_to_end.shared import Servers, Share


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """The test's folders; whatever process it leaves behind is ended."""
    box = make_box(tmp_path / "box")
    yield box
    kill_marked(box.mark)


@pytest.fixture
def start(box: Box) -> Iterator[Start]:
    """Start a server; when the test ends it has to end, leaving no process."""
    with ExitStack() as stack:
        yield Start(box, stack)


@pytest.fixture(scope="module")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path_factory.mktemp("servers"), stack)


@pytest.fixture
def share(box: Box, _servers: Servers) -> Share:
    """Have a server of the module's tests; that it ends, leaving no process, is seen after them."""
    return Share(box, _servers)
