"""The tool `shell` on real keepers, shells and sandboxes, without a protocol around it."""

import os
import threading
import uuid
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.keeper import zygote
from codex_multitool.mcp_server.calls import (
    Answer,
    Asker,
    CommandResult,
    CommandSpec,
    Question,
    ToolError,
)
from codex_multitool.mcp_server.keepers import Keepers
from codex_multitool.mcp_server.output_files import OutputFiles
from codex_multitool.mcp_server.shell import ShellTool
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.running.settings import Environments, Settings
from codex_multitool.sandbox.policy import SandboxPolicy
from tests import executables
from tests.end_to_end.processes import MARK
from tests.machine import kernel_refusal

PATIENCE = 60.0  # seconds for a whole scenario, on a slow machine
STOCK_SHELL = "/bin/bash"
FULL_ACCESS = SandboxPolicy("danger-full-access")
ASKS = 'prefix_rule(pattern=["mkdir"], decision="prompt")\n'

T = TypeVar("T")
Ask = Callable[[Question], Awaitable[Answer]]


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait, without blocking what is watched."""
    with trio.move_on_after(20):
        while not condition():  # noqa: ASYNC110 — /proc and files tell of no change
            await trio.sleep(0.01)
        return
    pytest.fail(f"not in time: {what}")


async def accept(_question: Question) -> Answer:
    """A human who agrees to everything."""
    return Answer("accept")


async def refuse_to_be_asked(question: Question) -> Answer:
    """For commands that nobody is to be asked about."""
    raise AssertionError(f"asked about {question}")


@dataclass(frozen=True, slots=True)
class Way:
    """How execs are seen: by a wrapper that a patched shell starts, or by the kernel."""

    name: str
    shell: str
    wrapper: str | None

    def __str__(self) -> str:
        return self.name


def way(name: str) -> Way:
    """The way of this name; skips where it is not to be had."""
    if name == "wrapper":
        wrapper = executables.built() / "codex-execve-wrapper"
        return Way(name, patched_shell(), str(wrapper))
    refused = kernel_refusal()
    if refused is not None:
        pytest.skip(f"no kernel interception: {refused}")
    return Way(name, STOCK_SHELL, None)


def patched_shell() -> str:
    """The patched bash; skips where it is not built."""
    return str(executables.patched_shell("bash"))


def with_keepers(settings: Settings, scenario: Callable[[Keepers], Awaitable[T]]) -> T:
    """Run a scenario that has keepers; they are gone when it returns."""
    before = _children()
    control = zygote.start()
    (started,) = _children() - before

    async def session() -> T:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as keeping:
                with closing(Keepers(control, settings, keeping)) as keepers:
                    result = await scenario(keepers)
                keeping.cancel_scope.cancel()
        return result

    try:
        return trio.run(session)
    finally:
        control.close()
        os.waitpid(started, 0)


def _children() -> set[int]:
    """Those of this thread: proc_tid_children(5)."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return set(map(int, children.read_text().split()))


@dataclass
class Tool:
    """A server's tool, called in `workdir` and, unless told otherwise, without login."""

    shell: ShellTool
    workdir: Path
    mark: str
    nursery: trio.Nursery
    defects: list[Exception] = field(default_factory=list)  # of who was asked

    async def __call__(
        self,
        command: str,
        *,
        policy: SandboxPolicy | None = None,
        cwd: Path | None = None,
        ask: Ask = refuse_to_be_asked,
        progress: Callable[[Callable[[], str]], None] | None = None,
        **arguments: Any,
    ) -> CommandResult:
        """Call it; without a policy as before any state update."""
        given = {"workdir": str(self.workdir), "timeout_ms": 30_000, "login": False, **arguments}
        state = None if policy is None else SandboxState(policy, str(cwd or self.workdir))

        async def asked(question: Question) -> Answer:
            try:
                return await ask(question)
            except Exception as error:
                self.defects.append(error)
                raise

        return await self.shell.run(
            CommandSpec(command, **given), state, Asker(asked, True, progress)
        )


@dataclass
class Bench:
    """Where the calls of one test run, and with what rules."""

    way: Way
    folder: Path
    rules: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    own_mounts: bool = False
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def workdir(self) -> Path:
        """The commands' working directory."""
        return self.folder / "work"

    def settings(self) -> Settings:
        """What the commands have in common."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            MARK: self.mark,
            **self.environment,
        }
        policy = parse([Source("test.rules", self.rules)])
        environments = Environments(environment, environment)
        judgement = Judgement(policy)
        found = Settings(self.way.shell, self.way.wrapper, judgement, environments)
        return found._replace(own_mounts=self.own_mounts)

    def run(self, scenario: Callable[[Tool], Awaitable[T]]) -> T:
        """Run a scenario; whatever its calls left running ends with it."""

        settings = self.settings()

        async def session(keepers: Keepers) -> T:
            async with trio.open_nursery() as nursery:
                with closing(OutputFiles({"XDG_CACHE_HOME": str(self.folder / "cache")})) as files:
                    shell = ShellTool(settings, keepers, nursery, files)
                    tool = Tool(shell, self.workdir, self.mark, nursery)
                    result = await scenario(tool)
                nursery.cancel_scope.cancel()
            for defect in tool.defects:
                raise defect
            return result

        return with_keepers(settings, session)

    def call(self, command: str, **more: Any) -> CommandResult:
        """One call on its own."""
        return self.run(lambda tool: tool(command, **more))

    def refusal(self, command: str, **more: Any) -> str | None:
        """Why one call on its own is not served; None if it is."""

        async def scenario(tool: Tool) -> str | None:
            try:
                await tool(command, **more)
            except ToolError as error:
                return str(error)
            return None

        return self.run(scenario)
