"""A keeper's end of the socket to its front: what it says, asks for, and is answered."""

import os
import socket
from collections.abc import Callable
from typing import Any

from codex_multitool.interception.rights import receive
from codex_multitool.keeper import frames, protocol
from codex_multitool.loop import Event, Loop, Task, Wait

_CHUNK = 1 << 16


class _Open:
    """A message that waits for its answer."""

    __slots__ = ("came", "descriptor", "value")

    def __init__(self) -> None:
        self.came = Event()
        self.value: Any = None
        self.descriptor = -1


class Front:
    """The front of one keeper. obey: takes what is no answer, and the descriptors with it.

    gone: called once, when it has closed its end.
    """

    def __init__(
        self,
        connection: socket.socket,
        loop: Loop,
        obey: Callable[[Any, list[int]], None],
        gone: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._obey = obey
        self._gone = gone
        self._decoder = frames.Decoder()
        self._descriptors: list[list[int]] = []
        self._open: dict[int, _Open] = {}
        self._numbers = 0
        loop.watch(connection.fileno(), self._hear)

    def tell(self, *messages: protocol.Message) -> None:
        """Say something."""
        try:
            self._connection.sendall(b"".join(map(frames.encode, messages)))
        except OSError:
            pass  # it has gone; the loop sees that too

    def ask(self, message: Callable[[int], protocol.Message]) -> Task[tuple[Any, int]]:
        """The answer to a message, made with its number: the value, and a descriptor or -1.

        The descriptor is the caller's to close.
        """
        self._numbers += 1
        number = self._numbers
        opened = self._open[number] = _Open()
        try:
            self.tell(message(number))
            yield Wait(event=opened.came)
        finally:
            del self._open[number]
            if not opened.came.is_set:
                self.tell(protocol.Withdrawn(number))
        return opened.value, opened.descriptor

    def _hear(self, _: int) -> None:
        try:
            data, fds = receive(self._connection, _CHUNK, protocol.MAX_DESCRIPTORS)
        except ConnectionResetError:
            data, fds = b"", []
        if not data:
            self._loop.forget(self._connection.fileno())
            self._gone()
            return
        if fds:
            self._descriptors.append(fds)
        for message in self._decoder.feed(data):
            if isinstance(message, protocol.Answer):
                self._answered(message)
            else:
                wanted = isinstance(message, protocol.Order) and message.size is None
                self._obey(message, self._descriptors.pop(0) if wanted else [])

    def _answered(self, answer: protocol.Answer) -> None:
        fds = self._descriptors.pop(0) if answer.descriptor else []
        opened = self._open.get(answer.number)
        if opened is None:
            for fd in fds:  # whoever asked has been cancelled
                os.close(fd)
            return
        opened.value = answer.value
        opened.descriptor = fds[0] if fds else -1
        opened.came.set()
