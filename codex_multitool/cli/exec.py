"""`codex-multitool exec`: a command judged and confined as the server does it, in a terminal."""

from typing import Any

import click

from codex_multitool.cli.exec_options import INTERCEPT, MODES, SHELL_VARIABLE, Options
from codex_multitool.cli.exec_start import run
from codex_multitool.cli.operands import COMMAND, DURATION, FILE, FOLDER
from codex_multitool.cli.overrides import HELP as OVERRIDES_HELP
from codex_multitool.cli.overrides import override_option

HELP = f"""\
Run CMD in the sandbox, every program it starts judged by your rules.

Rules are the `.rules` files in $CODEX_HOME/rules (default ~/.codex/rules), and those of --rules:
`allow` runs a program outside the sandbox, `prompt` asks you at the terminal, `forbidden`
refuses it, and whatever no rule names runs inside. CMD has your stdin, stdout and stderr, and the
environment that [shell_environment_policy] makes; a program outside has all of yours.

A single word is a script for the shell; several are a program and its arguments.

\b
Examples:
  codex-multitool exec -- git status
  codex-multitool exec --sandbox workspace-write -- make test
  codex-multitool exec --tree 'cd src && make; git fetch'     what ran, where, and by which rule
  codex-multitool exec --rules ci.rules --timeout 600 -- ./build.sh
  codex-multitool exec --learn new.rules -- ./release.sh      rules to allow what it ran: review!
  codex-multitool exec --json-fd 3 -- make 3>result.json      the result apart from the output

\b
Questions are put at the terminal (/dev/tty):
  y  once     s  for the same command during this run     n  no, as Enter alone
Without a terminal such a program is refused, and says how to allow it.

Ctrl-C, Ctrl-\\ and Ctrl-Z reach CMD. What it leaves running in the background is ended with it.

{OVERRIDES_HELP}
\b
Exit status: that of CMD, or
  128+n  CMD was ended by signal n     124  its time was up     125  it could not be started
  2      the command line is wrong     126  CMD cannot be executed     127  it was not found
"""


@click.command(
    "exec",
    help=HELP,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
@click.option(
    "--rules",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="A rules file more. May be given again.",
)
@click.option(
    "-s",
    "--sandbox",
    "mode",
    type=click.Choice(MODES),
    help="What CMD may write: nothing; DIR, /tmp and $TMPDIR; everything, with the network.  "
    "[default: as configured, else read-only]",
)
@click.option("-C", "--cd", "directory", type=FOLDER, metavar="DIR", help="Run CMD in DIR.")
@override_option
@click.option(
    "--intercept",
    type=click.Choice(INTERCEPT),
    help="How execs are seen. kernel: every one of the whole process tree, with any shell. "
    "wrapper: those a patched shell does itself. auto: kernel where it works.  "
    "[default: as configured, else auto]",
)
@click.option(
    "--shell",
    envvar=SHELL_VARIABLE,
    type=FILE,
    metavar="PATH",
    help="The shell that runs CMD.  [default: $CODEX_BASH_PATH; as configured; else the system's "
    "bash, in wrapper mode the one that `make shells` built]",
)
@click.option("--tree", is_flag=True, help="Print on stderr, at the end, every exec and its fate.")
@click.option("--json", is_flag=True, help="Print the result as the last line of stdout, as JSON.")
@click.option(
    "--json-fd",
    type=click.IntRange(3, 2**31 - 1),
    metavar="N",
    help="Print the result to descriptor N instead; CMD does not get it.",
)
@click.option(
    "--learn",
    type=FILE,
    metavar="FILE",
    help="Write rules that would have allowed what ran; one rule per command line, for review.",
)
@click.option(
    "--timeout",
    type=DURATION,
    metavar="TIME",
    help="End CMD after that, in seconds, or like 500ms, 90s, 2m, 1h; the clock stands still while "
    "you are asked.",
)
@click.option(
    "--accept-writable-server",
    "accept_writable",
    is_flag=True,
    help="Run CMD although it could write codex-multitool's own files, rules or configuration, and "
    "so what the next run or server does.",
)
@click.argument("words", nargs=-1, required=True, metavar="CMD...", type=COMMAND)
def exec_command(overrides: tuple[str, ...], shell: str | None, **given: Any) -> None:
    """Run it as given."""
    given = {name: value for name, value in given.items() if value is not None}
    source = click.get_current_context().get_parameter_source("shell")
    named = source is click.core.ParameterSource.COMMANDLINE
    options = Options(overrides=overrides, shell=shell, shell_named=named, **given)
    run(options)
