"""A short soak: no process that executes is left undead by SIGKILL, and the server stays as it is.

The whole of it, for as long as one likes, is `make soak`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.executables import built
from tests.soak.__main__ import MODES, Place, Server, by_exec

WORDS = ("250", "7", "0", "2000")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    return Place.in_folder(tmp_path_factory.mktemp("soak"), built())


@pytest.fixture(scope="module", params=MODES)
def server(place: Place, request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(place, request.param)
    yield server
    server.client.close()


@pytest.mark.parametrize("mode", MODES)
def test_exec_sees_every_storm_to_its_end(place: Place, mode: str) -> None:
    total = by_exec(place, mode, list(WORDS))
    assert total["killed"] > 0
    assert total["ran"] > 0


def test_a_server_is_after_a_storm_as_before(server: Server) -> None:
    total = server.storm(list(WORDS))
    assert total["killed"] > 0
    assert total["ran"] > 0
