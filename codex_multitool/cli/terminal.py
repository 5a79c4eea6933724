"""Questions to the human at the controlling terminal, one at a time."""

import errno
import math
import os
import signal
import termios

import trio

from codex_multitool.cli.exec_tree import one_line
from codex_multitool.escalation.context import Question
from codex_multitool.escalation.protected import told
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
        self._turn = trio.Lock()
        self._scope: trio.CancelScope | None = None
        self._interrupted = False

    def interrupt(self) -> bool:
        """Give up the question that stands, as Ctrl-C does; returns whether there was one."""
        if self._scope is None:
            return False
        self._interrupted = True
        self._scope.cancel()
        return True

    async def ask(self, question: Question) -> _Answer:
        """The answer, as `Context.ask` wants it."""
        async with self._turn:
            if (question.program, question.argv) in self._accepted and not question.changes:
                return ACCEPT, None
            try:
                terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            except OSError:
                return UNAVAILABLE, f"there is no terminal to ask at; {self._mend(question)}"
            try:
                return await self._asked(terminal, question)
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

    async def _asked(self, terminal: int, question: Question) -> _Answer:
        if not _foreground(terminal):
            return UNAVAILABLE, "this is a background job of the terminal's shell"
        before = termios.tcgetattr(terminal)
        asking = termios.tcgetattr(terminal)
        asking[_LFLAG] |= termios.ICANON | termios.ECHO | termios.ISIG
        # What was typed before the question stood there is no answer to it.
        termios.tcsetattr(terminal, termios.TCSAFLUSH, asking)
        self._interrupted = False
        answer: _Answer = (CANCEL, "interrupted")
        try:
            with trio.move_on_after(self._patience) as self._scope:
                answer = await self._dialogue(terminal, question)
            if self._scope.cancelled_caught and not self._interrupted:
                _say(terminal, "\n")
                answer = (UNAVAILABLE, f"nobody answered within {self._patience:g} seconds")
        finally:
            self._scope = None
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        return answer

    async def _dialogue(self, terminal: int, question: Question) -> _Answer:
        _say(terminal, self._text(question))
        # What has been changed is agreed to each time: nothing is remembered with it.
        more, letters = ("", "y/N") if question.changes else ("s: for this run   ", "y/s/N")
        while True:
            _say(terminal, f"  y: once   {more}n: no   [{letters}] > ")
            line = await _line(terminal)
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


async def _line(terminal: int) -> str:
    """One line, its end included; empty at the end of input."""
    os.set_blocking(terminal, False)
    while True:
        await trio.lowlevel.wait_readable(terminal)
        try:
            return os.fsdecode(os.read(terminal, _CHUNK))
        except BlockingIOError:
            continue  # the command, which has the same terminal for stdin, was faster


def _say(terminal: int, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    while data:
        try:
            data = data[os.write(terminal, data) :]
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
