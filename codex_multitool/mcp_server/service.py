"""What is served: options and configuration made one, and all of it held to what is there."""

import math
import os
from collections.abc import Callable
from typing import NamedTuple

from codex_multitool import roles
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.limits import Limits
from codex_multitool.execpolicy.engine_process import Engine
from codex_multitool.execpolicy.rules import Policy
from codex_multitool.mcp_server.options import Options
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.running import shells
from codex_multitool.running.choice import Choice, Interception, StartError, choose, load_rules
from codex_multitool.running.configured import configured, configured_shell, workspace
from codex_multitool.running.probe import Probe
from codex_multitool.running.settings import Environments
from codex_multitool.sandbox.enforce import refusal
from codex_multitool.sandbox.policy import writable_roots

_PATIENCE = 600.0  # seconds

Said = tuple[str, str]  # a level of `logging`, and a text


class Service(NamedTuple):
    """What is served. state: of calls without one. patience: seconds.

    rules_files: all besides those in CODEX_HOME. accept_writable: that commands may write the
    server's own files. results, max_output: what results are like, see `audience`.
    """

    choice: Choice
    rules: Policy
    rules_files: tuple[str, ...]
    accept_writable: bool
    preserve_program_paths: bool
    ask_when_dangerous: bool
    environments: Environments
    limits: Limits
    own_mounts: bool
    patience: float
    workspace: str
    state: SandboxState | None
    results: str
    max_output: int | None

    def roots(self, state: SandboxState) -> tuple[str, ...]:
        """What commands may write under a state."""
        return writable_roots(state.policy, state.cwd, self.environments.shell)


def prepared(
    options: Options, probe: Probe, engine: Engine | None, say: Callable[[Said], None]
) -> Service:
    """What these options and the configuration come to. Raises StartError.

    engine: for the rules, if one was begun. say: takes what is worth a line in the log.
    """
    if options.patience is not None and math.isnan(options.patience):
        raise StartError("--approval-timeout nan: nan is no time")
    shell = options.shell and _executable(options.shell, "--shell")
    wrapper = _executable(options.wrapper or roles.executable(roles.EXECVE_WRAPPER), "--execve")
    cwd = _cwd()
    try:
        config, environments = configured(cwd)
        for warning in config.warnings:
            say(("WARNING", warning))
        shell = shell or configured_shell(config)
        place, why_none = workspace(cwd)
    except ConfigError as error:
        raise StartError(str(error)) from None
    if why_none is not None:
        say(("INFO", f"{cwd} is no workspace unless the client says so: {why_none}"))
    rules_files = (*config.rules, *options.rules)
    rules = load_rules(rules_files, engine)
    for warning in rules.warnings:
        say(("WARNING", warning))
    wanted = Interception(
        mode=options.intercept or config.intercept or "auto",
        shell=shell,
        stock_shell=shells.stock_shell(),
        patched_shell=shells.patched_shell(),
        wrapper=wrapper,
    )
    choice = choose(wanted, probe.refusal)
    if lacking := refusal(config.policy()):
        if config.sandbox_mode:
            raise StartError(f"sandbox_mode = {config.sandbox_mode!r}: {lacking}")
        # A client may still send a state that asks nothing of the kernel.
        told = f"No command runs in a sandbox on this machine: {lacking}."
        choice = choice._replace(unconfined=told)
        say(("WARNING", told))
    if choice.notice is not None:
        say(("WARNING", choice.notice))
    return Service(
        choice=choice,
        rules=rules,
        rules_files=rules_files,
        accept_writable=options.accept_writable,
        preserve_program_paths=options.preserve_program_paths,
        ask_when_dangerous=(options.dangerous_commands or config.dangerous_commands) != "run",
        environments=environments,
        limits=config.limits,
        own_mounts=config.protect == "namespace",
        patience=options.patience or config.approval_timeout or _PATIENCE,
        workspace=place,
        state=SandboxState(config.policy(), place) if config.sandbox_mode else None,
        results=options.result or config.result or "auto",
        max_output=config.max_output,
    )


def _executable(path: str, option: str) -> str:
    try:
        path = os.path.abspath(path)
    except OSError:
        raise StartError(f"{option} {path}: the current folder was removed") from None
    reason = shells.unusable(path)
    if reason is not None:
        raise StartError(f"{option} {path}: {reason}")
    return path


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None
