"""`debug` and `sandbox`: run a command under a policy, as the server would confine it."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

import click

from codex_multitool import roles
from codex_multitool.cli.main import CANNOT_START, exec_role
from codex_multitool.cli.operands import COMMAND, FOLDER
from codex_multitool.cli.permissions import PERMISSIONS, POLICIES, PermissionValueError, policy_of
from codex_multitool.cli.seatbelt import PROGRAM, command_line, profile
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.layers import load
from codex_multitool.running.limits import kernel_limits
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
$TMPDIR, or -s something else. This process becomes CMD: the exit status is CMD's, and a shell
tells 128+n if signal n ended it; 127 if it is not found, 126 if it cannot be executed, 125 if it
cannot be confined.

\b
Examples:
  codex-multitool debug landlock -- sh -c 'echo x > here'     refused: Permission denied
  codex-multitool debug landlock --full-auto -- make test
  codex-multitool debug landlock --full-auto -- curl https://example.org   refused: no network
  codex-multitool sandbox linux -C src -s disk-write-folder=out -- make

{_PERMISSIONS_HELP}
"""

SEATBELT_HELP = f"""\
Run CMD confined by macOS's Seatbelt, with the network off and nothing written.

\b
Examples:
  codex-multitool debug seatbelt --full-auto -- make test
  codex-multitool debug seatbelt --full-auto --print-profile      on any system

{_PERMISSIONS_HELP}
"""


_SECOND_NAMES = {"linux": "landlock", "macos": "seatbelt"}


class Aliased(click.Group):
    """Its commands have second names, which the list of them leaves out."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        return super().get_command(ctx, _SECOND_NAMES.get(cmd_name, cmd_name))


@click.group(cls=Aliased, context_settings={"help_option_names": ["-h", "--help"]})
def debug() -> None:
    """Try a sandbox policy on a command.

    The subcommands are also known as `linux` (landlock) and `macos` (seatbelt).
    """


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
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


_SETTINGS = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}


@debug.command(help=LANDLOCK_HELP, context_settings=_SETTINGS)
@_options
@click.argument("command", nargs=-1, required=True, metavar="CMD...", type=COMMAND)
def landlock(
    full_auto: bool, permissions: tuple[str, ...], folder: str | None, command: tuple[str, ...]
) -> None:
    """Run CMD confined; the process becomes the sandbox role."""
    policy, cwd = _policy(full_auto, permissions, folder)
    options = ["--sandbox-policy-cwd", cwd, "--sandbox-policy", json.dumps(to_object(policy))]
    _limit()
    exec_role(roles.LINUX_SANDBOX, [*options, "--", *command])


@debug.command(help=SEATBELT_HELP, context_settings=_SETTINGS)
@_options
@click.option("--print-profile", is_flag=True, help="Print the profile; run nothing.")
@click.argument("command", nargs=-1, metavar="CMD...", type=COMMAND)
def seatbelt(
    full_auto: bool,
    permissions: tuple[str, ...],
    folder: str | None,
    print_profile: bool,
    command: tuple[str, ...],
) -> None:
    """Run CMD confined; the process becomes sandbox-exec(1)."""
    policy, cwd = _policy(full_auto, permissions, folder)
    named = writable_roots(policy, cwd, os.environ)
    roots = list(dict.fromkeys(map(os.path.realpath, named)))
    if print_profile:
        click.echo(profile(policy, roots), nl=False)
        return
    if not command:
        raise click.UsageError("Missing argument 'CMD...'.")
    if sys.platform != "darwin":
        raise click.ClickException("Seatbelt sandbox is only available on macOS")
    os.environ["CODEX_SANDBOX"] = "seatbelt"
    if not policy.full_network:
        os.environ["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
    try:
        os.execv(PROGRAM, command_line(policy, roots, command))
    except OSError as error:
        click.echo(f"{roles.CLI}: {PROGRAM}: {error.strerror}", err=True)
        sys.exit(CANNOT_START)


def _limit() -> None:
    """Take on the limits that commands have; execve(2) keeps them."""
    try:
        wanted = kernel_limits(load(os.environ, None).limits)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    for kind, *both in ((resource.RLIMIT_CORE, 0, 0), *wanted):
        most = resource.getrlimit(kind)[1]
        soft, hard = (each if most == resource.RLIM_INFINITY else min(each, most) for each in both)
        resource.setrlimit(kind, (soft, hard))


def _policy(
    full_auto: bool, permissions: tuple[str, ...], folder: str | None
) -> tuple[SandboxPolicy, str]:
    """The policy asked for, and its workspace; goes to `folder`."""
    if full_auto and permissions:
        raise click.UsageError("--full-auto is a policy of its own: it goes with no -s.")
    try:
        if folder is not None:
            os.chdir(folder)
        cwd = os.getcwd()
    except OSError as error:
        raise click.ClickException(f"{folder or 'the current folder'}: {error.strerror}") from error
    if full_auto:
        return SandboxPolicy("workspace-write"), cwd
    try:
        return policy_of(permissions, cwd, os.environ.get("TMPDIR"))
    except PermissionValueError as error:
        raise click.ClickException(str(error)) from None
