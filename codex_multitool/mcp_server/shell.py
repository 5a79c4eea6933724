"""What the `shell` tool does: a command in its sandbox, ordered of a keeper."""

import os
from collections import OrderedDict
from collections.abc import Iterable

import trio

from codex_multitool.escalation.guard import Guard
from codex_multitool.escalation.local_watch import LocalWatch
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.keeper.protocol import Order, Refused, Sandbox
from codex_multitool.mcp_server.calls import (
    Asker,
    CommandResult,
    CommandSpec,
    ToolError,
)
from codex_multitool.mcp_server.command import Command
from codex_multitool.mcp_server.guarding import Guarding
from codex_multitool.mcp_server.in_the_way import in_the_way, worth_a_look
from codex_multitool.mcp_server.keepers import KeeperError, Keepers
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.running.own_files import OwnFiles
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots

_MAX_SEEN = 8  # sandboxes remembered; a client uses one or two
_READ_ONLY = SandboxPolicy("read-only")
_DEVICES = "/dev"  # shared memory and terminals: writable in most sandboxes, home of no program
_LOOK_SECONDS = 3.0
_TIMED_OUT = 124  # as timeout(1)


class ShellTool:
    """Runs the calls of one session. nursery: for what goes on after their results.

    own: what no command may write, if anything. files: where outputs go that are too large for a
    result.
    """

    def __init__(
        self,
        settings: Settings,
        keepers: Keepers,
        nursery: trio.Nursery,
        files: OutputFiles,
        own: OwnFiles | None = None,
    ) -> None:
        self._settings = settings
        self._keepers = keepers
        self._nursery = nursery
        self._own = own or OwnFiles()
        self._files = files
        self._seen = OrderedDict[object, Sandbox]()
        self._guard = Guard(keepers.quiet)
        # What any sandbox of this session could write stays untrusted for its whole life.
        self._ever_writable = {_DEVICES: None}
        self._untrusted: tuple[str, ...] = (_DEVICES,)

    def expect(self, state: SandboxState | None = None) -> str | None:
        """Calls will come. Why their commands cannot run, where that can be seen beforehand.

        state: theirs, if it is known.
        """
        state = state or SandboxState(_READ_ONLY, "")
        roots = self._roots(state)
        reason = self._own.exposed(roots)
        # What mounts there will be is only known when a command starts.
        known = reason is None and not (roots and self._settings.own_mounts)
        self._keepers.expect(Sandbox(state.policy, roots) if known else None)
        return reason

    def _roots(self, state: SandboxState) -> tuple[str, ...]:
        return writable_roots(state.policy, state.cwd, self._settings.environment)

    async def run(
        self, spec: CommandSpec, state: SandboxState | None, asker: Asker
    ) -> CommandResult:
        """Run one call. Raises ToolError when its directory, sandbox or shell cannot be had."""
        state = state or SandboxState(_READ_ONLY, spec.workdir)
        try:
            command = await self._ordered(spec, state, asker)
            outcome = await command.result()
        except KeeperError as error:
            raise ToolError(self._failed(spec, str(error))) from error
        if isinstance(outcome, Refused):
            raise ToolError(self._refused(spec, outcome))
        if outcome.status and not outcome.timed_out:
            outcome = await self._explained(outcome, spec, state)
        return _result(outcome)

    async def _ordered(self, spec: CommandSpec, state: SandboxState, asker: Asker) -> Command:
        sandbox = self._sandbox(state)
        watch = LocalWatch(self._guard, sandbox.roots, spec.workdir)
        try:
            if self._settings.own_mounts:
                sandbox = sandbox._replace(mounts=tuple(watch.standing()))
            keeper = await self._keepers.give(self._order(spec, sandbox, asker))
        except BaseException:
            watch.end()
            raise
        watch.runs_below(keeper.pid)
        # What may write everything may write that, too.
        file = OutputFile(self._files, () if state.policy.full_write else self._untrusted)
        guarding = Guarding(watch, self._nursery)
        return Command(self._keepers, keeper, self._nursery, asker, file, guarding)

    def _sandbox(self, state: SandboxState) -> Sandbox:
        """What a command is confined by, looked at once for all of its kind."""
        roots = self._roots(state)
        # A directory removed and made again is another one.
        key = (state.policy, tuple((root, _identity(root)) for root in roots))
        if key in self._seen:
            self._seen.move_to_end(key)
        else:
            if reason := self._own.exposed(roots):
                raise ToolError(f"the sandbox cannot be had: {reason}")
            self._seen[key] = Sandbox(state.policy, roots)
            if len(self._seen) > _MAX_SEEN:
                self._seen.popitem(last=False)
        self._distrust(map(os.path.realpath, roots))
        if _is_free_but_for_sockets(state.policy):
            self._distrust(("/",))
        return self._seen[key]

    def _distrust(self, roots: Iterable[str]) -> None:
        known = len(self._ever_writable)
        self._ever_writable.update(dict.fromkeys(roots))
        if len(self._ever_writable) > known:
            self._untrusted = tuple(self._ever_writable)

    def _order(self, spec: CommandSpec, sandbox: Sandbox, asker: Asker) -> Order:
        return Order(
            argv=(self._settings.shell, "-lc" if spec.login else "-c", spec.command),
            workdir=spec.workdir,
            sandbox=sandbox,
            writable=self._untrusted,
            timeout=spec.timeout_ms / 1000,
            size=asker.size,
            # Whatever it may write itself: others may have written what it obeys outside.
            watched=True,
            lines=asker.progress is not None,
        )

    def _refused(self, spec: CommandSpec, refused: Refused) -> str:
        if refused.sandbox:
            return f"the sandbox cannot be had: {refused.text}"
        if refused.workdir:
            return refused.text
        return self._failed(spec, refused.text)

    def _failed(self, spec: CommandSpec, why: str) -> str:
        return f"{self._settings.shell} in {spec.workdir}: {why}"

    async def _explained(self, outcome: Outcome, spec: CommandSpec, state: SandboxState) -> Outcome:
        """Say that the sandbox was in the way, where that is sure."""
        printed = outcome.output.tail or outcome.output.head
        if not worth_a_look(printed):
            return outcome
        told = None
        with trio.move_on_after(_LOOK_SECONDS):  # a file system may not answer
            told = await trio.to_thread.run_sync(
                in_the_way,
                *(state.policy.kind, self._roots(state), spec.workdir, spec.command, printed),
                abandon_on_cancel=True,
            )
        return outcome if told is None else outcome._replace(notes=(*outcome.notes, told))


def _is_free_but_for_sockets(policy: SandboxPolicy) -> bool:
    """Whether commands may write what their user may, yet have something to escape from.

    For root that is every program; an ordinary user's own are known by owner and mode.
    """
    return policy.full_write and not policy.full_network and os.geteuid() == 0


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
        decisions=outcome.decisions,
        background=outcome.background,
        notes=tuple(notes),
    )
