"""A file that a program outside may read, and only that: it gets a pipe, which we fill."""

import fcntl
import os
import termios

from codex_multitool.loop import Loop, Task, Wait

_CHUNK = 1 << 16


class Feeding:
    """file: a regular one, open for reading. reader: the end for the program; `end` closes it.

    What the program reads is read for whoever shares the open file: when it has ended, the offset
    has gone on by that much, for a shell's loop, say, that reads its lines from the same file.
    """

    def __init__(self, loop: Loop, file: int) -> None:
        self._file = file
        self._begin = os.lseek(file, 0, os.SEEK_CUR)
        self._written = 0
        self.reader, self._writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writer, False)
        self._running = loop.start(self._feed())

    def end(self) -> None:
        """The program has ended; again, it is nothing."""
        if self.reader < 0:
            return
        self._running.cancel()
        self._close()
        left = bytearray(4)
        fcntl.ioctl(self.reader, termios.FIONREAD, left)  # pipe(7)
        read = self._written - int.from_bytes(left, "little")
        os.lseek(self._file, self._begin + read, os.SEEK_SET)
        os.close(self.reader)
        self.reader = -1

    def _feed(self) -> Task[None]:
        try:
            while data := os.pread(self._file, _CHUNK, self._begin + self._written):
                yield Wait(writable=self._writer)
                # What a full pipe does not take is read once more.
                self._written += os.write(self._writer, data)
        except OSError:
            pass  # of what cannot be read there is no more
        self._close()

    def _close(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
