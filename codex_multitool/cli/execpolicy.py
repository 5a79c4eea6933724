"""`execpolicy`: what rules files say about commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import click

from codex_multitool.cli.operands import COMMAND, FILE
from codex_multitool.execpolicy.rules import Policy
from codex_multitool.running.usage import Group

_MAXIMUM_BYTES = 16 << 20
# Everything from the first word that is no option belongs to the command.
_COMMAND_LAST = {"help_option_names": ["-h", "--help"], "allow_interspersed_args": False}

GROUP_HELP = """\
Ask what the .rules say of a command, before it runs.

\b
Examples:
  codex-multitool execpolicy explain 'make && git push'         what would become of it, and why
  codex-multitool execpolicy check --rules my.rules git push    as JSON
  codex-multitool execpolicy test expectations.txt              hold the rules to what you expect
  codex-multitool execpolicy fmt ~/.codex/rules/*.rules         one layout
"""


@click.group(cls=Group, help=GROUP_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def execpolicy() -> None:
    """Work with execution rules."""


CHECK_HELP = """\
Print, as JSON, which rules cover COMMAND, and the strictest decision. Without a rule that covers
it there is no decision.

\b
Exit status: 0 whatever the decision, 1 for rules that can't be used.

\b
Examples:
  codex-multitool execpolicy check --rules ~/.codex/rules/default.rules git push origin main
  codex-multitool execpolicy check --resolve-host-executables -r my.rules /usr/bin/git log
"""


@execpolicy.command(help=CHECK_HELP, context_settings=_COMMAND_LAST)
@click.option(
    "-r",
    "--rules",
    "paths",
    type=FILE,
    metavar="PATH",
    multiple=True,
    required=True,
    help="A rules file; give the option once for each.",
)
@click.option("--pretty", is_flag=True, help="Print the JSON over several lines.")
@click.option(
    "--resolve-host-executables",
    is_flag=True,
    help="Let rules for a base name cover absolute paths, as host_executable() permits.",
)
@click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=COMMAND)
def check(
    paths: tuple[str, ...], pretty: bool, resolve_host_executables: bool, command: tuple[str, ...]
) -> None:
    """Print, as JSON, which rules cover COMMAND, and the strictest decision."""
    from codex_multitool.execpolicy.evaluate import matches, to_object

    policy = _policy(paths)
    matched = matches(
        policy, command, resolve_host_executables=resolve_host_executables, cwd=_cwd()
    )
    text = json.dumps(
        to_object(matched),
        ensure_ascii=False,
        indent=2 if pretty else None,
        separators=(",", ": ") if pretty else (",", ":"),
    )
    # Bytes: words of a command need not be UTF-8.
    click.echo(os.fsencode(text))


_RULES = click.option(
    "-r",
    "--rules",
    "paths",
    type=FILE,
    metavar="PATH",
    multiple=True,
    help="A rules file; may be given again.  [default: those in $CODEX_HOME/rules "
    "and those that config.toml names]",
)

EXPLAIN_HELP = """\
Show what would become of CMD: the file it runs, by which names it is judged, every rule that was
considered and where it stands, and the decision.

One word with blanks in it is a script: each command that stands in it is explained. What the
script computes cannot be known before it runs.

\b
Exit status: 0 whatever the decision, 1 for rules that can't be used.

\b
Examples:
  codex-multitool execpolicy explain -- git push
  codex-multitool execpolicy explain 'make && git push origin main'
  codex-multitool execpolicy explain --rules my.rules --sandbox workspace-write -- ./build.sh
"""


@execpolicy.command(help=EXPLAIN_HELP, context_settings=_COMMAND_LAST)
@_RULES
@click.option(
    "--sandbox",
    type=click.Choice(["read-only", "workspace-write", "danger-full-access"]),
    default="read-only",
    show_default=True,
    help="What the sandbox may write, and so which programs no rule may let out of it.",
)
@click.option("--preserve-program-paths", is_flag=True, help="As the server's option.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, a command each.")
@click.argument("command", metavar="CMD...", nargs=-1, required=True, type=COMMAND)
def explain(
    paths: tuple[str, ...],
    sandbox: str,
    preserve_program_paths: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Show how a command is judged."""
    from codex_multitool.cli import explain as explaining
    from codex_multitool.escalation.decide import Judgement
    from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots

    judgement = Judgement(_policy(paths or _users_files()), preserve_program_paths)
    workdir = _cwd()
    if workdir is None:
        raise click.ClickException("the current folder was removed; go to another one")
    # As the server has it; shared memory and terminals lie in /dev.
    roots = ["/dev", *writable_roots(SandboxPolicy(sandbox), workdir, os.environ)]
    writable = [os.path.realpath(root) for root in roots]
    try:
        commands = explaining.commands_of(command)
    except explaining.ExplainError as error:
        raise click.ClickException(str(error)) from None
    found = [
        explaining.explain(judgement, words, workdir=workdir, writable=writable)
        for words in commands
    ]
    if as_json:
        text = json.dumps([explaining.to_object(it) for it in found], ensure_ascii=False, indent=2)
    else:
        text = "\n\n".join(explaining.to_text(it) for it in found)
    click.echo(os.fsencode(text))


TEST_HELP = """\
Check that the rules say what FILE expects. Each line is a decision, then a command; empty lines
and lines that begin with # are left out:

\b
  forbidden  git push --force
  prompt     git push origin main
  allow      /usr/bin/make test
  none       ls -l                     # no rule covers it

The words are split as a shell would. Rules for a base name cover an absolute path as
host_executable() permits.

\b
Exit status: 0 if all expectations hold, else 1.

\b
Examples:
  codex-multitool execpolicy test --rules my.rules expectations.txt
"""


@execpolicy.command(help=TEST_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@_RULES
@click.argument("file", type=FILE)
def test(paths: tuple[str, ...], file: str) -> None:
    """Hold the rules to a file of expectations."""
    from codex_multitool.cli.expectations import ExpectationError, expectations, failure

    try:
        with open(file, "rb") as opened:
            content = opened.read(_MAXIMUM_BYTES + 1)
        if len(content) > _MAXIMUM_BYTES:
            raise click.ClickException(f"{file}: larger than {_MAXIMUM_BYTES >> 20} MiB")
        expected = expectations(file, content.decode())
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: {error}") from error
    except ExpectationError as error:
        raise click.ClickException(str(error)) from error
    policy = _policy(paths or _users_files())
    failures = [told for it in expected if (told := failure(policy, it)) is not None]
    for told in failures:
        click.echo(told)
    click.echo(f"{len(expected) - len(failures)} of {len(expected)} expectations hold")
    if failures:
        sys.exit(1)


FMT_HELP = """\
Rewrite rules files in one layout: a call on one line if it fits in 100 columns and has no comma at
its end, else an argument per line. Comments stay where they are, strings and names as they are.

What a file states does not change: it is evaluated before and after. A file with a mistake, or one
that cannot be laid out, is left as it is. A new file takes the old one's place at once, with its
mode and owner. `-` is stdin, laid out on stdout.

\b
Exit status: 0, or 1 if a file was left alone for a mistake or, with --check, needs a layout.

\b
Examples:
  codex-multitool execpolicy fmt ~/.codex/rules/*.rules
  codex-multitool execpolicy fmt --check rules/*.rules      in CI: changes nothing
  codex-multitool execpolicy fmt - < my.rules
"""


@execpolicy.command(help=FMT_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Name the files that need another layout.")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=FILE)
def fmt(check: bool, paths: tuple[str, ...]) -> None:
    """Rewrite rules files in one layout."""
    from codex_multitool.cli.execpolicy_fmt import format_all

    sys.exit(format_all(paths, check=check))


def _users_files() -> list[str]:
    """The rules files the server would read, those that config.toml names included."""
    from codex_multitool.config.errors import ConfigError
    from codex_multitool.config.home import codex_home
    from codex_multitool.config.layers import load
    from codex_multitool.config.rules_files import rules_files

    try:
        return [*rules_files(codex_home(os.environ)), *load(os.environ, _cwd()).rules]
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


def _policy(paths: Sequence[str]) -> Policy:
    """The policy of these files."""
    from codex_multitool.config.rules_files import read_rules
    from codex_multitool.execpolicy.parser import Source, parse
    from codex_multitool.execpolicy.rules import RulesError

    sources: list[Source] = []
    for path in paths:
        try:
            sources.append(read_rules(path))
        except OSError as error:
            reason = f"failed to read policy at {path}: {error.strerror}"
            raise click.ClickException(reason) from error
        except RulesError as error:
            raise click.ClickException(f"failed to read policy at {path}\n{error}") from error
    try:
        return parse(sources)
    except RulesError as error:
        raise click.ClickException(f"failed to parse policy at {error.path}\n{error}") from error


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed; relative programs then lie nowhere
        return None
