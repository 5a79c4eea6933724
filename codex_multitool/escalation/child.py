"""The escalated program: started outside the sandbox as its caller would have, to its exact end."""

import os
import resource
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from errno import ENOENT
from typing import NamedTuple

from codex_multitool.escalation import wire
from codex_multitool.escalation.caller import Inherited
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.feeding import Feeding
from codex_multitool.escalation.identity import untrusted
from codex_multitool.escalation.outgoing import sort_out
from codex_multitool.escalation.watch import Absence
from codex_multitool.escalation.workdir import path_of
from codex_multitool.escalation.writable import redirectable
from codex_multitool.interception.descriptors import tell
from codex_multitool.interception.program import Kind, Program
from codex_multitool.launcher.spawn import NotStartedError, Process, Spawn
from codex_multitool.loop import Event, Task, Wait

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
# Its stand-in is the sandbox's to signal, its working directory perhaps the sandbox's to read: a
# core would show what the program read, and the variables that the sandbox does not get.
_NO_CORE = ((resource.RLIMIT_CORE, 0, 0),)


class Escalated(NamedTuple):
    """What runs outside: the program opened, and everything it takes over from its caller.

    descriptors: pairs (ours, number in the program). workdir: directory descriptor; cwd: its path
    when it was judged. asked: absolute path by which the caller called it.
    """

    program: Program
    asked: str
    argv: tuple[str, ...]
    workdir: int
    cwd: str
    environment: Mapping[str, str]
    descriptors: tuple[tuple[int, int], ...]
    inherited: Inherited


def start_outside(
    context: Context, escalated: Escalated, absence: Absence | None = None
) -> Task["Outside"]:
    """Start the program; whoever has it must `end` it. absence: its own, if that has begun.

    That it cannot be executed is said on its stderr, and told by how it has ended. Raises OSError
    if its environment cannot be made.
    """
    path = _executed_path(escalated.program, escalated.asked, context.writable)
    environment, lost = yield from context.surroundings.environment(
        context.start, path, escalated.argv, escalated.environment, context.writable, escalated.cwd
    )
    if lost:
        context.note(f"{path} ran outside without the caller's {lost}")
    if absence is None:
        absence = yield from context.watch.leaving(escalated.cwd, escalated.argv[1:], None)
    outside = Outside(context, escalated, absence)
    try:
        refusal = yield from outside.prepare()
        if refusal:
            context.note(f"{path} did not run outside: {refusal}")
            outside.process = _ended(_NOT_EXECUTABLE)
        else:
            outside.process = _started(context, outside.escalated, path, environment)
    except BaseException:
        outside.end()
        raise
    return outside


def _started(
    context: Context, escalated: Escalated, path: str, environment: Mapping[str, str]
) -> Process:
    inherited, program = escalated.inherited, escalated.program
    # Programs ask for their names: they get them, unless the sandbox could put other files there.
    by_name = untrusted(program, context.writable) is None
    with ExitStack() as stack:
        workdir, executed = escalated.workdir, program.fd
        if context.own_mounts:
            workdir, executed = _through_our_mounts((workdir, executed), stack)
        spawn = Spawn(
            path=os.fsencode(path),
            argv=[os.fsencode(word) for word in escalated.argv],
            environment=environment,
            workdir=workdir,
            descriptors=escalated.descriptors,
            program=None if by_name else executed,
            script=program.kind is Kind.SCRIPT,
            umask=inherited.umask,
            nice=inherited.nice,
            blocked=inherited.blocked,
            ignored=inherited.ignored,
            limits=_NO_CORE,
        )
        try:
            return context.start(spawn)
        except NotStartedError as error:
            _say(context, escalated, f"{path}: {error}")
            return _ended(_NOT_FOUND if error.errno == ENOENT else _NOT_EXECUTABLE)


def _ended(code: int) -> Process:
    """In place of a program that did not start: as a shell tells of it."""
    process = Process(0, lambda _pid, _number: None)
    process.end(code << 8)  # wait(2)
    return process


