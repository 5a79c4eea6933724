"""The escalated program: started outside the sandbox as its caller would have, to its exact end."""

import os
import resource
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import trio

from codex_multitool.escalation import wire
from codex_multitool.escalation.caller import Inherited
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.guard import Absence
from codex_multitool.escalation.identity import redirectable, untrusted
from codex_multitool.interception.descriptors import tell
from codex_multitool.interception.program import Kind, Program
from codex_multitool.launcher.pool import LauncherError, Process, Spawn

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_ENOENT = 2
# Its stand-in is the sandbox's to signal, its working directory perhaps the sandbox's to read: a
# core would show what the program read, and the variables that the sandbox does not get.
_NO_CORE = ((resource.RLIMIT_CORE, 0, 0),)


@dataclass(frozen=True, slots=True)
class Escalated:
    """What runs outside: the program opened, and everything it takes over from its caller.

    descriptors: pairs (ours, number in the program). workdir: directory descriptor. asked:
    absolute path by which the caller called it. held: the caller's process, if it can do nothing
    of its own any more.
    """

    program: Program
    asked: str
    argv: tuple[str, ...]
    workdir: int
    environment: Mapping[str, str]
    descriptors: tuple[tuple[int, int], ...]
    inherited: Inherited
    held: int | None = None


async def run_outside(
    context: Context,
    escalated: Escalated,
    next_signal: Callable[[], Awaitable[int | None]],
) -> wire.SuperExecResult:
    """Run the program to its end. next_signal: what to pass on to it; None ends it."""
    outside = await start_outside(context, escalated)
    try:
        return await outside.relaying(next_signal)
    finally:
        await outside.end()


async def start_outside(context: Context, escalated: Escalated) -> "Outside":
    """Start the program; whoever has it must `end` it. Raises OSError."""
    inherited, program = escalated.inherited, escalated.program
    path = _executed_path(program, escalated.asked, context.writable)
    environment, refused = await context.surroundings.environment(
        path, escalated.argv, escalated.environment, context.writable
    )
    if refused:
        context.note(f"{path} ran outside without the caller's {'; '.join(refused)}")
    script = program.kind is Kind.SCRIPT
    # A script asks for its own name: it gets it, unless the sandbox could put another file there.
    by_name = script and untrusted(program, context.writable) is None
    started = False
    with ExitStack() as stack:
        workdir, executed = escalated.workdir, program.fd
        if context.own_mounts:
            workdir, executed = _through_our_mounts((workdir, executed), stack)
        absence = await context.watch.leaving(
            _path_of(escalated.workdir), escalated.argv[1:], escalated.held
        )
        stack.callback(lambda: None if started else absence.over())
        process = await _spawned(
            context,
            escalated,
            Spawn(
                path=os.fsencode(path),
                argv=[os.fsencode(word) for word in escalated.argv],
                environment={os.fsencode(k): os.fsencode(v) for k, v in environment.items()},
                workdir=workdir,
                descriptors=escalated.descriptors,
                program=None if by_name else executed,
                script=script,
                umask=inherited.umask,
                nice=inherited.nice,
                blocked=inherited.blocked,
                ignored=inherited.ignored,
                limits=_NO_CORE,
            ),
        )
        started = True
    return Outside(context, process, escalated, path, absence)


async def _spawned(context: Context, escalated: Escalated, spawn: Spawn) -> Process:
    try:
        return await context.launcher.spawn(spawn)
    except LauncherError as error:
        _say(context, escalated, f"{os.fsdecode(spawn.path)}: {error}")
        raise OSError(error.errno, str(error)) from None


class Outside:
    """An escalated program at work."""

    def __init__(
        self,
        context: Context,
        process: Process,
        escalated: Escalated,
        path: str,
        absence: Absence,
    ) -> None:
        self._context = context
        self._launcher = context.launcher
        self._process = process
        self._escalated = escalated
        self._path = path
        self._absence = absence

    async def result(self) -> wire.SuperExecResult:
        """How it ended, once it has; whether it could be started is said on its stderr."""
        try:
            status = await self._process.wait()
            self._absence.over()
        except LauncherError as error:
            code = _NOT_FOUND if error.errno == _ENOENT else _NOT_EXECUTABLE
            _say(self._context, self._escalated, f"{self._path}: {error}")
            return wire.SuperExecResult(code)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return wire.SuperExecResult(128 + number, number)
        return wire.SuperExecResult(os.WEXITSTATUS(status))

    async def relaying(
        self, next_signal: Callable[[], Awaitable[int | None]]
    ) -> wire.SuperExecResult:
        """The same, and signals are passed on until then; None in their place ends it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._relay, next_signal)
            result = await self.result()
            nursery.cancel_scope.cancel()
        return result

    async def end(self) -> None:
        """Kill it if it has not ended: nobody is left to hear how it does."""
        if not self._process.ended.is_set():
            with trio.CancelScope(shield=True):
                await self._launcher.signal(self._process, signal.SIGKILL)
        self._absence.over()

    async def _relay(self, next_signal: Callable[[], Awaitable[int | None]]) -> None:
        while (number := await next_signal()) is not None:
            await self._launcher.signal(self._process, number)
        # The stand-in has gone: nobody is left to hear how the program ends.
        await self._launcher.signal(self._process, signal.SIGKILL)


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
