"""What the `shell` tool does: a policy made ready, and a `Command` in it."""

import logging
import os
from collections import OrderedDict

import trio

from codex_multitool.escalation.guard import Guard
from codex_multitool.launcher.pool import LauncherError, Pool
from codex_multitool.mcp_server.calls import (
    Asker,
    CommandResult,
    CommandSpec,
    ToolError,
)
from codex_multitool.mcp_server.command import Command, Outcome
from codex_multitool.mcp_server.in_the_way import in_the_way, worth_a_look
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.running.own_files import OwnFiles
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox import enforce
from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots
from codex_multitool.sandbox.status import not_granted

log = logging.getLogger(__name__)

_MAX_PREPARED = 8  # rulesets kept; a client uses one or two policies
_READ_ONLY = SandboxPolicy("read-only")
_DEVICES = "/dev"  # shared memory and terminals: writable in most sandboxes, home of no program
_LOOK_SECONDS = 3.0
_TIMED_OUT = 124  # as timeout(1)


class Confinements:
    """Sandboxes made ready and kept, one per policy and writable directories as they are now.

    own: what no command may write.
    """

    def __init__(self, own: OwnFiles) -> None:
        self._own = own
        self._prepared: OrderedDict[object, enforce.Confinement] = OrderedDict()

    def lend(self, policy: SandboxPolicy, roots: tuple[str, ...]) -> enforce.Confinement:
        """The sandbox for `policy`, the caller's to close.

        Raises SandboxError when the kernel cannot give it, or it would not hold.
        """
        # A directory removed and made again is another one, and the ruleset holds the old.
        key = (policy, tuple((root, _identity(root)) for root in roots))
        if key in self._prepared:
            self._prepared.move_to_end(key)
        else:
            if reason := self._own.exposed(roots):
                raise enforce.SandboxError(reason)
            self._prepared[key] = prepared = enforce.prepare(policy, roots)
            for root in not_granted(prepared.status, policy.writable_roots):
                log.warning("not writable: %s", root)
            if len(self._prepared) > _MAX_PREPARED:
                self._prepared.popitem(last=False)[1].close()
        return _copy(self._prepared[key])

    def close(self) -> None:
        """Give up what is kept; what was lent stays."""
        while self._prepared:
            self._prepared.popitem()[1].close()


def _copy(kept: enforce.Confinement) -> enforce.Confinement:
    # With a descriptor of its own: the one kept may be closed before the command starts, and its
    # number by then be that of a ruleset that allows more.
    return enforce.Confinement(
        ruleset=None if kept.ruleset is None else os.dup(kept.ruleset),
        restrict_flags=kept.restrict_flags,
        filter=kept.filter,
        environment=kept.environment,
        status=kept.status,
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class ShellTool:
    """Runs the calls of one session. Every call has a `Command` in `nursery`.

    own: what no command may write, if anything. files: where outputs go that are too large for a
    result.
    """

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        nursery: trio.Nursery,
        files: OutputFiles,
        own: OwnFiles | None = None,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._nursery = nursery
        self._own = own or OwnFiles()
        self._files = files
        self._confinements = Confinements(self._own)
        self._guard = Guard()
        # What any sandbox of this session could write stays untrusted for its whole life.
        self._ever_writable = {_DEVICES}

    def close(self) -> None:
        """Give up the sandboxes made ready; commands that run keep theirs."""
        self._confinements.close()

    def refusal(self, state: SandboxState) -> str | None:
        """Why commands cannot run under this state, where that can be seen beforehand."""
        return self._own.exposed(self._roots(state))

    def _roots(self, state: SandboxState) -> tuple[str, ...]:
        return writable_roots(state.policy, state.cwd, self._settings.environment)

    async def run(
        self, spec: CommandSpec, state: SandboxState | None, asker: Asker
    ) -> CommandResult:
        """Run one call. Raises ToolError when its directory, sandbox or shell cannot be had."""
        state = state or SandboxState(_READ_ONLY, spec.workdir)
        command = self._prepare(spec, state, asker)
        self._nursery.start_soon(command.live, self._pool)
        try:
            outcome = await command.result()
        except (LauncherError, OSError) as error:
            raise ToolError(f"{self._settings.shell} in {spec.workdir}: {error}") from error
        if outcome.status and not outcome.timed_out:
            await self._explain(outcome, spec, state)
        return _result(outcome)

    async def _explain(self, outcome: Outcome, spec: CommandSpec, state: SandboxState) -> None:
        """Say that the sandbox was in the way, where that is sure."""
        printed = outcome.output.tail or outcome.output.head
        if not worth_a_look(printed):
            return
        told = None
        with trio.move_on_after(_LOOK_SECONDS):  # a file system may not answer
            told = await trio.to_thread.run_sync(
                in_the_way,
                *(state.policy.kind, self._roots(state), spec.workdir, spec.command, printed),
                abandon_on_cancel=True,
            )
        if told is not None:
            outcome.notes.append(told)

    def _prepare(self, spec: CommandSpec, state: SandboxState, asker: Asker) -> Command:
        roots = self._roots(state)
        try:
            confinement = self._confinements.lend(state.policy, roots)
        except (enforce.SandboxError, OSError) as error:
            raise ToolError(f"the sandbox cannot be had: {error}") from None
        try:
            workdir = os.open(spec.workdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            confinement.close()
            raise ToolError(f"workdir {spec.workdir}: {error.strerror}") from None
        self._ever_writable.update(map(os.path.realpath, roots))
        if _is_free_but_for_sockets(state.policy):
            self._ever_writable.add("/")
        writable = tuple(self._ever_writable)
        # What may write everything may write that, too.
        file = OutputFile(self._files, () if state.policy.full_write else writable)
        return Command(
            self._settings, spec, workdir, confinement, roots, writable, self._guard, asker, file
        )


def _is_free_but_for_sockets(policy: SandboxPolicy) -> bool:
    """Whether commands may write what their user may, yet have something to escape from.

    For root that is every program; an ordinary user's own are known by owner and mode.
    """
    return policy.full_write and not policy.full_network and os.geteuid() == 0


def _result(outcome: Outcome) -> CommandResult:
    status = outcome.status
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = 128 + number if number is not None else os.WEXITSTATUS(status)
    notes = list(outcome.notes)
    if outcome.timed_out:
        code = _TIMED_OUT
    if outcome.output.replaced:
        notes.append("bytes that are not UTF-8 were replaced by U+FFFD")
    return CommandResult(
        exit_code=code,
        signal=number,
        timed_out=outcome.timed_out,
        duration_ns=outcome.duration_ns,
        output=outcome.output,
        file=outcome.file,
        decisions=tuple(it._replace(times=count) for it, count in outcome.decisions.items()),
        background=outcome.background,
        notes=tuple(notes),
    )
