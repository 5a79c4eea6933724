"""`debug` and `sandbox`: run a command under a policy, as the server would confine it."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from codex_multitool import roles
from codex_multitool.cli.commands import cannot_start, exec_role
from codex_multitool.cli.operands import COMMAND, FOLDER
from codex_multitool.cli.overrides import HELP as OVERRIDES_HELP
from codex_multitool.cli.overrides import override_option
from codex_multitool.cli.permissions import (
    PERMISSIONS,
    POLICIES,
    PermissionValueError,
    policy_of,
    workspace_among,
)
from codex_multitool.cli.seatbelt import PROGRAM, command_line, profile
from codex_multitool.cli.stated import refuse_both, stated_here
from codex_multitool.config.configuration import Config
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.limits import Limits
from codex_multitool.running.usage import Group
from codex_multitool.sandbox.policy import SandboxPolicy, to_object, writable_roots

_PERMISSIONS_HELP = "\n".join(
    [
        "\b",
        "PERMISSION, in two older spellings; -s may be given again:",
        *(f"  {value}" for value in (*PERMISSIONS, "disk-write-folder=PATH")),
        "or, alone, a whole policy:",
        *(f"  {value}" for value in POLICIES),
    ]
)

LANDLOCK_HELP = f"""\
Run CMD confined by Landlock and seccomp, with the network off.

Nothing can be written but /dev/null, unless --full-auto opens the current folder, /tmp and
$TMPDIR, or -s something else. A `sandbox_mode` in a file is for the server and for `exec`; here
only -c states one. CMD gets the environment that [shell_environment_policy] makes.

\b
Examples:
  codex-multitool debug landlock -- sh -c 'echo x > here'     refused: Permission denied
  codex-multitool debug landlock --full-auto -- make test
  codex-multitool debug landlock --full-auto -- curl https://example.org   refused: no network
  codex-multitool sandbox linux -C src -s disk-write-folder=out -- make

{OVERRIDES_HELP}
{_PERMISSIONS_HELP}

\b
Exit status: that of CMD, as this process becomes CMD, or
  125  it could not be started or confined     126  it cannot be executed     127  not found
  2    the command line is wrong               128+n  as a shell tells it: ended by signal n
"""

SEATBELT_HELP = f"""\
Run CMD confined by macOS's Seatbelt, with the network off and nothing written.

\b
Examples:
  codex-multitool debug seatbelt --full-auto -- make test
  codex-multitool debug seatbelt --full-auto --print-profile      on any system

{OVERRIDES_HELP}
{_PERMISSIONS_HELP}

\b
Exit status: that of CMD, as this process becomes it; 125 if it could not be started, 2 for a
wrong command line. With --print-profile 0.
"""


_SECOND_NAMES = {"linux": "landlock", "macos": "seatbelt"}


class Aliased(Group):
    """Its commands have second names, which the list of them leaves out."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        return super().get_command(ctx, _SECOND_NAMES.get(cmd_name, cmd_name))


GROUP_HELP = """\
Try a sandbox policy on a command.

The subcommands are also known as `linux` (landlock) and `macos` (seatbelt).

\b
Examples:
  codex-multitool debug landlock -- touch here            read-only: refused by the kernel
  codex-multitool sandbox linux --full-auto -- make       this folder and /tmp are writable
"""


