"""What a project's own files may not say — pure.

A sandboxed command may write them: the workspace is writable, and `.codex` is in it. So the files
of a trusted project may narrow what the user's own files and the command line say, and set
variables that mean nothing outside the sandbox. They may not widen anything, nor touch our own
settings. Up to workspace-write is what trust in a project means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codex_multitool.config.configuration import READ_ONLY, WORKSPACE_WRITE, Config
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.settings import (
    ENVIRONMENT,
    FILTERS,
    OURS,
    VARIABLES,
    WORKSPACE,
    Key,
    Stated,
    Statements,
    dotted,
)
from codex_multitool.config.shell_environment import ALL, CORE, NONE, EnvironmentPolicy

_MODES = (READ_ONLY, WORKSPACE_WRITE, "danger-full-access")
_INHERIT = (NONE, CORE, ALL)
_OPENING = "TMPDIR"  # workspace-write makes the folder it names writable


def hold(without: Config, with_projects: Config, projects: Sequence[Statements]) -> None:
    """Raise ConfigError if the projects' files have asked for too much."""
    for project in projects:
        for key, stated in project.items():
            if key[0] == OURS:
                raise _refusal(stated, f"is not for a project to say: [{OURS}] is the user's")
    for key in _widened(without, with_projects):
        stated = _who_states(key, projects)
        raise _refusal(stated, "gives commands more than the user's own files do")


def _refusal(stated: Stated, why: str) -> ConfigError:
    return ConfigError(
        f"`{dotted(stated.path)}` {why}",
        "set it in $CODEX_HOME/config.toml or with -c, which no sandboxed command can write",
        where=stated.where,
    )


def _who_states(key: Key, projects: Sequence[Statements]) -> Stated:
    # Patterns that are gone have been put away by a filter, in whichever form.
    for wanted in (key, FILTERS, (ENVIRONMENT,)):
        for project in reversed(projects):
            for found, stated in project.items():
                if found[: len(wanted)] == wanted:
                    return stated
    raise AssertionError(f"{key} is wider, and no project says so")


def _widened(without: Config, with_projects: Config) -> Iterator[Key]:
    modes = [_MODES.index(config.sandbox_mode or READ_ONLY) for config in (without, with_projects)]
    if modes[1] > max(modes[0], _MODES.index(WORKSPACE_WRITE)):
        yield ("sandbox_mode",)
    before, after = without.workspace_write, with_projects.workspace_write
    if not set(after.writable_roots) <= set(before.writable_roots):
        yield (WORKSPACE, "writable_roots")
    if after.network_access and not before.network_access:
        yield (WORKSPACE, "network_access")
    for name in ("exclude_slash_tmp", "exclude_tmpdir_env_var"):
        if getattr(before, name) and not getattr(after, name):
            yield (WORKSPACE, name)
    yield from _wider_environment(without.environment, with_projects.environment)


def _wider_environment(before: EnvironmentPolicy, after: EnvironmentPolicy) -> Iterator[Key]:
    if _INHERIT.index(after.inherit) > _INHERIT.index(before.inherit):
        yield (ENVIRONMENT, "inherit")
    if after.ignore_default_excludes and not before.ignore_default_excludes:
        yield (ENVIRONMENT, "ignore_default_excludes")
    if not _patterns(before.exclude) <= _patterns(after.exclude):
        yield (ENVIRONMENT, "exclude")
    kept, kept_after = _patterns(before.include_only), _patterns(after.include_only)
    if kept and not (kept_after and kept_after <= kept):
        yield (ENVIRONMENT, "include_only")
    if after.set.get(_OPENING) not in (None, before.set.get(_OPENING)):
        yield (*VARIABLES, _OPENING)


def _patterns(patterns: Sequence[str]) -> frozenset[str]:
    return frozenset(pattern.lower() for pattern in patterns)
