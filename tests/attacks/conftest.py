"""What the attacks share: their programs, and servers to be attacked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attacks import programs
from tests.attacks.target import RULES, Served
from tests.end_to_end import rig
from tests.end_to_end.client import Answer, ServerGoneError, accept

MODES = ("kernel", "wrapper")


@pytest.fixture(scope="session")
def built() -> Iterator[Path]:
    """The folder of the attacks' programs."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        try:
            programs.build(Path(folder).resolve())
        except programs.Unavailable as reason:
            pytest.skip(str(reason))
        yield Path(folder).resolve()


def served(
    mode: str,
    root: Path,
    built: Path,
    *options: str,
    prefix: tuple[str, ...] = (),
    rules: str = RULES,
    answer: Answer = accept,
) -> Served:
    """Our server in this mode. prefix: what starts it."""
    files = rig.programs(rig.Pairing())
    command = [*prefix, str(files.server), f"--intercept={mode}", *options]
    if mode == "wrapper":
        command += ["--shell", str(files.shell), "--execve", str(files.wrapper)]
    try:
        return Served(root, built, command, rules=rules, answer=answer)
    except ServerGoneError as reason:
        pytest.skip(f"--intercept={mode} is not to be had: {reason}")


class Serve:
    """Starts servers for one test and ends them after it."""

    def __init__(self, built: Path, stack: ExitStack) -> None:
        self._built = built
        self._stack = stack

    def __call__(
        self,
        mode: str,
        *options: str,
        mount: tuple[str, ...] = (),
        rules: str = RULES,
        answer: Answer = accept,
    ) -> Served:
        """A server in a place of its own. mount: what starts it, given that place first."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="attacks-"))
        root = Path(folder).resolve() / mode
        prefix = (*mount, str(root)) if mount else ()
        server = served(
            mode, root, self._built, *options, prefix=prefix, rules=rules, answer=answer
        )
        self._stack.callback(server.close)
        return server


@pytest.fixture
def serve(built: Path) -> Iterator[Serve]:
    """Start a server; when the test ends it has to end."""
    with ExitStack() as stack:
        yield Serve(built, stack)
