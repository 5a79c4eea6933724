"""What the settings of all layers come to — pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

from codex_multitool.config.limits import Limits
from codex_multitool.config.settings import (
    ENVIRONMENT,
    FILTERS,
    KEPT_BY_PROGRAM,
    OURS,
    VARIABLES,
    WORKSPACE,
    Statements,
)
from codex_multitool.config.shell_environment import EnvironmentPolicy
from codex_multitool.sandbox.policy import SandboxPolicy

READ_ONLY, WORKSPACE_WRITE = "read-only", "workspace-write"

T = TypeVar("T")


class Layer(NamedTuple):
    """A source of settings. unread: why it is not in force."""

    name: str
    unread: str | None = None


class Config(NamedTuple):
    """The configuration. None, in what is ours: not stated.

    workspace_write: that policy with its settings, whether or not it is the mode.
    users_variables: what of environment.set no project says.
    stated: who has the last word on what.
    layers: low to high. warnings: for the user to read.
    """

    sandbox_mode: str | None = None
    workspace_write: SandboxPolicy = SandboxPolicy(WORKSPACE_WRITE)
    environment: EnvironmentPolicy = EnvironmentPolicy()
    users_variables: Mapping[str, str] = MappingProxyType({})
    intercept: str | None = None
    shell: str | None = None
    rules: tuple[str, ...] = ()
    approval_timeout: float | None = None
    dangerous_commands: str | None = None
    protect: str | None = None
    keep_environment: tuple[str, ...] = ()
    keep_environment_of: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    drop_environment: tuple[str, ...] = ()
    limits: Limits = Limits()
    max_output: int | None = None
    result: str | None = None
    stated: Statements = MappingProxyType({})
    layers: tuple[Layer, ...] = ()
    warnings: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        """The same settings, wherever they were stated."""
        return isinstance(other, Config) and self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash((self.sandbox_mode, self.workspace_write, self.intercept, self.shell))

    def _settings(self) -> dict[str, object]:
        return {name: value for name, value in self._asdict().items() if name != "stated"}

    def policy(self, mode: str | None = None) -> SandboxPolicy:
        """The sandbox of a mode; unless one is given, of the configured one, else read-only."""
        mode = mode or self.sandbox_mode or READ_ONLY
        return self.workspace_write if mode == WORKSPACE_WRITE else SandboxPolicy(mode)


def configuration(
    found: Statements, layers: Sequence[Layer] = (), warnings: Sequence[str] = ()
) -> Config:
    """The configuration that merged settings make."""

    def get(default: T, *key: str) -> T:
        # What the checks of the settings have let through has the type of the default.
        return cast("T", found[key].value) if key in found else default

    return Config(
        sandbox_mode=get(None, "sandbox_mode"),
        workspace_write=SandboxPolicy(
            WORKSPACE_WRITE,
            network_access=get(False, WORKSPACE, "network_access"),
            writable_roots=get((), WORKSPACE, "writable_roots"),
            exclude_tmpdir_env_var=get(False, WORKSPACE, "exclude_tmpdir_env_var"),
            exclude_slash_tmp=get(False, WORKSPACE, "exclude_slash_tmp"),
        ),
        environment=EnvironmentPolicy(
            inherit=get("core", ENVIRONMENT, "inherit"),
            ignore_default_excludes=get(False, ENVIRONMENT, "ignore_default_excludes"),
            exclude=(*get((), ENVIRONMENT, "exclude"), *_filters(found, "exclude")),
            set={key[-1]: str(it.value) for key, it in found.items() if key[:-1] == VARIABLES},
            include_only=(*get((), ENVIRONMENT, "include_only"), *_filters(found, "include")),
        ),
        intercept=get(None, OURS, "intercept"),
        shell=get(None, OURS, "shell"),
        rules=get((), OURS, "rules"),
        approval_timeout=get(None, OURS, "approval_timeout"),
        dangerous_commands=get(None, OURS, "dangerous_commands"),
        protect=get(None, OURS, "protect"),
        keep_environment=get((), OURS, "keep_environment"),
        keep_environment_of={
            key[-1]: cast("tuple[str, ...]", it.value)
            for key, it in found.items()
            if key[:-1] == KEPT_BY_PROGRAM
        },
        drop_environment=get((), OURS, "drop_environment"),
        limits=Limits(
            memory=get(None, OURS, "max_memory"),
            processes=get(Limits().processes, OURS, "max_processes"),
            cpu_seconds=get(None, OURS, "max_cpu_seconds"),
            file_size=get(None, OURS, "max_file_size"),
            open_files=get(None, OURS, "max_open_files"),
        ),
        max_output=get(None, OURS, "max_output"),
        result=get(None, OURS, "result"),
        stated=found,
        layers=tuple(layers),
        warnings=tuple(warnings),
    )


def _filters(found: Statements, what: str) -> list[str]:
    return [key[-1] for key, it in found.items() if key[:-1] == FILTERS and it.value == what]
