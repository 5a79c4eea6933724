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
from codex_multitool.escalation.outgoing import Outgoing, sort_out
from codex_multitool.escalation.watch import Absence
from codex_multitool.escalation.writable import redirectable
from codex_multitool.interception.descriptors import tell
from codex_multitool.interception.program import Kind, Program
from codex_multitool.launcher.spawn import NotStartedError, Process, Spawn
from codex_multitool.loop import Task, Wait

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
# Its stand-in is the sandbox's to signal, its working directory perhaps the sandbox's to read: a
# core would show what the program read, and the variables that the sandbox does not get.
_NO_CORE = ((resource.RLIMIT_CORE, 0, 0),)


class Escalated(NamedTuple):
    """What runs outside: the program opened, and everything it takes over from its caller.

    descriptors: pairs (ours, number in the program). workdir: directory descriptor. asked:
    absolute path by which the caller called it.
    """

    program: Program
    asked: str
    argv: tuple[str, ...]
    workdir: int
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
    workdir = _path_of(escalated.workdir)
    environment, lost = yield from context.surroundings.environment(
        context.start, path, escalated.argv, escalated.environment, context.writable, workdir
    )
    if lost:
        context.note(f"{path} ran outside without the caller's {lost}")
    if absence is None:
        absence = yield from context.watch.leaving(workdir, escalated.argv[1:], None)
    outgoing = sort_out(escalated.descriptors, context.roots)
    feeding = None
    try:
        protected = yield from absence.handed(outgoing.files)
        _tell_staying(context, path, outgoing, protected)
        if protected:
            return Outside(_ended(_NOT_EXECUTABLE), absence)
        going = outgoing.going
        if outgoing.piped is not None:
            feeding = Feeding(context.loop, outgoing.piped)
            going = (*going, (feeding.reader, 0))
        escalated = escalated._replace(descriptors=going)
        process = _started(context, escalated, path, environment)
    except BaseException:
        if feeding is not None:
            feeding.end()
        absence.lost()
        raise
    return Outside(process, absence, feeding)


def _tell_staying(
    context: Context, path: str, outgoing: Outgoing, protected: Collection[str]
) -> None:
    if protected:
        context.note(
            f"{path} did not run outside: it would have had {', '.join(protected)} open, which "
            "programs outside obey"
        )
    for number, file in outgoing.staying:
        context.note(
            f"{path} ran outside without descriptor {number}, {file}: by /dev/fd it could have "
            "written there, and the sandbox cannot"
        )


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
    """An escalated program at work. ended: set once it has been reaped."""

    def __init__(self, process: Process, absence: Absence, feeding: Feeding | None = None) -> None:
        self._process = process
        self._absence = absence
        self._feeding = feeding
        self._over = False
        self.ended = process.ended

    def result(self) -> Task[wire.SuperExecResult]:
        """How it ended, once it has."""
        yield Wait(event=self.ended)
        if self._feeding is not None:
            self._feeding.end()
        yield from self._absence.over()
        self._over = True
        status = self._process.status
        assert status is not None, "what has ended has a status"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return wire.SuperExecResult(128 + number, number)
        return wire.SuperExecResult(os.WEXITSTATUS(status))

    def signal(self, number: int) -> None:
        """Pass on a signal to its process group, unless it has ended."""
        self._process.signal(number)

    def end(self) -> None:
        """Kill it if it has not ended: nobody is left to hear how it does."""
        self._process.kill()
        if self._feeding is not None:
            self._feeding.end()
        if not self._over:
            self._absence.lost()


def _path_of(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "/"  # longer than a path can be


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
