"""`doctor`: every protection and capability of this machine, tried."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import click

from codex_multitool.cli import findings
from codex_multitool.cli.colours import coloured
from codex_multitool.cli.exec_tree import one_line
from codex_multitool.cli.findings import MISSING, OK, Finding
from codex_multitool.cli.installation import installation
from codex_multitool.cli.machine import machine
from codex_multitool.cli.users_files import users_files
from codex_multitool.running.probe import Probe

HELP = """\
Try every protection and capability of this machine; one line each: its state (ok, weaker or
missing), what was found, what follows from it, and how to mend it.

Nothing is guessed from versions: processes are confined and do what they must not, an execve is
held, judged and watched. Nothing is changed.

Your files are read, too: the layers of config.toml in force here, the settings that are not the
default, the rules; each mistake is told with its place. Settings that give away protection, and
files that others or sandboxed commands can write, are weaker.

\b
Exit status: 0 if full protection holds, else 1.

\b
Examples:
  codex-multitool doctor
  codex-multitool doctor --json | jq '.findings[] | select(.state != "ok")'
"""

_WIDEST = 26  # columns for names; a longer one moves the rest of its line


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Find out what holds here."""
    # Before anything else: the trial is forked from a process with one thread.
    interception = _interception()
    files, roots = users_files()
    found = [*machine(), interception, *installation(interception.state == OK, roots), *files]
    if as_json:
        text = json.dumps(findings.to_object(found), ensure_ascii=False, indent=2)
        click.echo(os.fsencode(text))
    else:
        _print(found)
    sys.exit(0 if findings.full(found) else 1)


def _interception() -> Finding:
    name = "kernel interception"
    try:
        refused = Probe().begin().refusal()
    except OSError as error:
        refused = f"it cannot be tried: {error.strerror}"
    if refused is None:
        return Finding(name, OK, "an exec was judged and watched")
    follows = "only a patched shell's own execs are judged"
    return Finding(name, MISSING, refused, follows, "see the lines about seccomp and ptrace")


def _print(found: Sequence[Finding]) -> None:
    width = min(max(len(finding.name) for finding in found), _WIDEST)
    colour = coloured(terminal=sys.stdout.isatty())
    for finding in found:
        state = f"{finding.state:8}"
        if colour:
            state = click.style(state, fg=findings.colour(finding))
        click.echo(state + one_line(findings.line(finding, width)))
    whole = findings.full(found)
    told = "full protection holds" if whole else "protection is not full: see the lines above"
    click.echo(told)
