"""One command on the caller's own descriptors: started, judged, timed, signalled and ended."""

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass

import trio

from codex_multitool.cli.exec_record import Record
from codex_multitool.cli.terminal import UNAVAILABLE, Human
from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.context import Context, Question
from codex_multitool.escalation.guard import Guard
from codex_multitool.launcher.pool import Launcher, Pool, Process, Spawn
from codex_multitool.running.deadline import Deadline
from codex_multitool.running.intercept import ByKernel, ByWrapper
from codex_multitool.running.limits import ended_by, kernel_limits
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox import enforce
from codex_multitool.sandbox.enforce import Confinement
from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots
from codex_multitool.sandbox.status import not_granted

TIMED_OUT = 124  # as timeout(1)
_GRACE_SECONDS = 0.5  # between SIGTERM and SIGKILL
_DRAIN_SECONDS = 0.05  # for filters that are about to write the last of their output
_DEVICES = "/dev"  # shared memory and terminals: writable in most sandboxes, home of no program
# The command has a session of its own, so nothing of this reaches it from the terminal.
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be run. words: argv of the shell. workspace: what workspace-write opens, or empty.

    timeout: seconds, perhaps inf. ignored: signals that it is to ignore.
    """

    words: tuple[str, ...]
    cwd: str
    workspace: str
    policy: SandboxPolicy
    timeout: float
    ignored: tuple[int, ...]


@dataclass(slots=True)
class Outcome:
    """How it ended. status: as wait(2) has it. background: what it left running."""

    status: int = 0
    timed_out: bool = False
    duration_ns: int = 0
    background: tuple[tuple[int, str], ...] = ()


class Foreground:
    """Runs one command, once."""

    def __init__(self, settings: Settings, task: Task, human: Human, record: Record) -> None:
        self._settings = settings
        self._task = task
        self._human = human
        self._record = record
        self._deadline = Deadline(task.timeout, trio.current_time())
        self._rescheduled = trio.Event()
        self._outcome = Outcome()
        self._shell = 0
        self._watch = Guard().begin(())

    async def run(self, pool: Pool) -> Outcome:
        """Run it to its end, and end what it leaves behind.

        Raises SandboxError, OSError or LauncherError when it cannot be started.
        """
        task = self._task
        roots = writable_roots(task.policy, task.workspace, self._settings.environment)
        with closing(enforce.prepare(task.policy, roots)) as confinement:
            for root in not_granted(confinement.status, task.policy.writable_roots):
                self._record.note(f"not writable: {root}")
            workdir = os.open(task.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            writable = (_DEVICES, *map(os.path.realpath, roots))
            launcher = pool.hire()
            self._watch = Guard().begin(roots, task.cwd)
            failure: Exception | None = None
            try:
                async with trio.open_nursery() as nursery:
                    try:
                        await self._run(launcher, confinement, workdir, writable, nursery)
                    except Exception as error:  # noqa: BLE001 — a nursery would wrap it in a group
                        failure = _first(error)
                    nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await launcher.end(_GRACE_SECONDS)
                for note in self._watch.notes(ended=True):
                    self._record.note(note)
                pool.dismiss(launcher)
                os.close(workdir)
                self._record.close()
        if failure is not None:
            raise failure
        return self._outcome

    async def _run(
        self,
        launcher: Launcher,
        confinement: Confinement,
        workdir: int,
        writable: tuple[str, ...],
        nursery: trio.Nursery,
    ) -> None:
        context = Context(
            judgement=self._settings.judgement,
            launcher=launcher,
            surroundings=self._settings.surroundings,
            ask=self._ask,
            record=self._record.verdict,
            note=self._record.note,
            writable=writable,
            own_shell=lambda: OwnShell(self._shell, tuple(self._task.words)),
            watch=self._watch,
            own_mounts=self._settings.own_mounts,
            trace=self._record.trace(nursery),
        )
        wrapper = self._settings.wrapper
        way: ByKernel | ByWrapper = (
            ByKernel(context, confined=bool(confinement.filter))
            if wrapper is None
            else ByWrapper(context, wrapper)
        )
        numbers = {*_PASSED_ON, *_ENDING, signal.SIGTSTP}.difference(self._task.ignored)
        started = time.monotonic_ns()
        with closing(way), trio.open_signal_receiver(*numbers) as signals:
            async with trio.open_nursery() as listening:
                process = await self._start(launcher, confinement, workdir, way)
                self._watch.runs_below(launcher.pid)
                self._shell = process.pid
                self._record.root(process.pid, self._task.words)
                nursery.start_soon(way.serve)
                nursery.start_soon(self._watch.attend)
                listening.start_soon(self._pass_on, launcher, process, signals)
                nursery.start_soon(self._expire, launcher)
                self._outcome.status = await process.wait()
                self._outcome.duration_ns = time.monotonic_ns() - started
                self._record.ended(process.pid, self._outcome.status)
                if limit := ended_by(self._settings.limits, self._outcome.status):
                    self._record.note(limit)
                with trio.move_on_after(_DRAIN_SECONDS):
                    await launcher.empty.wait()
                if not launcher.empty.is_set() and not self._outcome.timed_out:
                    self._outcome.background = await launcher.jobs()
                await launcher.end(_GRACE_SECONDS)
                listening.cancel_scope.cancel()

    async def _start(
        self, launcher: Launcher, confinement: Confinement, workdir: int, way: ByKernel | ByWrapper
    ) -> Process:
        words = [os.fsencode(word) for word in self._task.words]
        environment = {
            **self._settings.environment,
            **confinement.environment,
            **way.environment,
            "PWD": self._task.cwd,
        }
        try:
            return await launcher.spawn(
                Spawn(
                    path=words[0],
                    argv=words,
                    environment={os.fsencode(k): os.fsencode(v) for k, v in environment.items()},
                    workdir=workdir,
                    descriptors=[(0, 0), (1, 1), (2, 2), *way.descriptors],
                    confinement=confinement,
                    limits=kernel_limits(self._settings.limits),
                    mounts=self._watch.standing() if self._settings.own_mounts else (),
                    ignored=self._task.ignored,
                    listener=way.listener,
                )
            )
        finally:
            way.handed_over()

    async def _ask(self, question: Question) -> tuple[str, str | None]:
        self._deadline.pause(trio.current_time())
        self._rescheduled.set()
        try:
            action, reason = await self._human.ask(question)
            if action != UNAVAILABLE:
                self._record.answered(question)
            return action, reason
        finally:
            self._deadline.resume(trio.current_time())
            self._rescheduled.set()

    async def _pass_on(
        self, launcher: Launcher, process: Process, signals: AsyncIterator[int]
    ) -> None:
        async for number in signals:
            if number == signal.SIGTSTP:
                # Its group is orphaned, so that only SIGSTOP stops it: setpgid(2).
                await launcher.signal(process, signal.SIGSTOP)
                os.kill(os.getpid(), signal.SIGSTOP)
                await launcher.signal(process, signal.SIGCONT)
                continue
            if number in (signal.SIGINT, *_ENDING):
                self._human.interrupt()
            await launcher.signal(process, number)
            if number in _ENDING:
                await launcher.end(_GRACE_SECONDS)

    async def _expire(self, launcher: Launcher) -> None:
        while not self._deadline.expired(trio.current_time()):
            self._rescheduled = trio.Event()
            with trio.move_on_at(self._deadline.expires_at()):
                await self._rescheduled.wait()
        self._outcome.timed_out = True
        await launcher.end(_GRACE_SECONDS)


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
