"""The execs of one command as a tree, for a terminal and for JSON — pure."""

import re
import signal
from collections.abc import Sequence
from os.path import basename

from codex_multitool.interception.architecture import FOREIGN
from codex_multitool.running import quoting

_COLOURS = {"run": "32", "escalate": "33", "deny": "31"}
_WORDS = {"run": "inside", "escalate": "OUTSIDE", "deny": "DENIED"}
_FAINT = "2"
_MAX_COMMAND = 160  # characters of one command line
_LEAST_COMMAND = 40  # however narrow the terminal is


class Exec:
    """One exec. decision: run, escalate or deny, as in the results of the server.

    caller: index of the exec whose process, or a fork of it, did this one; None for the first.
    reason: the rule or why not, may be empty. asked: whether a human was. prompt: the rule that
    asks, if one does. trusted: whether an allow rule could lift it out of the sandbox. started,
    ended: seconds since the start of the command; status: as wait(2) has it; each None where it is
    not known. replaced: by the next exec of its process.
    """

    def __init__(
        self,
        pid: int,
        caller: int | None,
        program: str,
        argv: tuple[str, ...],
        decision: str,
        reason: str,
        *,
        asked: bool,
        prompt: str | None,
        trusted: bool,
        started: float,
        ended: float | None = None,
        status: int | None = None,
        replaced: bool = False,
    ) -> None:
        self.pid = pid
        self.caller = caller
        self.program = program
        self.argv = argv
        self.decision = decision
        self.reason = reason
        self.asked = asked
        self.prompt = prompt
        self.trusted = trusted
        self.started = started
        self.ended = ended
        self.status = status
        self.replaced = replaced


def rendered(
    execs: Sequence[Exec], *, colour: bool, width: int | None = None, plumbing: bool = False
) -> str:
    """The tree, a line for each exec.

    width: columns that a line should fit. plumbing: the first is a shell of ours that the command
    was to replace; where it has, it is left out.
    """
    below: dict[int | None, list[int]] = {}
    for index, found in enumerate(execs):
        below.setdefault(found.caller, []).append(index)
    lines: list[str] = []
    # A stack, not recursion: a chain of execs may be longer than Python's.
    first: int | None = 0 if plumbing and execs and execs[0].replaced else None
    waiting = [(index, "", "") for index in reversed(below.get(first, []))]
    while waiting:
        index, own, inner = waiting.pop()
        room = None if width is None else width - len(own)
        lines.append(own + _line(execs[index], colour=colour, room=room))
        children = below.get(index, [])
        for child in reversed(children):
            last = child == children[-1]
            waiting.append(
                (child, inner + ("└─ " if last else "├─ "), inner + ("   " if last else "│  "))
            )
    return "".join(line + "\n" for line in lines)


def to_objects(execs: Sequence[Exec]) -> list[dict[str, object]]:
    """The execs for JSON, in the order in which they were judged."""
    return [
        {
            "pid": found.pid,
            "caller": found.caller,
            "program": printable(found.program),
            "argv": [printable(word) for word in found.argv],
            "decision": found.decision,
            "reason": printable(found.reason) or None,
            "asked": found.asked,
            "exit_code": None if found.status is None else exit_code(found.status),
            "seconds": None if found.ended is None else round(found.ended - found.started, 6),
        }
        for found in execs
    ]


def printable(text: str) -> str:
    """Text that JSON can carry: what was no UTF-8 in a path or an argument is replaced."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def one_line(text: str) -> str:
    """Text that a terminal or a comment can carry: nothing in it acts on either."""
    return "".join(c if c.isprintable() else "\ufffd" for c in printable(text))


def exit_code(status: int) -> int:
    """What a shell makes of a wait status: 128 + n after signal n."""
    number = status & 0x7F
    return 128 + number if number else status >> 8


def signal_name(status: int) -> str | None:
    """The name of the signal that ended it, if one did."""
    number = status & 0x7F
    return signal.Signals(number).name if number in set(signal.Signals) else None


def _line(found: Exec, *, colour: bool, room: int | None) -> str:
    def painted(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[m" if colour else text

    command = quoting.command_line(found.program, found.argv[1:])
    pid, word, end = str(found.pid), _WORDS[found.decision], _end(found)
    remarks = (_called(found), "asked" if found.asked else "", one_line(found.reason), _why(found))
    why = "; ".join(filter(None, remarks))
    most = _MAX_COMMAND
    if room is not None:
        others = len("  ".join((pid, word, "", end))) + (len(why) + 4 if why else 0)
        most = max(_LEAST_COMMAND, min(most, room - others))
    if len(command) > most:
        command = command[: most - 1] + "…"
    parts = [
        painted(pid, _FAINT),
        painted(word, _COLOURS[found.decision]),
        command,
        painted(end, _FAINT if not found.status else "31"),
    ]
    return "  ".join([*parts, f"({why})"] if why else parts)


def _called(found: Exec) -> str:
    """By which other name it was called: many a program does what its name says."""
    name = basename(found.argv[0]).removeprefix("-") if found.argv else ""
    return f"called {quoting.word(name)}" if name and name != basename(found.program) else ""


def _why(found: Exec) -> str:
    """What a signal says that the filters of sandboxes and of interception send."""
    return FOREIGN if found.status is not None and found.status & 0x7F == signal.SIGSYS else ""


def _end(found: Exec) -> str:
    took = "" if found.ended is None else f" {found.ended - found.started:.3f} s"
    if found.replaced:
        return f"became the next{took}"
    if found.status is None:
        return f"status unknown{took}"
    name = signal_name(found.status)
    return (name or f"exit {exit_code(found.status)}") + took
