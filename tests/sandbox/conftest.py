"""What the sandbox's tests share ends with them."""

from collections.abc import Iterator

import pytest

from tests.sandbox import confined


@pytest.fixture(scope="session", autouse=True)
def _workspaces() -> Iterator[None]:
    yield
    confined.close()
