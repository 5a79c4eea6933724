"""The escalated program: started outside the sandbox as its caller would have, to its exact end."""

import os
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

import trio

from codex_multitool.escalation import wire
from codex_multitool.escalation.caller import Inherited
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.identity import redirectable, untrusted
from codex_multitool.escalation.rest import rest
from codex_multitool.interception.program import Kind, Program
from codex_multitool.launcher.pool import Launcher, LauncherError, Process, Spawn

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_ENOENT = 2


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
    inherited, program, launcher = escalated.inherited, escalated.program, context.launcher
    path = _executed_path(program, escalated.asked, context.writable)
    environment, refused = await context.surroundings.environment(
        path, escalated.argv, escalated.environment, context.writable
    )
    if refused:
        context.note(f"{path} ran outside without the caller's {'; '.join(refused)}")
    script = program.kind is Kind.SCRIPT
    # A script asks for its own name: it gets it, unless the sandbox could put another file there.
    by_name = script and untrusted(program, context.writable) is None
    process = await launcher.spawn(
        Spawn(
            path=os.fsencode(path),
            argv=[os.fsencode(word) for word in escalated.argv],
            environment={os.fsencode(k): os.fsencode(v) for k, v in environment.items()},
            workdir=escalated.workdir,
            descriptors=escalated.descriptors,
            program=None if by_name else program.fd,
            script=script,
            umask=inherited.umask,
            nice=inherited.nice,
            blocked=inherited.blocked,
            ignored=inherited.ignored,
        )
    )
    # While the program starts: nothing waits for this look.
    absence = context.watch.left(
        lambda: rest(launcher.pid, outside=process.pid, held=escalated.held)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_relay, launcher, process, next_signal)
        try:
            status = await process.wait()
            absence.over()
        except LauncherError as error:
            code = _NOT_FOUND if error.errno == _ENOENT else _NOT_EXECUTABLE
            _say(escalated, f"{path}: {error}\n")
            return wire.SuperExecResult(code)
        finally:
            nursery.cancel_scope.cancel()
            if not process.ended.is_set():
                # Cancelled: nobody is left to hear how it ends.
                with trio.CancelScope(shield=True):
                    await launcher.signal(process, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return wire.SuperExecResult(128 + number, number)
    return wire.SuperExecResult(os.WEXITSTATUS(status))


def _executed_path(program: Program, asked: str, writable: Collection[str]) -> str:
    """The name to execute the program by: the caller's, where nobody inside could redirect it."""
    try:
        same = os.path.samestat(os.stat(asked), os.fstat(program.fd))
    except OSError:
        same = False
    if same and not redirectable(asked, writable):
        return asked
    return program.path or asked


async def _relay(
    launcher: Launcher, process: Process, next_signal: Callable[[], Awaitable[int | None]]
) -> None:
    while (number := await next_signal()) is not None:
        await launcher.signal(process, number)
    # The stand-in has gone: nobody is left to hear how the program ends.
    await launcher.signal(process, signal.SIGKILL)


def _say(escalated: Escalated, text: str) -> None:
    for ours, target in escalated.descriptors:
        if target == 2:
            try:
                os.write(ours, os.fsencode(text))
            except OSError:
                pass  # the caller's stderr is closed: nobody to tell
