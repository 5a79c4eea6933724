"""`execpolicy`: what rules files say about commands."""

from __future__ import annotations

import json
import os
import sys

import click

from codex_multitool.cli.operands import COMMAND, FILE
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
Print, as JSON, which rules cover the words of COMMAND, and the strictest decision. Without a rule
that covers them there is no decision. That is what Codex's own check prints.

Where the server decides otherwise, as it looks at the program and at what git's options or `env`
lead to, the member `codex_multitool` has its `decision`, and `because`.

\b
Exit status: 0 whatever the decision, 1 for rules that can't be used.

\b
Examples:
  codex-multitool execpolicy check --rules ~/.codex/rules/default.rules git push origin main
  codex-multitool execpolicy check --resolve-host-executables -r my.rules /usr/bin/git log
"""


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
_SANDBOX = click.option(
    "--sandbox",
    type=click.Choice(["read-only", "workspace-write", "danger-full-access"]),
    help="What the sandbox may write, and so which programs no rule may let out of it.  [default: "
    "as configured, else read-only]",
)
_PRESERVE = click.option("--preserve-program-paths", is_flag=True, help="As the server's option.")


@execpolicy.command(help=CHECK_HELP, context_settings=_COMMAND_LAST)
@_RULES
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
    from codex_multitool.cli.expectations import NONE
    from codex_multitool.cli.judging import answer_of, judge_of, working_folder
    from codex_multitool.execpolicy.evaluate import matches, to_object
    from codex_multitool.running.judged import NO_RULE

    judge = judge_of(paths)
    matched = matches(
        judge.judgement.policy,
        command,
        resolve_host_executables=resolve_host_executables,
        cwd=working_folder(),
    )
    found = to_object(matched)
    answer = answer_of(judge, command)
    if answer.decision != found.get("decision", NONE):
        because = answer.reason or NO_RULE
        found["codex_multitool"] = {"decision": answer.decision, "because": because}
    text = json.dumps(
        found,
        ensure_ascii=False,
        indent=2 if pretty else None,
        separators=(",", ": ") if pretty else (",", ":"),
    )
    # Bytes: words of a command need not be UTF-8.
    click.echo(os.fsencode(text))


EXPLAIN_HELP = """\
Show what would become of CMD: the file it runs, by which names it is judged, every rule that was
considered and where it stands, and the decision.

One word with blanks in it is a script: each command that stands in it is explained. What a command
runs in turn (`env`, `sh -c`) is judged, too, as the kernel tells of it; what a script computes
cannot be known before it runs. A program that is not installed is judged by its name: as the first
path that host_executable lists for it, else as one in /usr/bin.

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
@_SANDBOX
@_PRESERVE
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, a command each.")
@click.argument("command", metavar="CMD...", nargs=-1, required=True, type=COMMAND)
def explain(
    paths: tuple[str, ...],
    sandbox: str | None,
    preserve_program_paths: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Show how a command is judged."""
    from codex_multitool.cli import explain as explaining
    from codex_multitool.cli.judging import judge_of, working_folder

    if working_folder() is None:
        raise click.ClickException("the current folder was removed; go to another one")
    judge = judge_of(paths, sandbox, preserve_program_paths)
    found = judge.script(command)
    if not found:
        raise click.ClickException("no command is found in this script")
    if as_json:
        objects = [explaining.to_object(judge.judgement, it) for it in found]
        text = json.dumps(objects, ensure_ascii=False, indent=2)
    else:
        text = "\n\n".join(explaining.to_text(judge.judgement, it) for it in found)
    click.echo(os.fsencode(text))


TEST_HELP = """\
Check that the server does what FILE expects. Each line is a decision, then a command; empty lines
and lines that begin with # are left out. `-` is stdin.

\b
  forbidden  git push --force          # it is refused
  prompt     git push origin main      # you are asked
  allow      /usr/bin/make test        # it runs outside the sandbox
  none       ls -l                     # it runs inside

The words are split as a shell would, and judged as `explain` has it; its words (deny, ask,
escalate, run) will do, too. A program that is not installed, as on another machine, is judged by
its name.

\b
Exit status: 0 if all expectations hold, else 1.

\b
Examples:
  codex-multitool execpolicy test --rules my.rules expectations.txt
  echo 'forbidden git push' | codex-multitool execpolicy test -
"""


@execpolicy.command(help=TEST_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@_RULES
@_SANDBOX
@_PRESERVE
@click.argument("file", type=FILE)
def test(
    paths: tuple[str, ...], sandbox: str | None, preserve_program_paths: bool, file: str
) -> None:
    """Hold the rules to a file of expectations."""
    from codex_multitool.cli.expectations import ExpectationError, expectations, failure
    from codex_multitool.cli.judging import answer_of, judge_of

    name = "stdin" if file == "-" else file
    try:
        with open(0 if file == "-" else file, "rb", closefd=file != "-") as opened:
            content = opened.read(_MAXIMUM_BYTES + 1)
        if len(content) > _MAXIMUM_BYTES:
            raise click.ClickException(f"{name}: larger than {_MAXIMUM_BYTES >> 20} MiB")
        expected = expectations(name, content.decode())
    except OSError as error:
        raise click.ClickException(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{name}: {error}") from error
    except ExpectationError as error:
        raise click.ClickException(str(error)) from error
    judge = judge_of(paths, sandbox, preserve_program_paths)
    told = (failure(it, answer_of(judge, it.command)) for it in expected)
    failures = [it for it in told if it is not None]
    for it in failures:
        click.echo(it)
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
