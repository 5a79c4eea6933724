"""A program in a terminal of tmux's: what a human sees, and the keys a human presses."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

DEADLINE = 60.0  # seconds; nothing that works takes this long, on a loaded machine either
_PAUSE = 0.05
_PATIENCE = 5.0  # before a key is pressed again
COLUMNS, ROWS = 150, 50


# Frames, and what points at a choice.
_DRAWN = {**dict.fromkeys(map(ord, "│┃▌▎║"), " "), 0x203A: ">", 0x276F: ">"}

Seen = Callable[[str], bool]


def shown(*texts: str) -> Seen:
    """All of these are on the screen."""
    return lambda seen: all(text in seen for text in texts)


def gone(*texts: str) -> Seen:
    """They are no longer on it together."""
    return lambda seen: not all(text in seen for text in texts)


class Screen:
    """Runs one program in a tmux server of its own."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, socket: Path
    ) -> None:
        self._tmux = [shutil.which("tmux") or "tmux", "-S", str(socket), "-f", "/dev/null"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        started = subprocess.run(
            [*self._tmux, "new-session", "-dPF#{pane_pid}", *size, "-c", str(cwd), "--", *command],
            env=dict(env),
            stdout=subprocess.PIPE,
            check=True,
            timeout=DEADLINE,
        )
        self._program = int(started.stdout)
        self._ended = os.pidfd_open(self._program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
            # It still writes into its home as it ends.
            if not select.select([self._ended], [], [], DEADLINE)[0]:
                os.kill(self._program, signal.SIGKILL)
        finally:
            os.close(self._ended)

    def text(self) -> str:
        """What is on the screen, each run of blanks and ends of lines as one blank.

        Programs break lines where they like; what they draw around a box is left out.
        """
        command = [*self._tmux, "capture-pane", "-p", "-J"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return " ".join(done.stdout.translate(_DRAWN).split())

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True, timeout=DEADLINE)

    def press_until(self, key: str, seen: Seen) -> None:
        """Press a key until this is so of the screen: what is just drawn may not listen yet."""
        for _ in range(int(DEADLINE / _PATIENCE)):
            self.press(key)
            if self._wait(seen, _PATIENCE) is not None:
                return
        raise AssertionError(f"{key} does nothing: {self.text()!r}")

    def until(self, seen: Seen) -> str:
        """Wait until this is so of what is on the screen, and give that."""
        text = self._wait(seen, DEADLINE)
        assert text is not None, f"not to be seen: {self.text()!r}"
        return text

    def _wait(self, seen: Seen, seconds: float) -> str | None:
        deadline = time.monotonic() + seconds
        while not seen(text := self.text()):
            if time.monotonic() > deadline:
                return None
            time.sleep(_PAUSE)
        return text
