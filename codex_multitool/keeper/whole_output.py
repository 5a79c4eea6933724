"""The whole of what a command printed, in a file of its front's, where not all of it is kept.

What goes wrong with the file is told, and is no failure of the command.
"""

import os

from codex_multitool.keeper import protocol
from codex_multitool.keeper.front import Front
from codex_multitool.loop import Loop, Running, Task, Wait

MAX_FILE = 64 << 20
_DUE = 1 << 20  # bytes worth a write


class WholeOutput:
    """One command's. path: where it is, once `finish` is through; None if there is none.

    note: what is to be said.
    """

    def __init__(self, front: Front, loop: Loop) -> None:
        self._front = front
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = self._unwritten = self._room = 0
        self._cut = self._failed = False
        self._fd = -1
        self._writing: Running | None = None
        self.path: str | None = None
        self.note = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._failed:
            return
        room = MAX_FILE - self._size
        if len(data) > room:
            self._cut = True
            data = data[:room]
        if data:
            self._size += len(data)
            self._unwritten += len(data)
            self._waiting.append(data)
        if self._writing is None or (self._writing.done.is_set and self._unwritten >= _DUE):
            self._writing = self._loop.start(self._write_all())

    def finish(self) -> Task[None]:
        """No more comes."""
        if self._writing is None:
            return
        yield Wait(event=self._writing.done)
        yield from self._write_all()
        if self._cut and not self._failed:
            self.note = f"the file with the output ends after {MAX_FILE >> 20} MiB"
        self.close()

    def close(self) -> None:
        """Give up the descriptor; the file stays."""
        if self._writing is not None:
            self._writing.cancel()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write_all(self) -> Task[None]:
        """Write what waits, when there is room for it."""
        while self._waiting:
            if self._fd < 0:
                (self.path, told), self._fd = yield from self._front.ask(protocol.WantFile)
                self._give(0 if self.path is None else told, told)
            elif self._size > self._room:
                (more, why), _ = yield from self._front.ask(protocol.WantRoom)
                self._give(more, why)
            else:
                self._write()

    def _give(self, more: int, why: str) -> None:
        if more:
            self._room += more
        else:
            self._fail(why)

    def _write(self) -> None:
        pieces, self._waiting, self._unwritten = self._waiting, [], 0
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._fail(os.strerror(error.errno or 0))

    def _fail(self, reason: str) -> None:
        self._failed = True
        self._waiting.clear()
        self.path = None
        self.note = f"what was left out of the output is in no file: {reason}"
