"""Servers that several tests use one after the other: a test's box is where their commands work."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.end_to_end.client import Answer, Client, accept
from tests.end_to_end.processes import kill_marked
from tests.end_to_end.rig import READ_ONLY, Box, Pairing, Start, enforce, make_box

_Kind = tuple[Pairing, str, Answer]


class Servers:
    """Each with the home of a box of its own in `folder`, which tells its processes, too."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._clients: dict[_Kind, Client] = {}
        self._count = 0

    def of(self, kind: _Kind) -> Client:
        """That of this kind; another one where it has ended."""
        client = self._clients.get(kind)
        if client is None or client.process.poll() is not None:
            pairing, rules, answer = kind
            self._count += 1
            home = make_box(self._folder / str(self._count))
            self._stack.callback(kill_marked, home.mark)  # the original leaves processes behind
            start = Start(home, self._stack)
            client = start(pairing, rules=rules, answer=answer, policy=None)
            self._clients[kind] = client
        return client


class Share:
    """Lends servers to one test, whose box has neither their home nor their mark."""

    def __init__(self, box: Box, servers: Servers) -> None:
        self._box = box
        self._servers = servers

    def __call__(
        self,
        pairing: Pairing,
        *,
        rules: str = "",
        answer: Answer = accept,
        policy: dict[str, Any] = READ_ONLY,
    ) -> Client:
        """A server in whose questions there is none of another test's."""
        client = self._servers.of((pairing, rules, answer))
        client.workdir = self._box.ws
        client.questions.clear()
        enforce(client, pairing, self._box, policy)
        return client
