"""The command line of the role as click reads it, with its help and its errors."""

from collections.abc import Sequence

import click

from codex_multitool import __version__, roles
from codex_multitool.mcp_server.options import (
    DANGEROUS_COMMANDS,
    INTERCEPT,
    RESULTS,
    SHELL_VARIABLE,
    Options,
)
from codex_multitool.running import standard_streams
from codex_multitool.running.usage import complain

NAME = roles.MCP_SERVER
HELP = f"""\
Serve the MCP tool `shell` over stdin and stdout.

Commands run in a sandbox (read-only until the client sends another state). Every program the
shell starts is judged by the `.rules` files in $CODEX_HOME/rules (default ~/.codex/rules): `allow`
runs it outside the sandbox, `prompt` asks you through your client, `forbidden` refuses it, and
whatever no rule names runs inside.

$CODEX_HOME/config.toml says what variables commands see, and has defaults for the options below.

\b
A client's configuration, say ~/.codex/config.toml:
  [mcp_servers.shell-tool]
  command = "/opt/codex-multitool/{NAME}"
  args = ["--rules", "/path/to/more.rules"]

\b
Exit status: 0 when the client has ended, 1 if the server cannot start, 2 for a wrong command
line, 128+n when signal n ended it.
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message=f"{NAME} %(version)s")
@click.option(
    "--intercept",
    type=click.Choice(INTERCEPT),
    help="How execs are seen. kernel: every one of the whole process tree, with any shell. "
    "wrapper: those a patched shell does itself. auto: kernel where it works, else wrapper, "
    "and says so.  [default: as configured, else auto]",
)
@click.option(
    "--shell",
    "--bash",
    "shell",
    envvar=SHELL_VARIABLE,
    type=click.Path(readable=False),
    metavar="PATH",
    help="The shell that runs commands; in wrapper mode, a bash or zsh patched to honour "
    "EXEC_WRAPPER.  [default: $CODEX_BASH_PATH; as configured; else the system's bash, in wrapper "
    "mode the one that `make shells` built]",
)
@click.option(
    "--execve",
    "wrapper",
    type=click.Path(readable=False),
    metavar="PATH",
    help=f"The exec wrapper.  [default: {roles.EXECVE_WRAPPER} beside this executable]",
)
@click.option(
    "--rules",
    "rules",
    multiple=True,
    type=click.Path(readable=False),
    metavar="FILE",
    help="A rules file besides those in $CODEX_HOME/rules and the configured ones. May be given "
    "again.",
)
@click.option(
    "--preserve-program-paths",
    is_flag=True,
    help="Match rules against the full path of a program only, never its base name.",
)
@click.option(
    "--dangerous-commands",
    type=click.Choice(DANGEROUS_COMMANDS),
    help="What to do with a command like `rm -rf` that no rule names.  [default: as configured, "
    "else ask]",
)
@click.option(
    "--approval-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long a question waits for its answer; then the program is denied.  [default: as "
    "configured, else 600]",
)
@click.option(
    "--result",
    type=click.Choice(RESULTS),
    help="How the text of a result is put. text: the output, and words. json: as the shell tool "
    "server that came with Codex did. auto: json for Codex and for clients before 2025-06-18, "
    "text for all others.  [default: as configured, else auto]",
)
@click.option(
    "--accept-writable-server",
    "accept_writable",
    is_flag=True,
    help="Serve although commands may write this server's own files, rules or configuration, and "
    "so what the next server does.",
)
def command_line(
    intercept: str | None,
    shell: str | None,
    wrapper: str | None,
    rules: tuple[str, ...],
    preserve_program_paths: bool,
    dangerous_commands: str | None,
    approval_timeout: float | None,
    result: str | None,
    accept_writable: bool,
) -> Options:
    """What was given, as values."""
    return Options(
        intercept=intercept,
        shell=shell,
        wrapper=wrapper,
        rules=rules,
        preserve_program_paths=preserve_program_paths,
        dangerous_commands=dangerous_commands,
        patience=approval_timeout,
        accept_writable=accept_writable,
        result=result,
    )


def parse(arguments: Sequence[str]) -> Options | int:
    """The options; or the exit status, where all there is to say has been said."""
    standard_streams.claim()
    try:
        found = command_line.main(args=list(arguments), prog_name=NAME, standalone_mode=False)
    except click.ClickException as error:
        return complain(error, NAME)
    except standard_streams.OutputError as error:  # of --help and --version
        if str(error):
            click.echo(f"{NAME}: {error}", err=True)
        return error.status
    return found if isinstance(found, Options) else int(found)
