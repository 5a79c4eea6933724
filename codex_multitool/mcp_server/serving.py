"""From options and configuration to a running server, and to its end."""

import logging
import os
import signal
import socket
from dataclasses import dataclass

import trio

from codex_multitool import roles
from codex_multitool.config.configuration import Limits
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.escalation.decide import Judgement
from codex_multitool.launcher.pool import Pool
from codex_multitool.mcp_server.calls import Asker, CommandResult, CommandSpec, Run, SandboxState
from codex_multitool.mcp_server.own_files import OwnFiles, own_files
from codex_multitool.mcp_server.server import Server
from codex_multitool.mcp_server.shell import ShellTool
from codex_multitool.mcp_server.stdio import Stdio
from codex_multitool.running import shells
from codex_multitool.running.configured import (
    Environments,
    configured,
    configured_shell,
    workspace,
)
from codex_multitool.running.settings import (
    Interception,
    Settings,
    StartError,
    load_rules,
    settings,
)
from codex_multitool.sandbox.policy import writable_roots

log = logging.getLogger(__name__)

INSTRUCTIONS = "This server provides a tool to execute shell commands and return their output."
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_PATIENCE = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of the role, checked. None: what the configuration says, or the default.

    patience: seconds. rules: besides those of the configuration. accept_writable: that commands
    may write the server's own files.
    """

    intercept: str | None
    shell: str | None
    wrapper: str
    rules: tuple[str, ...]
    preserve_program_paths: bool
    dangerous_commands: str | None
    patience: float | None
    accept_writable: bool


@dataclass(frozen=True, slots=True)
class Service:
    """What is served: options and configuration made one.

    state: of calls without one. home: CODEX_HOME. rules: all files besides those in it.
    """

    interception: Interception
    judgement: Judgement
    environments: Environments
    limits: Limits
    own_mounts: bool
    patience: float
    workspace: str
    state: SandboxState | None
    home: str
    rules: tuple[str, ...]
    accept_writable: bool


def serve(options: Options, zygote: socket.socket) -> int:
    """Serve until the client or a signal ends it; returns the exit status. Raises StartError."""
    return trio.run(_start, _service(options), Stdio(), zygote)


def _service(options: Options) -> Service:
    cwd = _cwd()
    try:
        config, environments = configured(cwd)
        shell = options.shell or configured_shell(config)
        place, why_none = workspace(cwd)
        home = codex_home(os.environ)
    except ConfigError as error:
        raise StartError(str(error)) from None
    if why_none is not None:
        log.info("%s is no workspace unless the client says so: %s", cwd, why_none)
    rules = (*config.rules, *options.rules)
    return Service(
        interception=Interception(
            mode=options.intercept or config.intercept or "auto",
            shell=shell,
            stock_shell=shells.stock_shell(),
            patched_shell=shells.patched_shell(),
            wrapper=options.wrapper,
        ),
        judgement=Judgement(
            load_rules(rules),
            options.preserve_program_paths,
            (options.dangerous_commands or config.dangerous_commands) != "run",
        ),
        environments=environments,
        limits=config.limits,
        own_mounts=config.protect == "namespace",
        patience=options.patience or config.approval_timeout or _PATIENCE,
        workspace=place,
        state=SandboxState(config.policy(), place) if config.sandbox_mode else None,
        home=home,
        rules=rules,
        accept_writable=options.accept_writable,
    )


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


async def _start(service: Service, stdio: Stdio, zygote: socket.socket) -> int:
    status, failure = 0, None
    # Launchers are listened to until the last command has ended: the outer nursery is for that.
    async with trio.open_nursery() as listening:
        pool = Pool(zygote, listening)
        try:
            found, notice = await settings(
                service.interception,
                service.judgement,
                pool,
                service.environments,
                service.limits,
                own_mounts=service.own_mounts,
            )
            own = _own(service, found)
        except StartError as error:
            failure = error  # a nursery would wrap it in a group
        else:
            instructions = " ".join(filter(None, (INSTRUCTIONS, notice)))
            status = await _serve(service, found, own, instructions, stdio, pool)
        listening.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return status


def _own(service: Service, found: Settings) -> OwnFiles:
    """The files no command may write. Raises StartError if the configured state would let one."""
    executable = roles.executable(roles.MCP_SERVER)
    files = own_files(executable, service.home, service.rules, found.shell, found.wrapper)
    own = OwnFiles(files, accepted=service.accept_writable)
    state = service.state
    roots = writable_roots(state.policy, state.cwd, found.environment) if state else ()
    if reason := own.exposed(roots):
        raise StartError(f"the configured sandbox: {reason}")
    return own


async def _serve(
    service: Service,
    found: Settings,
    own: OwnFiles,
    instructions: str,
    stdio: Stdio,
    pool: Pool,
) -> int:
    status = 0
    async with trio.open_nursery() as nursery:

        async def on_signal() -> None:
            nonlocal status
            with trio.open_signal_receiver(*_ENDING) as signals:
                async for number in signals:
                    status = 128 + number
                    nursery.cancel_scope.cancel()

        tool = ShellTool(found, pool, nursery, own)
        server = Server(
            _with_state(tool.run, service.state),
            instructions=instructions,
            patience=service.patience,
            cwd=service.workspace,
            refusal=tool.refusal,
        )
        nursery.start_soon(on_signal)
        await stdio.serve(server.serve)
        nursery.cancel_scope.cancel()
    return status


def _with_state(run: Run, configured_state: SandboxState | None) -> Run:
    """`run`, with a state for the calls before the client has sent one."""

    async def with_state(
        spec: CommandSpec, state: SandboxState | None, asker: Asker
    ) -> CommandResult:
        return await run(spec, state or configured_state, asker)

    return with_state
