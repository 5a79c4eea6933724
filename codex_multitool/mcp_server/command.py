"""One `shell` call: start the shell, judge its execs, capture, time and end it.

A command lives until the last process of its tree has ended, which may be after its result: jobs
that the shell left behind run on, judged and confined as before. Whatever ends early — the
deadline, a cancelled call, a client that goes — ends the whole tree.
"""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import trio

from codex_multitool.escalation.caller import OwnShell
from codex_multitool.escalation.context import Context, Question, Verdict
from codex_multitool.escalation.guard import Guard
from codex_multitool.escalation.protected import told
from codex_multitool.launcher.pool import Launcher, Pool, Process, Spawn
from codex_multitool.mcp_server import calls
from codex_multitool.mcp_server.calls import Asker, CommandSpec, Decision
from codex_multitool.keeper.output import Capture, Output
from codex_multitool.mcp_server.output_files import OutputFile
from codex_multitool.mcp_server.pipes import Pipes
from codex_multitool.running import quoting
from codex_multitool.running.deadline import Deadline
from codex_multitool.running.intercept import ByKernel, ByWrapper
from codex_multitool.running.limits import ended_by, kernel_limits
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox.enforce import Confinement

log = logging.getLogger(__name__)

_GRACE_SECONDS = 0.5  # between SIGTERM and SIGKILL
# A background process may hold the pipes of a shell that has ended, and be named as what it left
# behind. What the shell wrote is read in any case; this is for filters that are about to write the
# last of it, and to end.
_DRAIN_SECONDS = 0.05
_MAX_NOTES = 50
_MAX_DECISIONS = 200  # of those worth telling; a loop may be denied a million times
_MAX_ARGUMENTS = 4096  # characters told of one; its arguments may have 2 MiB: execve(2)


