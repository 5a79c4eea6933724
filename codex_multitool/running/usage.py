"""How a program says that its command line is wrong, or why it cannot do what it was told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from codex_multitool.spelling import did_you_mean


def complain(error: click.ClickException, program: str) -> int:
    """Say it on stderr, as `PROGRAM: what`; returns the exit status.

    program: its name and those of its subcommands, unless the error knows better.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return error.exit_code
    told = _sentence(error)
    if isinstance(error, click.UsageError):
        if error.ctx is not None:
            program = error.ctx.command_path
        told += f"\n  `{program} --help` says more"
    click.echo(f"{program}: {told}", err=True)
    return error.exit_code


def _sentence(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        known = error.ctx.command.get_params(error.ctx) if error.ctx is not None else []
        options = [name for it in known for name in it.opts if name.startswith("--")]
        return f"no such option {error.option_name}{did_you_mean(error.option_name, options)}"
    told = error.format_message()
    if isinstance(error, click.UsageError):
        return told[:1].lower() + told[1:].removesuffix(".")
    return told


class Group(click.Group):
    """A command with subcommands, all of whose mistakes are told in one form."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **settings: Any) -> Any:
        """Run the command that is named; raises SystemExit."""
        words = list(sys.argv[1:] if args is None else args)
        settings["standalone_mode"] = False
        try:
            sys.exit(super().main(words, *more, **settings))
        except click.ClickException as error:
            sys.exit(complain(error, self.called(words, settings.get("prog_name") or self.name)))

    def called(self, words: Sequence[str], name: str | None) -> str:
        """The command that these words call, by all its names."""
        names = [name or ""]
        command: click.Command | None = self
        for word in words:
            if not isinstance(command, click.Group):
                break
            command = command.get_command(click.Context(command), word)
            if command is None:
                break
            names.append(word)
        return " ".join(names)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that is named; for another the nearest is."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            names = self.list_commands(ctx)
            meant = did_you_mean(args[0], names) or f"; the commands are {', '.join(names)}"
            ctx.fail(f"no such command {args[0]!r}{meant}")
        return super().resolve_command(ctx, args)
