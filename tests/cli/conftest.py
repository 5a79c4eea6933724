"""What the tests of `exec` share."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.exec_ground import Ground
from tests.end_to_end.processes import CONFIG, kill_marked
from tests.machine import kernel_refusal


@pytest.fixture
def ground() -> Iterator[Ground]:
    if kernel_refusal() is not None:
        pytest.skip(f"no kernel interception: {kernel_refusal()}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        made = Ground(Path(folder).resolve(), str(uuid.uuid4()))
        made.home.mkdir()
        (made.home / "config.toml").write_text(CONFIG)
        made.workspace.mkdir()
        yield made
        kill_marked(made.mark)
