"""Does kernel interception work here? Tried, not guessed: one real exec is judged and watched.

The trial is a process of its own: it goes on while others load what they need.
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
    """One trial, begun here or by a fork of this process. To be asked or closed.

    writer: on which the trial answers, until it is begun.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self._pid = 0

    def begin(self) -> "Probe":
        """Begin it; before any thread is started. Raises OSError."""
        pid = os.fork()
        if pid == 0:
            _be_trial(self.writer)
        self._pid = pid
        self.left_to_others()
        return self

    def left_to_others(self) -> None:
        """The end that the trial answers on is not needed here any more."""
        os.close(self.writer)
        self.writer = -1

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
        """Ask no more; and end the trial, if it was begun here."""
        for descriptor in (self._reader, self.writer):
            if descriptor >= 0:
                os.close(descriptor)
        self._reader = self.writer = -1
        if self._pid:
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
