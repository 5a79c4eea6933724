"""Houses of keepers: one of ours and one of an ordinary user's for all tests of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.keeper.driver import House, Keeper, needs_listeners, somebody


@pytest.fixture(scope="session")
def _houses() -> Iterator[dict[str, House]]:
    needs_listeners()
    houses = {"ours": House(), "ordinary": House(somebody())}
    try:
        yield houses
    finally:
        for house in houses.values():
            house.close()


@pytest.fixture(params=["ours", "ordinary"])
def house(request: pytest.FixtureRequest, _houses: dict[str, House]) -> Iterator[House]:
    """A house whose keepers are gone after the test, with all below them."""
    found = _houses[request.param]
    yield found
    found.release()


@pytest.fixture
def ordinary(_houses: dict[str, House]) -> Iterator[House]:
    """That of an ordinary user, who has no other process."""
    found = _houses["ordinary"]
    yield found
    found.release()


@pytest.fixture
def keeper(house: House) -> Iterator[Keeper]:
    """A keeper, of which nothing may be left open."""
    found = house.keeper()
    with tidy(found):
        yield found


@contextmanager
def tidy(keeper: Keeper) -> Iterator[None]:
    """Nothing is left of what its commands do, once they are over."""
    keeper.run(":")
    keeper.settled()
    before = len(keeper.descriptors())
    yield
    keeper.settled()
    # Of a spawner: its channel, its listener, the list of its children.
    allowed = before + 3 * max(len(keeper.spawners()) - 1, 0)
    assert len(keeper.descriptors()) <= allowed, keeper.descriptors()


@pytest.fixture
def folder(house: House) -> Iterator[Path]:
    """A folder of the house's user."""
    with tempfile.TemporaryDirectory(prefix="keeper-", dir="/var/tmp") as made:
        path = Path(made).resolve()
        house.own(path)
        yield path
