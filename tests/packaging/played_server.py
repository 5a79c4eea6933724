"""A server of exec requests that a test plays: real sockets, answers as the test has them."""

import array
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from codex_multitool.escalation import requests, wire

RUN = wire.frame({"action": "Run", wire.EXTENSION: wire.EXTENSION_VERSION})
PATIENCE = 60.0

Answer = bytes | Callable[[wire.EscalateRequest], bytes]


class PlayedServer:
    """Answers each request in turn with the same bytes, or with what a function makes of it.

    requests: what was asked so far. number: of the socket to ask on. lent: a descriptor that goes
    along with every answer.
    """

    def __init__(self, answer: Answer = RUN, lent: int | None = None) -> None:
        self.requests: list[wire.EscalateRequest] = []
        self._answer = answer
        self._lent = lent
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._theirs.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._theirs.close()
        self._ours.close()

    @property
    def number(self) -> int:
        return self._theirs.fileno()

    def environment(self, wrapper: str) -> dict[str, str]:
        """What a shell needs to ask here."""
        return {
            wire.SOCKET_VARIABLE: str(self.number),
            wire.SHELL_SOCKET_VARIABLE: str(self.number),
            wire.WRAPPER_VARIABLE: wrapper,
        }

    def _serve(self) -> None:
        while True:
            data, fds, _, _ = socket.recv_fds(self._ours, 16, 4)
            if not data:
                return
            assert data == wire.HANDSHAKE
            (fd,) = fds
            with socket.socket(fileno=fd) as stream, suppress(ConnectionError):
                stream.settimeout(PATIENCE)
                self._converse(stream)

    def _converse(self, stream: socket.socket) -> None:
        request = requests.decode_request(_frame(stream))
        self.requests.append(request)
        answer = self._answer if isinstance(self._answer, bytes) else self._answer(request)
        rights = [] if self._lent is None else [array.array("i", [self._lent])]
        if answer:
            lent = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, right) for right in rights]
            stream.sendmsg([answer], lent)


def _frame(stream: socket.socket) -> bytes:
    length = wire.payload_length(_exactly(stream, wire.HEADER_SIZE))
    return _exactly(stream, length)


def _exactly(stream: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = stream.recv(length - len(data))
        if not chunk:
            raise ConnectionError
        data += chunk
    return bytes(data)


def words(request: wire.EscalateRequest) -> list[bytes]:
    """The request's argv as the bytes it was made of."""
    return [os.fsencode(word) for word in request.argv]
