"""A program in a pseudo-terminal of its own, as a human has it before them."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

DEADLINE = 60.0  # seconds; nothing that works takes this long
INTERRUPT, QUIT, SUSPEND, END = b"\x03", b"\x1c", b"\x1a", b"\x04"


class Terminal:
    """Runs one program; `seen` is everything it has shown."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str], cwd: Path) -> None:
        self.seen = ""
        self._from = 0
        self._status: int | None = None
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execve(command[0], list(map(str, command)), dict(env))
            finally:
                os._exit(126)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def until(self, text: str) -> None:
        """Wait until `text` is shown after whatever was waited for before."""
        deadline = time.monotonic() + DEADLINE
        start = self._from
        while (found := self.seen.find(text, start)) < 0:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.seen[start:]!r}"
            assert self._read(), f"it ended without {text!r}: {self.seen[start:]!r}"
        self._from = found + len(text)

    def stopped(self) -> None:
        """Wait until the program is stopped by a signal."""
        deadline = time.monotonic() + DEADLINE
        while True:
            pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
            if pid:
                assert os.WIFSTOPPED(status), status
                return
            assert time.monotonic() < deadline, "it does not stop"
            time.sleep(0.01)

    def status(self) -> int:
        """Wait for the end; the exit status."""
        deadline = time.monotonic() + DEADLINE
        while self._read():
            assert time.monotonic() < deadline, self.seen
        while self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.01)
        return self._status

    def _read(self) -> bool:
        """Take what is shown within a moment; False at the end."""
        if not select.select([self._master], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # EIO: nobody has the terminal open any more
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
