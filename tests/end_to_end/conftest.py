"""The fixtures of the end-to-end cases: a box of folders, and servers started in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.processes import kill_marked
from tests.end_to_end.rig import Box, Start, make_box


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
