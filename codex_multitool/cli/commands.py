"""The subcommands, each imported only when it is named: none pays for another's imports."""

import errno
import os
import sys
from collections.abc import Mapping
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from codex_multitool import __version__, roles
from codex_multitool.cli.main import CANNOT_START
from codex_multitool.running.usage import Group

ROLES = {
    "mcp-server": (roles.MCP_SERVER, "Serve the `shell` tool to an MCP client over stdio."),
    "mcp": (roles.MCP_SERVER, "The same as mcp-server."),
    "execve-wrapper": (roles.EXECVE_WRAPPER, "Stand in for one exec of a patched shell."),
    "linux-sandbox": (roles.LINUX_SANDBOX, "Confine one command with Landlock and seccomp."),
}
SUBCOMMANDS = {
    "exec": "Run a command, judged and confined, in this terminal.",
    "doctor": "Try what protection this machine gives.",
    "debug": "Try a sandbox policy on a command.",
    "sandbox": "The same as debug.",
    "execpolicy": "Ask what the .rules say of a command.",
    "mcp-config": "Show or write an MCP client's configuration.",
    "completion": "Let bash, zsh or fish complete this command line.",
}

EXIT_STATUS = """\
\b
Exit status of every command:
  0      it did what was asked
  1      it did, and the answer is no; or it could not
  2      the command line is wrong
  125    CMD was not started, for a reason of ours: configuration, rules, sandbox
  126    CMD cannot be executed     127  CMD was not found
  128+n  ended by signal n; 141 when whoever read the output has gone
Commands that run a CMD otherwise end with its status.\
"""

HELP = f"""\
A shell for agents: every exec judged by your rules, every command confined by the kernel.

\b
Examples:
  codex-multitool exec --tree -- make              every program judged, the tree of them shown
  codex-multitool doctor                           what protection this machine gives
  codex-multitool debug landlock -- touch here     read-only: refused by the kernel
  codex-multitool debug landlock --full-auto -- make
  codex-multitool execpolicy explain 'make && git push'
  codex-multitool mcp-config codex --write         let Codex run its commands through it
  codex-multitool mcp-server                       what an MCP client is to start

\b
The executable is several programs; the name it is started under decides:
  {roles.MCP_SERVER}    as `{roles.CLI} mcp-server`
  {roles.EXECVE_WRAPPER}     as `{roles.CLI} execve-wrapper`
  {roles.LINUX_SANDBOX}      as `{roles.CLI} linux-sandbox`
  any other name           this command line

{EXIT_STATUS}
"""


def exec_role(
    role: str, arguments: list[str], environment: Mapping[str, str] | None = None
) -> NoReturn:
    """Replace this process by the executable under the name `role`.

    environment: unless it is to be this process's.
    """
    path = roles.executable(role)
    try:
        os.execve(path, [path, *arguments], os.environ if environment is None else environment)
    except OSError as error:
        if error.errno == errno.E2BIG:
            why = "give it fewer or shorter words"
        else:
            why = "all its names belong in one folder, as `make build` leaves them"
        cannot_start(f"cannot start {path}: {error.strerror}; {why}")


def cannot_start(text: str) -> NoReturn:
    """Say why CMD is not started, and end with the status that says so."""
    context = click.get_current_context(silent=True)
    program = roles.CLI if context is None else context.command_path
    click.echo(f"{program}: {text}", err=True)
    sys.exit(CANNOT_START)


class RoleCommand(click.Command):
    """Hands everything behind its name to a role, options and `--` included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        role = ROLES[self.name or ""][0]
        if ctx.resilient_parsing:  # a shell asks which words go on here
            from codex_multitool.cli.completion import words_for_role

            os.environ.update(asked := words_for_role(role, args))
            # The other roles know no completion: asked, they would do their work.
            if role != roles.MCP_SERVER or not asked:
                return []
            args = []
        exec_role(role, args)


class LazyGroup(Group):
    """The roles and the subcommands; of the latter only the one named is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*ROLES, *SUBCOMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        match cmd_name:
            case "exec":
                from codex_multitool.cli.exec import exec_command

                return exec_command
            case "debug" | "sandbox":
                from codex_multitool.cli.debug import debug

                return debug
            case "doctor":
                from codex_multitool.cli.doctor import doctor

                return doctor
            case "execpolicy":
                from codex_multitool.cli.execpolicy import execpolicy

                return execpolicy
            case "mcp-config":
                from codex_multitool.cli.mcp_config import mcp_config

                return mcp_config
            case "completion":
                from codex_multitool.cli.completion import completion

                return completion
            case name if name in ROLES:
                return RoleCommand(name, help=ROLES[name][1], add_help_option=False)
            case _:
                return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names, without importing what is behind them."""
        told = {**{name: text for name, (_, text) in ROLES.items()}, **SUBCOMMANDS}
        names = [name for name in told if name.startswith(incomplete)]
        items = [CompletionItem(name, help=told[name].rstrip(".")) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Roles"):
            formatter.write_dl([(name, text) for name, (_, text) in ROLES.items()])
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group(cls=LazyGroup, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message=f"{roles.CLI} %(version)s")
def command_line() -> None:
    """The root of all subcommands."""
