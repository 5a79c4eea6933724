"""Does kernel interception work here? Tried, not guessed: one real exec is judged and watched."""

import errno
import os
from collections.abc import Mapping
from contextlib import closing

import trio

from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.context import Context, Question
from codex_multitool.escalation.decide import Judgement
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.execpolicy.rules import Policy
from codex_multitool.launcher.pool import LauncherError, Pool, Spawn
from codex_multitool.running.intercept import ByKernel

_SHELL = "/bin/sh"
_SECONDS = 10.0
_REASONS = {
    errno.EBUSY: "another program listens to the execs of this process tree already: a sandbox "
    "around this one, or WSL's network (seccomp(2) allows one listener)",
    errno.ENOSYS: "this kernel, or the sandbox around us, has no seccomp notifications (Linux 5.5)",
    errno.EINVAL: "this kernel has no seccomp notifications (Linux 5.5)",
}


async def refusal(pool: Pool, environment: Mapping[str, str]) -> str | None:
    """Why kernel interception is not to be had here; None if it works."""
    launcher = pool.hire()
    context = Context(
        judgement=Judgement(Policy({}, {}, ())),
        launcher=launcher,
        surroundings=Surroundings(environment),
        ask=_nobody,
        record=lambda _: None,
        note=lambda _: None,
        writable=(),
        own_shell=lambda: OwnShell(0, ()),
    )
    workdir = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    found: str | None = "it does not answer"
    try:
        with closing(ByKernel(context, confined=True)) as way, trio.move_on_after(_SECONDS):
            found = await _tried(context, way, workdir)
    finally:
        os.close(workdir)
        with trio.CancelScope(shield=True):
            await launcher.end(0)
        pool.dismiss(launcher)
    return found


async def _tried(context: Context, way: ByKernel, workdir: int) -> str | None:
    spawn = Spawn(
        path=_SHELL.encode(),
        argv=[b"sh", b"-c", f"exec {_SHELL} -c :".encode()],
        environment={},
        workdir=workdir,
        descriptors=(),
        listener=way.listener,
    )
    async with trio.open_nursery() as nursery:
        process = await context.launcher.spawn(spawn)
        way.handed_over()
        nursery.start_soon(way.serve)
        try:
            status = await process.wait()
        except LauncherError as error:
            return _REASONS.get(error.errno, str(error))
        finally:
            nursery.cancel_scope.cancel()
    if status == 0 and way.supervisor is not None and way.supervisor.watched:
        return None
    return "ptrace(2) is refused here: Yama (kernel.yama.ptrace_scope), or the sandbox around us"


async def _nobody(_: Question) -> tuple[str, str | None]:
    return "unavailable", None