@click.group(cls=Aliased, help=GROUP_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def debug() -> None:
    """Try a sandbox policy on a command."""


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """What both sandboxes are told."""
    decorators: list[Callable[[Any], Any]] = [
        click.option(
            "--full-auto", is_flag=True, help="Let CMD write here and in the temporary folders."
        ),
        click.option(
            "-s",
            "--sandbox-permission",
            "permissions",
            multiple=True,
            metavar="PERMISSION",
            help="What CMD may do; see above.",
        ),
        click.option("-C", "--cd", "folder", type=FOLDER, metavar="DIR", help="Go to DIR first."),
        override_option,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


_SETTINGS = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@debug.command(help=LANDLOCK_HELP, context_settings=_SETTINGS)
@_options
@click.argument("command", nargs=-1, required=True, metavar="CMD...", type=COMMAND)
def landlock(
    full_auto: bool,
    permissions: tuple[str, ...],
    overrides: tuple[str, ...],
    folder: str | None,
    command: tuple[str, ...],
) -> None:
    """Run CMD confined; the process becomes the sandbox role."""
    policy, cwd, environment, limits = _wanted(full_auto, permissions, overrides, folder)
    options = ["--sandbox-policy-cwd", cwd, "--sandbox-policy", json.dumps(to_object(policy))]
    _limit(limits)
    exec_role(roles.LINUX_SANDBOX, [*options, "--", *command], environment)


@debug.command(help=SEATBELT_HELP, context_settings=_SETTINGS)
@_options
@click.option("--print-profile", is_flag=True, help="Print the profile; run nothing.")
@click.argument("command", nargs=-1, metavar="CMD...", type=COMMAND)
def seatbelt(
    full_auto: bool,
    permissions: tuple[str, ...],
    overrides: tuple[str, ...],
    folder: str | None,
    print_profile: bool,
    command: tuple[str, ...],
) -> None:
    """Run CMD confined; the process becomes sandbox-exec(1)."""
    policy, cwd, environment, _ = _wanted(full_auto, permissions, overrides, folder)
    named = writable_roots(policy, cwd, environment)
    roots = list(dict.fromkeys(map(os.path.realpath, named)))
    if print_profile:
        click.echo(profile(policy, roots), nl=False)
        return
    if not command:
        raise click.UsageError("Missing argument 'CMD...'.")
    if sys.platform != "darwin":
        cannot_start("Seatbelt sandbox is only available on macOS")
    environment["CODEX_SANDBOX"] = "seatbelt"
    if not policy.full_network:
        environment["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
    try:
        os.execve(PROGRAM, command_line(policy, roots, command), environment)
    except OSError as error:
        cannot_start(f"{PROGRAM}: {error.strerror}")


def _limit(limits: Limits) -> None:
    """Take on the limits that commands have; execve(2) keeps them."""
    from codex_multitool.running.limits import kernel_limits, process_limit

    wanted = (*kernel_limits(limits), *process_limit(limits))
    for kind, *both in ((resource.RLIMIT_CORE, 0, 0), *wanted):
        most = resource.getrlimit(kind)[1]
        soft, hard = (each if most == resource.RLIM_INFINITY else min(each, most) for each in both)
        resource.setrlimit(kind, (soft, hard))


class _Wanted(NamedTuple):
    """policy: with its workspace. environment, limits: CMD's."""

    policy: SandboxPolicy
    workspace: str
    environment: dict[str, str]
    limits: Limits


def _wanted(
    full_auto: bool, permissions: tuple[str, ...], overrides: tuple[str, ...], folder: str | None
) -> _Wanted:
    """What the command line and the configuration come to; goes to `folder`."""
    from codex_multitool.running.configured import configured

    if full_auto and permissions:
        raise click.UsageError("--full-auto is a policy of its own: it goes with no -s.")
    try:
        if folder is not None:
            os.chdir(folder)
        cwd = os.getcwd()
    except OSError as error:
        cannot_start(f"{folder or 'the current folder'}: {error.strerror}")
    try:
        config, environments = configured(cwd, overrides)
    except ConfigError as error:
        cannot_start(str(error))
    for warning in config.warnings:
        click.echo(f"{click.get_current_context().command_path}: {warning}", err=True)
    environment = dict(environments.shell)
    if folder is not None and "PWD" in environment:
        environment["PWD"] = cwd
    if permissions:
        for key in ("sandbox_mode", "sandbox_workspace_write"):
            refuse_both(config, "-s", permissions, key)
        try:
            policy, workspace = policy_of(permissions, cwd, environment.get("TMPDIR"))
        except PermissionValueError as error:
            raise click.UsageError(str(error)) from None
        found = workspace_among(policy, workspace, os.path.isdir)
        return _Wanted(*found, environment, config.limits)
    return _Wanted(_configured_policy(full_auto, config), cwd, environment, config.limits)


def _configured_policy(full_auto: bool, config: Config) -> SandboxPolicy:
    """Read-only, unless the command line says otherwise: who tries a sandbox wants to be in one."""
    refuse_both(config, "--full-auto", full_auto, "sandbox_mode")
    if full_auto:
        return config.policy("workspace-write")
    return config.policy() if stated_here(config, "sandbox_mode") else SandboxPolicy("read-only")
