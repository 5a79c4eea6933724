"""`exec` from its options to its exit status: one command in the foreground, and what is told."""

import json
import math
import os
import shlex
import socket
import stat
import sys
from typing import NamedTuple

from codex_multitool import roles
from codex_multitool.cli import exec_tree, learn
from codex_multitool.cli.colours import coloured
from codex_multitool.cli.exec_lessons import Lessons
from codex_multitool.cli.exec_options import Options
from codex_multitool.cli.exec_record import Record
from codex_multitool.cli.exec_start import NotRunError
from codex_multitool.cli.foreground import TIMED_OUT, Command, Foreground, hired
from codex_multitool.cli.main import CANNOT_START
from codex_multitool.cli.stated import refuse_both, stated_here
from codex_multitool.cli.terminal import Human
from codex_multitool.config.configuration import Config
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.settings import OURS
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.engine_process import Engine
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.running import shells
from codex_multitool.running.choice import Choice, Interception, StartError, choose, load_rules
from codex_multitool.running.configured import (
    configured,
    configured_shell,
    workspace,
)
from codex_multitool.running.own_files import Names, OwnFiles, own_files
from codex_multitool.running.probe import Probe
from codex_multitool.running.settings import Environments, Settings
from codex_multitool.running.shell_proof import prove
from codex_multitool.running.standard_streams import write_all
from codex_multitool.sandbox.policy import WORKSPACE_WRITE, writable_roots


class Setup(NamedTuple):
    """Options and configuration made one. workspace: what workspace-write opens; may be empty.

    own: what the command may not write.
    """

    config: Config
    environments: Environments
    choice: Choice
    judgement: Judgement
    workspace: str
    own: OwnFiles


def run(options: Options, zygote: socket.socket, probe: Probe, engine: Engine | None) -> int:
    """Run the command; returns the exit status. Raises NotRunError, and StatedTwiceError.

    probe, engine: begun for this.
    """
    record = Record(every=options.tree or options.learn is not None)
    try:
        setup = _set_up(options, record, probe, engine)
        rules_file = os.path.join(codex_home(os.environ), "rules", "default.rules")
    except (StartError, ConfigError) as error:
        raise NotRunError(str(error)) from None
    _check_outlets(options)
    lessons = None if options.learn is None else Lessons(options.learn)
    human = Human(
        rules_file,
        colour=coloured(terminal=True),
        patience=setup.config.approval_timeout or math.inf,
    )
    try:
        outcome = _run(options, setup, zygote, human, record)
    except NotRunError:
        if lessons is not None:
            lessons.give_up()
        raise
    told = _tell(options, outcome, record, lessons)
    status = TIMED_OUT if outcome.timed_out else exec_tree.exit_code(outcome.status)
    return status if told or status else CANNOT_START


def _set_up(options: Options, record: Record, probe: Probe, engine: Engine | None) -> Setup:
    """What is in force: the options, then the configuration. Raises StartError, ConfigError."""
    config, environments = configured(options.directory, options.overrides)
    for warning in config.warnings:
        _warn(warning)
    refuse_both(config, "--sandbox", options.mode, "sandbox_mode")
    refuse_both(config, "--shell", options.shell_named, OURS, "shell")
    shell = options.shell
    if stated_here(config, OURS, "shell"):
        shell = None  # what the environment says is less explicit
    refuse_both(config, "--intercept", options.intercept, OURS, "intercept")
    interception = Interception(
        mode=options.intercept or config.intercept or "auto",
        shell=shell or configured_shell(config),
        stock_shell=shells.stock_shell(),
        patched_shell=shells.patched_shell(),
        wrapper=roles.executable(roles.EXECVE_WRAPPER),
    )
    rules = [*config.rules, *options.rules]
    judgement = Judgement(
        load_rules(rules, engine),
        ask_when_dangerous=config.dangerous_commands != "run",
    )
    for warning in judgement.policy.warnings:
        _warn(warning)
    place = options.directory
    if options.mode is None and config.policy().kind == WORKSPACE_WRITE:
        place, why_none = workspace(os.path.realpath(options.directory))
        if why_none is not None:
            record.note(f"{options.directory} is not writable: {why_none}")
    choice = choose(interception, probe.refusal)
    if choice.notice is not None:
        record.note(choice.notice)
    names = Names(roles.started(), roles.executable(roles.CLI))
    accepted = _warn if options.accept_writable else None
    own = OwnFiles(own_files(names, os.environ, rules, choice), accepted=accepted)
    roots = writable_roots(config.policy(options.mode), place, environments.shell)
    if reason := own.exposed(roots):
        raise StartError(reason)
    prove(choice)
    return Setup(config, environments, choice, judgement, place, own)


