"""`completion`: what a shell must be told to complete our command line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete, get_completion_class

from codex_multitool import roles

HELP = """\
Print what bash, zsh or fish must be told to complete the options, words and files of this command
line. The executable must be found on PATH by its name.

\b
Exit status: 0, or 2 for another shell.

\b
Examples:
  eval "$(codex-multitool completion bash)"                     in ~/.bashrc
  eval "$(codex-multitool completion zsh)"                      in ~/.zshrc, below compinit
  codex-multitool completion fish > ~/.config/fish/completions/codex-multitool.fish
"""
SHELLS = ("bash", "zsh", "fish")


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script."""
    # Not the class's own `source`: for bash it starts one, to complain of its version.
    click.echo(ShellComplete.source(_of(shell, click.get_current_context().find_root().command)))


def words_for_role(role: str, arguments: Sequence[str]) -> dict[str, str]:
    """The environment in which `role` answers the shell that asks us about its words now.

    arguments: the whole words behind the role's name. Empty if no shell asks.
    """
    asked = os.environ.get(_variable(roles.CLI), "")
    shell, _, instruction = asked.partition("_")
    if shell not in SHELLS or instruction != "complete":
        return {}
    _, incomplete = _of(shell, click.Command(role)).get_completion_args()
    place = incomplete if shell == "fish" else str(len(arguments) + 1)
    words = shlex.join([role, *arguments, incomplete])
    return {_variable(role): asked, "COMP_WORDS": words, "COMP_CWORD": place}


def _of(shell: str, command: click.Command) -> ShellComplete:
    kind = get_completion_class(shell)
    assert kind is not None, shell
    return kind(command, {}, roles.CLI, _variable(roles.CLI))


def _variable(program: str) -> str:
    """Where click looks for what a shell asks of the program."""
    return f"_{program}_COMPLETE".replace("-", "_").upper()
