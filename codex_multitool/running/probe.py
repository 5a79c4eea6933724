"""Does kernel interception work here? Tried, not guessed: one real exec is judged and watched.

The trial is a process of its own: it goes on while the server loads what it needs, and what it
needs itself is in nobody else's memory.
"""

import os
import select
import signal
from typing import NoReturn

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

_SECONDS = 10.0
_WORKS = b"+"
_MOST = 4096  # bytes of a reason


class Probe:
    """One trial, begun at once. To be made before any thread is started, and asked or closed."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe2(os.O_CLOEXEC)
        self._pid = os.fork()
        if self._pid == 0:
            _be_trial(writer)
        os.close(writer)

    def refusal(self) -> str | None:
        """Why kernel interception is not to be had here; None if it works. To be asked once."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        try:
            if not poll.poll(_SECONDS * 1000):
                return "it does not answer"
            told = os.read(self._reader, _MOST)
        finally:
            self.close()
        if not told:
            return "the trial of it was ended"
        return None if told == _WORKS else told.decode(errors="replace")

    def close(self) -> None:
        """End the trial."""
        if self._pid:
            os.close(self._reader)
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def _be_trial(writer: int) -> NoReturn:
    try:
        _prctl.prctl(_prctl.PR_SET_NAME, "codex-trial")
        _prctl.prctl(_prctl.PR_SET_PDEATHSIG, signal.SIGKILL)
        from codex_multitool.running.trial import refusal

        os.write(writer, os.fsencode(refusal() or "")[:_MOST] or _WORKS)
    except Exception as error:  # noqa: BLE001 — whatever it is, it does not work
        os.write(writer, f"{type(error).__name__}: {error}".encode(errors="replace")[:_MOST])
    finally:
        os._exit(0)