def _run(
    options: Options, setup: Setup, zygote: socket.socket, human: Human, record: Record
) -> Outcome:
    found = Settings(
        setup.choice.shell,
        setup.choice.wrapper,
        setup.judgement,
        setup.environments,
        setup.config.limits,
        own_mounts=setup.config.protect == "namespace",
    )
    command = Command(
        words=_argv(found.shell, options.words),
        cwd=options.directory,
        workspace=setup.workspace,
        policy=setup.config.policy(options.mode),
        timeout=options.timeout,
        ignored=options.ignored,
        traced=options.tree or options.learn is not None or options.result_fd is not None,
    )
    try:
        return Foreground(hired(zygote, found), found, command, human, record).run()
    except OSError as error:
        raise NotRunError(_reason(error)) from None


def _reason(failure: OSError) -> str:
    why = failure.strerror or str(failure)
    return f"{failure.filename}: {why}" if failure.filename else why


def _argv(shell: str, words: tuple[str, ...]) -> tuple[str, ...]:
    if len(words) == 1:
        return (shell, "-c", words[0])
    # By `exec`, so that its program is judged even where the shell has a builtin of that name.
    return (shell, "-c", 'exec "$@"', shell, *words)


def _columns() -> int | None:
    """How wide the terminal is to which stderr goes."""
    try:
        return os.get_terminal_size(2).columns or None
    except OSError:
        return None


def _tell(options: Options, outcome: Outcome, record: Record, lessons: Lessons | None) -> bool:
    """Say what is to be said; whether all that was asked for by an option could be written."""
    for line in record.notes:
        _say(line)
    if outcome.timed_out:
        _say(f"ended after {options.timeout:g} seconds")
    for pid, command in outcome.background:
        _say(f"ended what was left running: {exec_tree.one_line(command)} ({pid})")
    failures = []
    if options.tree:
        colour = coloured(terminal=sys.stderr.isatty())
        tree = exec_tree.rendered(
            record.execs, colour=colour, width=_columns(), plumbing=len(options.words) > 1
        )
        failures.append(("the tree cannot be written to stderr", _write(2, tree)))
    if lessons is not None:
        failures.append((f"--learn {options.learn}", _learn(lessons, options.words, record)))
    if options.result_fd is not None:
        text = json.dumps(_result(options, outcome, record), ensure_ascii=False)
        # The command's last line may lack its end.
        failure = _write(options.result_fd, ("\n" if options.result_fd == 1 else "") + text + "\n")
        what = f"the result cannot be written to descriptor {options.result_fd}"
        failures.append((what, failure))
    for what, failure in failures:
        if failure is not None:
            _say(f"{what}: {failure}")
    return all(failure is None for _, failure in failures)


def _result(options: Options, outcome: Outcome, record: Record) -> dict[str, object]:
    """With the names and values of the server's results."""
    result: dict[str, object] = {
        "exit_code": TIMED_OUT if outcome.timed_out else exec_tree.exit_code(outcome.status),
        "signal": exec_tree.signal_name(outcome.status),
        "timed_out": outcome.timed_out,
        "duration": {
            "secs": outcome.duration_ns // 1_000_000_000,
            "nanos": outcome.duration_ns % 1_000_000_000,
        },
        "decisions": [
            {
                "program": exec_tree.printable(verdict.program),
                "argv": [exec_tree.printable(word) for word in verdict.argv],
                "decision": verdict.decision,
                "reason": exec_tree.printable(verdict.reason),
            }
            for verdict in record.verdicts
        ],
        "background": [
            {"pid": pid, "command": exec_tree.printable(command)}
            for pid, command in outcome.background
        ],
        "notes": [exec_tree.printable(note) for note in record.notes],
    }
    if options.tree:
        result["execs"] = exec_tree.to_objects(record.execs)
    return result


def _check_outlets(options: Options) -> None:
    """Raise NotRunError where what the user asked for could not be told afterwards."""
    wanted = {} if options.result_fd is None else {options.result_fd: "--json"}
    if options.tree:
        wanted[2] = "--tree"
    for descriptor, option in wanted.items():
        try:
            kind = os.fstat(descriptor).st_mode
            # Nothing is written, and a full device or a read-only file says so; but to a socket
            # nothing is a message.
            if stat.S_ISREG(kind) or stat.S_ISCHR(kind):
                os.write(descriptor, b"")
        except OSError as error:
            where = f"descriptor {descriptor} cannot be written"
            raise NotRunError(f"{option}: {where}: {error.strerror}") from None


def _learn(lessons: Lessons, words: tuple[str, ...], record: Record) -> str | None:
    command = words[0] if len(words) == 1 else shlex.join(words)
    # The first one is the shell we started.
    return lessons.write(learn.learned(record.execs[1:], command))


def _warn(text: str) -> None:
    _say(f"WARNING: {text}")


def _say(line: str) -> None:
    _write(2, f"{roles.CLI} exec: {line}\n")


def _write(descriptor: int, text: str) -> str | None:
    """Write it; why it cannot be, if so."""
    try:
        write_all(descriptor, text.encode(errors="backslashreplace"))
    except OSError as error:
        return error.strerror
    return None
