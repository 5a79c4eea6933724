"""What would become of a command, by its words: the one answer of `exec` and the server.

The file that would run is found and opened as theirs is, and `decide` has the word. What is not
installed here is judged by its name. Where a command runs others (`env`, `sh -c`) and stays
inside, those are judged, too, as the kernel would bring them before the judge: they can forbid and
ask, never allow. What a script computes, or another file holds, is not known before it runs.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from codex_multitool.escalation.decide import (
    Ask,
    Deny,
    Escalate,
    ExecRequest,
    Run,
    Verdict,
    decide,
)
from codex_multitool.escalation.identity import absolute, exec_request, named_request
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.shell_script import simple_commands
from codex_multitool.escalation.unwrap import unwrap
from codex_multitool.interception.resolve import View
from codex_multitool.interception.tracee import Opened

ESCALATE, DENY, ASK, RUN, NONE = "escalate", "deny", "ask", "run", "none"
NO_RULE = "no rule names it: it runs in the sandbox"
_STRICT = (DENY, ASK)  # what a command inside another one can bring about

_USUAL = "/usr/bin"
_DEEPEST = 8  # commands in commands
_MOST = 256  # of them


@dataclass(frozen=True, slots=True)
class Judged:
    """One command. request: its own exec. installed: whether there is such a program here.

    decision, reason: what becomes of it. starts: what it runs in turn. by: which of those decides,
    if one does.
    """

    command: tuple[str, ...]
    request: ExecRequest
    installed: bool
    decision: str
    reason: str
    starts: tuple["Judged", ...] = ()
    by: "Judged | None" = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Who says so. workdir: absolute; writable: canonical, what the sandbox may write.

    environment: of the commands.
    """

    judgement: Judgement
    workdir: str
    writable: tuple[str, ...]
    environment: Mapping[str, str]

    def script(self, words: Sequence[str]) -> list[Judged]:
        """The words; or if that is one word with blanks, each command of the script it is."""
        return [self.command(command) for command in commands_of(words)]

    def command(self, words: Sequence[str]) -> Judged:
        """One command; `words` are not empty."""
        return self._command(tuple(words), 0, [_MOST])

    def _command(self, words: tuple[str, ...], depth: int, left: list[int]) -> Judged:
        request, installed = self._request(words)
        verdict = decide(self.judgement, request)
        starts: list[Judged] = []
        if _stays(verdict) and depth < _DEEPEST:
            for inner in _inner(words):
                if left[0] <= 0:
                    break
                left[0] -= 1
                starts.append(self._command(inner, depth + 1, left))
        decision, reason = _told(verdict, words, installed=installed, below=depth > 0)
        by = strictest([it for it in starts if it.decision in _STRICT])
        if by is None or _rank(by.decision) >= _rank(decision):
            return Judged(words, request, installed, decision, reason, tuple(starts))
        reason = f"it runs {by.command[0]}: {by.reason}"
        return Judged(words, request, installed, by.decision, reason, tuple(starts), by.by or by)

    def _request(self, words: tuple[str, ...]) -> tuple[ExecRequest, bool]:
        name = words[0]
        found = name
        if "/" not in name:
            found = shutil.which(name, path=self.environment.get("PATH", "")) or ""
        with ExitStack() as stack:
            view = View(os.getpid(), os.getpid())
            stack.callback(view.close)
            folder = os.open(self.workdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            opened = Opened(view, folder)
            stack.callback(opened.close)
            if found and "\0" not in found:
                opened.find(found)
            if opened.program is None:
                return named_request(self._path(name), words, self.workdir, self.writable), False
            opened.load(found, words, lambda: [f"{k}={v}" for k, v in self.environment.items()])
            request = exec_request(
                opened.program,
                absolute(found, self.workdir),
                words,
                self.workdir,
                self.writable,
                executed=opened.argv_executed(found, words),
                interpreters=opened.interpreters,
                linker=opened.linker,
                loaded=opened.loaded,
            )
        return request, True

    def _path(self, name: str) -> str:
        """Where a program would lie that is not here."""
        if "/" in name:
            return absolute(name, self.workdir)
        listed = self.judgement.policy.host_executables.get(name)
        return listed[0] if listed else os.path.join(_USUAL, name)


def commands_of(words: Sequence[str]) -> list[list[str]]:
    """The commands meant; perhaps none, where a script has none that can be seen."""
    if len(words) == 1 and any(character in words[0] for character in " \t\n;|&"):
        return simple_commands(words[0])
    return [list(words)]


def strictest(judged: Sequence[Judged]) -> Judged | None:
    """The one that says most of a script: what is refused, then asked, then what stays inside."""
    return min(judged, key=lambda it: _rank(it.decision), default=None)


def _rank(decision: str) -> int:
    return (DENY, ASK, RUN, NONE, ESCALATE).index(decision)


def _stays(verdict: Verdict) -> bool:
    """Whether it runs inside, if it does: what a program outside runs is judged by nobody."""
    accepted = verdict.accepted if isinstance(verdict, Ask) else verdict
    return isinstance(accepted, Run)


def _inner(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for inner in unwrap(os.path.basename(words[0]), words[1:]):
        commands = simple_commands(inner) if isinstance(inner, str) else [inner]
        yield from (tuple(command) for command in commands if command)


def _told(
    verdict: Verdict, words: tuple[str, ...], *, installed: bool, below: bool
) -> tuple[str, str]:
    """below: whether another program, not the shell of the call, starts it."""
    by_name = "" if installed else f"; there is no program {words[0]} here: judged by its name"
    match verdict:
        case Escalate(rule=rule):
            return ESCALATE, rule + by_name
        case Deny(reason=reason):
            return DENY, reason + by_name
        case Ask(accepted=accepted, because=because, own_shell_only=own) if not (below and own):
            where = "outside" if isinstance(accepted, Escalate) else "in"
            return ASK, f"{because}; if accepted, it runs {where} the sandbox{by_name}"
        case Run(note=str(note)):
            return RUN, note + by_name
        case _ if not installed:
            return NONE, f"no program {words[0]}: a builtin of the shell, or nothing"
        case _:
            return RUN, NO_RULE
