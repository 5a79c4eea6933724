"""A running server, from the opening of its session to its end."""

import gc
import os
import socket
from contextlib import closing

import trio

from codex_multitool.escalation.judgement import Judgement
from codex_multitool.mcp_server.calls import Asker, CommandResult, CommandSpec, Run
from codex_multitool.mcp_server.keepers import Keepers
from codex_multitool.mcp_server.opening import ENDING, Opening
from codex_multitool.mcp_server.output_files import OutputFiles
from codex_multitool.mcp_server.own_files import files_of
from codex_multitool.mcp_server.server import Server
from codex_multitool.mcp_server.service import Service
from codex_multitool.mcp_server.shell import ShellTool
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.mcp_server.stdio import Stdio
from codex_multitool.running.settings import Settings


def serve(service: Service, opening: Opening, zygote: socket.socket) -> int:
    """Serve until the client or a signal ends it; returns the exit status."""
    judgement = Judgement(service.rules, service.preserve_program_paths, service.ask_when_dangerous)
    found = Settings(
        service.choice.shell,
        service.choice.wrapper,
        judgement,
        service.environments,
        service.limits,
        service.own_mounts,
    )
    # What is there now stays: the collector need not look at it again.
    gc.freeze()
    gc.enable()
    return trio.run(_start, service, found, opening, zygote)


async def _start(service: Service, found: Settings, opening: Opening, zygote: socket.socket) -> int:
    # There are keepers until the last command has ended: the outer nursery is for that.
    with closing(OutputFiles(os.environ)) as files:
        async with trio.open_nursery() as keeping:
            with closing(Keepers(zygote, found, keeping)) as keepers:
                status = await _serve(service, found, opening, keepers, files)
            keeping.cancel_scope.cancel()
    return status


async def _serve(
    service: Service, found: Settings, opening: Opening, keepers: Keepers, files: OutputFiles
) -> int:
    status = 0
    async with trio.open_nursery() as nursery:

        async def on_signal() -> None:
            nonlocal status
            with trio.open_signal_receiver(*ENDING) as signals:
                async for number in signals:
                    status = 128 + number
                    nursery.cancel_scope.cancel()

        tool = ShellTool(found, keepers, nursery, files, files_of(service))
        server = Server(
            _with_state(tool.run, service.state),
            opening.conversation,
            patience=service.patience,
            cwd=service.workspace,
            expect=tool.expect,
            begun=opening.unanswered,
            results=service.results,
            size=service.max_output,
        )
        nursery.start_soon(on_signal)
        nursery.start_soon(files.sweep)
        tool.expect(service.state)
        await Stdio(opening.descriptors, opening.unsent).serve(server.serve)
        nursery.cancel_scope.cancel()
    return status


def _with_state(run: Run, configured_state: SandboxState | None) -> Run:
    """`run`, with a state for the calls before the client has sent one."""

    async def with_state(
        spec: CommandSpec, state: SandboxState | None, asker: Asker
    ) -> CommandResult:
        return await run(spec, state or configured_state, asker)

    return with_state