@dataclass(slots=True)
class Outcome:
    """What is known of a command so far. status: of the shell, as wait(2) gives it.

    file: with the whole output, if that is more than is kept. decisions: and how often each.
    """

    output: Output = field(default_factory=partial(Output, ""))
    file: str | None = None
    decisions: dict[Decision, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    background: tuple[tuple[int, str], ...] = ()
    timed_out: bool = False
    status: int = 0
    duration_ns: int = 0


class Command:
    """A command from its start to the end of its last process.

    workdir, a directory descriptor, confinement and file are ours from now on. roots: what the
    sandbox may write. writable: what no allow rule may trust.
    """

    def __init__(
        self,
        settings: Settings,
        spec: CommandSpec,
        workdir: int,
        confinement: Confinement,
        roots: tuple[str, ...],
        writable: tuple[str, ...],
        guard: Guard,
        asker: Asker,
        file: OutputFile,
    ) -> None:
        self._settings = settings
        self._workdir = workdir
        self._confinement = confinement
        self._writable = writable
        self._watch = guard.begin(roots, spec.workdir)
        self._asker = asker
        self._begun = time.monotonic_ns()
        self._deadline = Deadline(spec.timeout_ms / 1000, trio.current_time())
        self._time = trio.CancelScope()
        self._outcome = Outcome()
        self._file = file
        self._capture = Capture(asker.size, file.feed)
        self._failure: Exception | None = None
        self._shell = 0
        self._argv = (settings.shell, "-lc" if spec.login else "-c", spec.command)
        self._answered = trio.Event()
        self._ended = trio.Event()
        self._scope = trio.CancelScope()

    async def result(self) -> Outcome:
        """What the client is told. Cancelled meanwhile, the tree is ended first.

        Raises LauncherError or OSError when the shell could not be run to its end.
        """
        try:
            await self._answered.wait()
        except trio.Cancelled:
            self._scope.cancel()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            raise
        if self._failure is not None:
            raise self._failure
        return self._outcome

    async def live(self, pool: Pool) -> None:
        """Run the command to the end of its last process, or until cancelled."""
        try:
            launcher = pool.hire()
            try:
                with self._scope:
                    await self._run(launcher)
            finally:
                with trio.CancelScope(shield=True):
                    await launcher.end(_GRACE_SECONDS)
                pool.dismiss(launcher)
        except* Exception as errors:
            # Whatever it is, it ends this command and no other.
            self._failure = _first(errors)
            if self._answered.is_set():
                log.error("what a command left in the background was ended", exc_info=errors)
        finally:
            self._watch.end()
            self._file.close()
            os.close(self._workdir)
            self._confinement.close()
            self._answered.set()
            self._ended.set()

    async def _run(self, launcher: Launcher) -> None:
        self._asker.progress(self._capture.last_line)
        with Pipes(self._capture, self._file) as pipes, closing(self._way(launcher)) as way:
            async with trio.open_nursery() as nursery:
                process = await self._start(launcher, pipes, way)
                self._watch.runs_below(launcher.pid)
                nursery.start_soon(way.serve)
                nursery.start_soon(self._watch.attend)
                nursery.start_soon(pipes.read)
                self._shell = process.pid
                await self._until_done(launcher, process)
                self._outcome.duration_ns = time.monotonic_ns() - self._begun
                with trio.move_on_after(_DRAIN_SECONDS):
                    await pipes.ended.wait()
                    await launcher.empty.wait()
                pipes.detach()
                await self._keep_output()
                if not launcher.empty.is_set():
                    self._outcome.background = await launcher.jobs()
                for note in self._watch.notes(ended=launcher.empty.is_set()):
                    self._note(note)
                self._answered.set()
                await launcher.empty.wait()
                nursery.cancel_scope.cancel()

    async def _keep_output(self) -> None:
        self._outcome.output = self._capture.output()
        if self._outcome.output.left_out:
            await self._file.finish()
            self._outcome.file = self._file.path
            if self._file.note:
                self._note(self._file.note)

    def _way(self, launcher: Launcher) -> ByKernel | ByWrapper:
        context = self._context(launcher)
        if self._settings.wrapper is None:
            return ByKernel(context, confined=bool(self._confinement.filter))
        return ByWrapper(context, self._settings.wrapper)

    def _context(self, launcher: Launcher) -> Context:
        return Context(
            judgement=self._settings.judgement,
            launcher=launcher,
            surroundings=self._settings.surroundings,
            ask=self._ask,
            record=self._record,
            note=self._note,
            writable=self._writable,
            own_shell=lambda: OwnShell(self._shell, self._argv),
            watch=self._watch,
            own_mounts=self._settings.own_mounts,
        )

    async def _start(self, launcher: Launcher, pipes: Pipes, way: ByKernel | ByWrapper) -> Process:
        settings = self._settings
        environment = {
            **settings.environment,
            **self._confinement.environment,
            **way.environment,
        }
        try:
            return await launcher.spawn(
                Spawn(
                    path=os.fsencode(settings.shell),
                    argv=[os.fsencode(word) for word in self._argv],
                    environment={os.fsencode(k): os.fsencode(v) for k, v in environment.items()},
                    workdir=self._workdir,
                    descriptors=[*pipes.write_ends(), *way.descriptors],
                    confinement=self._confinement,
                    limits=kernel_limits(settings.limits),
                    mounts=self._watch.standing() if settings.own_mounts else (),
                    listener=way.listener,
                )
            )
        finally:
            pipes.close_write_ends()
            way.handed_over()
            self._confinement.close()

    async def _until_done(self, launcher: Launcher, process: Process) -> None:
        with self._time:
            self._time.deadline = self._deadline.expires_at()
            self._outcome.status = await process.wait()
        if self._time.cancelled_caught:
            self._outcome.timed_out = True
            await launcher.end(_GRACE_SECONDS)
            self._outcome.status = await process.wait()
        elif limit := ended_by(self._settings.limits, self._outcome.status):
            self._note(limit)

    async def _ask(self, question: Question) -> tuple[str, str | None]:
        self._deadline.pause(trio.current_time())
        self._time.deadline = self._deadline.expires_at()
        try:
            answer = await self._asker.ask(
                calls.Question(
                    question.program,
                    question.argv,
                    question.workdir,
                    question.because,
                    question.outside,
                    question.justification or "",
                    told(question.changes, quoting.path) if question.changes else "",
                )
            )
        finally:
            self._deadline.resume(trio.current_time())
            self._time.deadline = self._deadline.expires_at()
        return answer.action, answer.reason

    def _record(self, verdict: Verdict) -> None:
        argv = _shortened(verdict.argv)
        found = Decision(verdict.program, argv, verdict.decision, _cut(verdict.reason))
        decisions = self._outcome.decisions
        if found in decisions or len(decisions) < _MAX_DECISIONS:
            decisions[found] = decisions.get(found, 0) + 1
        else:
            self._note(f"only the first {_MAX_DECISIONS} decisions are listed")

    def _note(self, text: str) -> None:
        text = _cut(text)
        if text not in self._outcome.notes and len(self._outcome.notes) < _MAX_NOTES:
            self._outcome.notes.append(text)


def _shortened(argv: Sequence[str]) -> tuple[str, ...]:
    shown, room = list[str](), _MAX_ARGUMENTS
    for word in argv:
        if room <= 0:
            break
        shown.append(word[:room])
        room -= len(word) + 1
    left_out = _length(argv) - _length(shown)
    return (*shown, *([f"[... {left_out} characters left out ...]"] if left_out else []))


def _cut(text: str) -> str:
    """What is told of a text that may hold a sandboxed program's own words."""
    left_out = len(text) - _MAX_ARGUMENTS
    if left_out <= 0:
        return text
    return f"{text[:_MAX_ARGUMENTS]} [... {left_out} characters left out ...]"


def _length(words: Sequence[str]) -> int:
    return sum(map(len, words)) + len(words)


def _first(errors: BaseExceptionGroup[Exception]) -> Exception:
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
