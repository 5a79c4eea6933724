"""Who judges as the server would, for the subcommands of `execpolicy`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from codex_multitool.cli.expectations import EXPLAINED, NONE, Answer
from codex_multitool.cli.explain import considered
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.rules_files import read_rules, rules_files
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Policy, RulesError
from codex_multitool.running.configured import configured, workspace
from codex_multitool.running.judged import NO_RULE, Judge, strictest
from codex_multitool.sandbox.policy import writable_roots


def judge_of(paths: Sequence[str], sandbox: str | None = None, preserve: bool = False) -> Judge:
    """Who judges as the server would: by these rules files, or by those it would read."""
    workdir = working_folder()
    try:
        config, environments = configured(workdir)
        if not paths:
            paths = [*rules_files(codex_home(os.environ)), *config.rules]
        place = (workdir or "") if sandbox else workspace(workdir)[0]
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    judgement = Judgement(_policy(paths), preserve, config.dangerous_commands != "run")
    # As the server has it; shared memory and terminals lie in /dev.
    roots = ["/dev", *writable_roots(config.policy(sandbox), place, environments.shell)]
    writable = tuple(map(os.path.realpath, roots))
    return Judge(judgement, workdir or "/", writable, environments.shell)


def answer_of(judge: Judge, command: Sequence[str]) -> Answer:
    """What becomes of it, in the words of the rules."""
    found = strictest(judge.script(command))
    if found is None:
        return Answer(NONE, (), "no command is found in this script")
    decision = EXPLAINED[found.decision]
    rules = considered(judge.judgement, (found.by or found).request)
    saying = [it.rule for it in rules if it.counts and it.rule.decision.word == decision]
    places = dict.fromkeys(str(rule.location) for rule in saying)
    return Answer(decision, tuple(places), "" if found.reason == NO_RULE else found.reason)


def _policy(paths: Sequence[str]) -> Policy:
    """The policy of these files."""
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
        policy = parse(sources)
    except RulesError as error:
        raise click.ClickException(f"failed to parse policy at {error.path}\n{error}") from error
    for warning in policy.warnings:
        click.echo(os.fsencode(f"{click.get_current_context().command_path}: {warning}"), err=True)
    return policy


def working_folder() -> str | None:
    """The current folder, if there is one."""
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed; relative programs then lie nowhere
        return None
