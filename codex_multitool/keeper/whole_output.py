"""The whole of what a command printed, in a file of its front's, where not all of it is kept.

What goes wrong with the file is told, and is no failure of the command.
"""

import os

from codex_multitool.keeper import protocol
from codex_multitool.keeper.front import Front
from codex_multitool.loop import Event, Loop, Running, Task, Wait

MAX_FILE = 64 << 20
_DUE = 1 << 20  # bytes worth a write


class WholeOutput:
    """One command's. path: where it is, once `finish` is through; None if there is none.

    note: what is to be said. written: bytes in it.
    """

    def __init__(self, front: Front, loop: Loop) -> None:
        self._front = front
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = self._unwritten = self.written = 0
        self._cut = self._failed = False
        self._room = MAX_FILE
        self._fd = -1
        self._asking: Running | None = None
        self._answered = Event()
        self.path: str | None = None
        self.note = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._asking is None:
            self._asking = self._loop.start(self._ask())
        room = self._room - self._size
        if len(data) > room:
            self._cut = True
            data = data[:room]
        if data and not self._failed:
            self._size += len(data)
            self._unwritten += len(data)
            self._waiting.append(data)
            if self._fd >= 0 and self._unwritten >= _DUE:
                self._write()

    def _ask(self) -> Task[None]:
        (path, told), self._fd = yield from self._front.ask(protocol.WantFile)
        if path is None:
            self._fail(told)
        else:
            self.path, self._room = path, told
        self._answered.set()

    def finish(self) -> Task[None]:
        """No more comes."""
        if self._asking is None:
            return
        yield Wait(event=self._answered)
        if self._size > self._room:
            self._cut = True
        if self._cut and not self._failed:
            self.note = f"the file with the output ends after {self._room >> 20} MiB"
        self._write()
        self.close()

    def close(self) -> None:
        """Give up the descriptor; the file stays."""
        if self._asking is not None:
            self._asking.cancel()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self) -> None:
        pieces, self._waiting, self._unwritten = self._waiting, [], 0
        if self._failed:
            return
        try:
            for piece in pieces:
                view = memoryview(piece)[: self._room - self.written]
                while view:
                    count = os.write(self._fd, view)
                    self.written += count
                    view = view[count:]
        except OSError as error:
            self._fail(os.strerror(error.errno or 0))

    def _fail(self, reason: str) -> None:
        self._failed = True
        self._waiting.clear()
        self.path = None
        self.note = f"what was left out of the output is in no file: {reason}"
