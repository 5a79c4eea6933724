"""Questions to the human at the controlling terminal, one at a time."""

import errno
import math
import os
import signal
import termios
import time

from codex_multitool.cli.exec_tree import one_line
from codex_multitool.escalation.protected import told
from codex_multitool.escalation.question import Question
from codex_multitool.loop import Event, Task, Wait
from codex_multitool.running import quoting

_CHUNK = 4096
_LFLAG = 3  # of what tcgetattr returns
_Answer = tuple[str, str | None]
ACCEPT, DECLINE, CANCEL, UNAVAILABLE = "accept", "decline", "cancel", "unavailable"


class Human:
    """Whoever sits at the terminal. rules_file: where the user may add rules; colour: whether it
    is used. patience: how many seconds a question waits, perhaps inf.
    """

    def __init__(self, rules_file: str, *, colour: bool, patience: float = math.inf) -> None:
        self._rules_file = rules_file
        self._patience = patience
        self._bold, self._plain = ("\x1b[1m", "\x1b[m") if colour else ("", "")
        self._accepted: set[tuple[str, tuple[str, ...]]] = set()
        self._over: Event | None = None  # set when the question that stands has its answer
        self._interrupted = Event()

    def interrupt(self) -> None:
        """Give up the question that stands, if one does, as Ctrl-C does."""
        self._interrupted.set()

    def ask(self, question: Question) -> Task[_Answer]:
        """The answer, as `Context.ask` wants it."""
        while self._over is not None:
            yield Wait(event=self._over)
        over = self._over = Event()
        try:
            return (yield from self._put(question))
        finally:
            self._over = None
            over.set()

    def _put(self, question: Question) -> Task[_Answer]:
        if (question.program, question.argv) in self._accepted and not question.changes:
            return ACCEPT, None
        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return UNAVAILABLE, f"there is no terminal to ask at; {self._mend(question)}"
        try:
            return (yield from self._asked(terminal, question))
        except OSError as error:
            return UNAVAILABLE, f"the terminal is gone: {error.strerror}"
        finally:
            os.close(terminal)

    def _mend(self, question: Question) -> str:
        if question.changes:
            return "undo that, or let the user run it at a terminal"
        if question.outside:
            return f'{question.because} asks: only the user can give it decision="allow"'
        return f"only the user can allow it: an allow rule in {self._rules_file} is obeyed unasked"

    def _asked(self, terminal: int, question: Question) -> Task[_Answer]:
        if not _foreground(terminal):
            return UNAVAILABLE, "this is a background job of the terminal's shell"
        before = termios.tcgetattr(terminal)
        asking = termios.tcgetattr(terminal)
        asking[_LFLAG] |= termios.ICANON | termios.ECHO | termios.ISIG
        # What was typed before the question stood there is no answer to it.
        termios.tcsetattr(terminal, termios.TCSAFLUSH, asking)
        self._interrupted = Event()
        try:
            return (yield from self._dialogue(terminal, question))
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _dialogue(self, terminal: int, question: Question) -> Task[_Answer]:
        until = time.monotonic() + self._patience
        _say(terminal, self._text(question))
        # What has been changed is agreed to each time: nothing is remembered with it.
        more, letters = ("", "y/N") if question.changes else ("s: for this run   ", "y/s/N")
        while True:
            _say(terminal, f"  y: once   {more}n: no   [{letters}] > ")
            line = yield from self._line(terminal, until)
            if line is None and not self._interrupted.is_set:
                _say(terminal, "\n")
                return UNAVAILABLE, f"nobody answered within {self._patience:g} seconds"
            if line is None:
                return CANCEL, "interrupted"
            if not line:
                _say(terminal, "\n")
                return CANCEL, None
            match line.strip().lower():
                case "y" | "yes" | "once":
                    return ACCEPT, None
                case "s" | "session" if not question.changes:
                    self._accepted.add((question.program, question.argv))
                    return ACCEPT, None
                case "" | "n" | "no":
                    return DECLINE, None
                case _:
                    pass  # ask again

    def _line(self, terminal: int, until: float) -> Task[str | None]:
        """One line, its end included; empty at the end of input. None: interrupted, or too late."""
        os.set_blocking(terminal, False)
        while True:
            came = yield Wait(readable=terminal, event=self._interrupted, until=until)
            if not came or self._interrupted.is_set:
                return None
            try:
                return os.fsdecode(os.read(terminal, _CHUNK))
            except BlockingIOError:
                continue  # the command, which has the same terminal for stdin, was faster

    def _text(self, question: Question) -> str:
        command = quoting.command_line(question.program, question.argv[1:])
        where = quoting.directory(question.workdir)
        place = "outside the sandbox" if question.outside else "in the sandbox"
        lines = [
            f"\n{self._bold}Run {command}{self._plain}",
            f"  in {where}, {place}?",
            f"  asked by: {one_line(question.because)}",
        ]
        if question.changes:
            lines.append(f"  beware: {told(question.changes, quoting.path)}")
        elif question.outside:
            lines.append('  that rule, with decision="allow", would not ask')
        return "\n".join(lines) + "\n"


def _foreground(terminal: int) -> bool:
    """Whether we may talk at the terminal; a background job stops here until it may, as read(2)."""
    if os.tcgetpgrp(terminal) == os.getpgrp():
        return True
    os.kill(os.getpid(), signal.SIGTTIN)
    return os.tcgetpgrp(terminal) == os.getpgrp()


def _say(terminal: int, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    while data:
        try:
            data = data[os.write(terminal, data) :]
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