class Outside:
    """An escalated program, and what it takes over. process: once it is at work."""

    def __init__(self, context: Context, escalated: Escalated, absence: Absence) -> None:
        self._context = context
        self.escalated = escalated
        self._absence = absence
        self._feeding: Feeding | None = None
        self._over = False
        self.process: Process | None = None

    def prepare(self) -> Task[str]:
        """Sort out what goes along with it; why it may not run, or nothing."""
        context, escalated = self._context, self.escalated
        outgoing = sort_out(escalated.descriptors, context.roots)
        protected = yield from self._absence.handed(outgoing.files)
        if protected:
            return f"it would have {', '.join(protected)} open, which programs outside obey"
        if self._moved():
            return f"{escalated.cwd} was moved"
        going = outgoing.going
        if outgoing.piped is not None:
            self._feeding = Feeding(context.loop, outgoing.piped)
            going = (*going, (self._feeding.reader, 0))
        for number, file in outgoing.staying:
            context.note(
                f"{escalated.asked} ran outside without descriptor {number}, {file}: by /dev/fd it "
                "could have written there, and the sandbox cannot"
            )
        self.escalated = escalated._replace(descriptors=going)
        return ""

    def _moved(self) -> bool:
        return path_of(self.escalated.workdir) != self.escalated.cwd

    @property
    def ended(self) -> Event:
        """Set once it has been reaped."""
        assert self.process is not None, "it is at work"
        return self.process.ended

    def result(self) -> Task[wire.SuperExecResult]:
        """How it ended, once it has."""
        assert self.process is not None, "it is at work"
        yield Wait(event=self.process.ended)
        self._feed_no_more()
        yield from self._absence.over()
        self._over = True
        if self._moved():
            yield from self._look_where_it_was()
        status = self.process.status
        assert status is not None, "what has ended has a status"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return wire.SuperExecResult(128 + number, number)
        return wire.SuperExecResult(os.WEXITSTATUS(status))

    def _look_where_it_was(self) -> Task[None]:
        cwd, now = self.escalated.cwd, path_of(self.escalated.workdir)
        self._context.note(f"{cwd} was moved to {now} while {self.escalated.asked} ran in it")
        yield from self._context.watch.look(now)

    def _feed_no_more(self) -> None:
        if self._feeding is not None:
            self._feeding.end()

    def signal(self, number: int) -> None:
        """Pass on a signal to its process group, unless it has ended."""
        if self.process is not None:
            self.process.signal(number)

    def end(self) -> None:
        """Kill it if it has not ended: nobody is left to hear how it does."""
        if self.process is not None:
            self.process.kill()
        self._feed_no_more()
        if not self._over:
            self._absence.lost()


def _through_our_mounts(fds: tuple[int, int], stack: ExitStack) -> list[int]:
    """The same files where we see them, too.

    Through the sandbox's mounts a working directory has no path, what is kept from the sandbox is
    read-only, and no program is setuid: getcwd(3), mount_namespaces(7).
    """
    found = []
    for fd in fds:
        try:
            ours = os.open(os.readlink(f"/proc/self/fd/{fd}"), os.O_PATH | os.O_CLOEXEC)
        except OSError:
            found.append(fd)
            continue
        stack.callback(os.close, ours)
        found.append(ours if os.path.samestat(os.fstat(ours), os.fstat(fd)) else fd)
    return found


def _executed_path(program: Program, asked: str, writable: Collection[str]) -> str:
    """The name to execute the program by: the caller's, where nobody inside could redirect it."""
    try:
        same = os.path.samestat(os.stat(asked), os.fstat(program.fd))
    except OSError:
        same = False
    if same and not redirectable(asked, writable):
        return asked
    return program.path or asked


def _say(context: Context, escalated: Escalated, text: str) -> None:
    """Tell the caller on its stderr, which may be full; what it does not hear the result tells."""
    told = [
        tell(fd, os.fsencode(f"{text}\n")) for fd, target in escalated.descriptors if target == 2
    ]
    if not all(told):
        context.note(text)
