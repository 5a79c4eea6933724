"""What users, models and callers write: rules, configuration, scripts, command lines."""

from __future__ import annotations

import os

from codex_multitool.config import dotenv, project_limits, utf8
from codex_multitool.config.configuration import configuration
from codex_multitool.config.documents import Document, file_document, override_document
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.settings import Statements, merged, statements
from codex_multitool.config.shell_environment import shell_environment
from codex_multitool.escalation.dangerous import danger
from codex_multitool.escalation.decide import ExecRequest, decide
from codex_multitool.escalation.environment import escalated_environment, own_environment
from codex_multitool.escalation.git_guards import git_guards, settings
from codex_multitool.escalation.harmless_variables import harmless
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.shell_script import simple_commands
from codex_multitool.escalation.unwrap import unwrap
from codex_multitool.escalation.wire import PRIVATE_VARIABLES
from codex_multitool.execpolicy.evaluate import judge, matches, to_object
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Policy, RulesError
from codex_multitool.execpolicy.shell_words import UnbalancedError, split
from codex_multitool.running import quoting
from fuzz.pieces import pieces, words

_SECONDS = 2.0  # for one evaluation, less than what counts as a hang
_PROJECT = "/project"


def rules(data: bytes) -> None:
    """A text is a policy, or a located RulesError."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        policy = parse([Source("f.rules", text)], seconds=_SECONDS)
    except RulesError as error:
        assert error.what
        assert error.mend
        if error.location is not None:
            assert 1 <= error.location.line <= text.count("\n") + 1
            assert error.location.column >= 1
        return
    judge(policy, "/usr/bin/git", ["push"], preserve_program_paths=False)
    to_object(matches(policy, ["git", "push"], resolve_host_executables=True))


def config(data: bytes) -> None:
    """A user's file, a project's and an override are a configuration, or a ConfigError."""
    user, project, override = pieces(data, 3)
    try:
        lower = _statements(user, "/home/config.toml")
        inner = _statements(project, f"{_PROJECT}/config.toml")
        last = statements(override_document(override.decode("utf-8", "replace"), "/"), "/home")
        without = configuration(merged([lower, last]))
        found = configuration(merged([lower, inner, last]))
        project_limits.hold(without, found, [inner])
    except ConfigError as error:
        assert error.what
        return
    found.policy()
    shell_environment(found.environment, {"PATH": "/bin", "X": "y"})
    assert all(stated.where for stated in found.stated.values())


def _statements(content: bytes, name: str) -> Statements:
    try:
        text = utf8.decode(content)
    except utf8.NotUTF8Error as error:
        raise ConfigError(str(error)) from None
    document = file_document(name, os.path.dirname(name), text)
    _places(document, document.values, (), text)
    return statements(document, "/home")


def _places(document: Document, value: object, path: tuple[str | int, ...], text: str) -> None:
    """Every key and element of what was read has a place in the text."""
    lines = text.replace("\r\n", "\n").split("\n")
    if path:
        name, line, column = document.where(path).rsplit(":", 2)
        assert name == document.name
        assert 1 <= int(line) <= len(lines)
        assert 1 <= int(column) <= len(lines[int(line) - 1]) + 1
    if isinstance(value, dict):
        for key, inner in value.items():
            _places(document, inner, (*path, key), text)
    if isinstance(value, list):
        for index, inner in enumerate(value):
            _places(document, inner, (*path, index), text)


def environment_file(data: bytes) -> None:
    """Whatever .env holds: variables that an environment can have."""
    for name, value in dotenv.parse(os.fsdecode(data), {"HOME": "/home/me"}).items():
        os.fsencode(f"{name}={value}")
        assert name
        assert "=" not in name
        assert "\0" not in name + value
        assert not name.upper().startswith("CODEX_")


def script(data: bytes) -> None:
    """What a script or a command line runs is looked for, and always an end found."""
    text = os.fsdecode(data.replace(b"\0", b""))
    simple_commands(text)
    danger(["sh", "-c", text])
    try:
        split(text)
    except UnbalancedError:
        pass
    shown = quoting.word(text)
    assert shown.isprintable()
    assert "`" not in shown


def command(data: bytes) -> None:
    """Any argv is judged, and can be shown to a human."""
    program, *arguments = words(data)
    danger([program, *arguments])
    unwrap(program.rpartition("/")[2], arguments)
    request = ExecRequest((f"/{program}",), (program, *arguments), "/")
    decide(Judgement(_policy()), request)
    shown = quoting.command_line(f"/{program}", arguments) + quoting.directory(f"/{program}")
    assert shown.isprintable()
    assert "`" not in shown


_PARSED: list[Policy] = []


def _policy() -> Policy:
    if not _PARSED:
        text = 'prefix_rule(["git", ["push", "-C"]], "forbidden")\nprefix_rule(["ls"])'
        _PARSED.append(parse([Source("f.rules", text)]))
    return _PARSED[0]


_SERVER = {"PATH": "/usr/bin:/w/bin", "HOME": "/home/me", "EDITOR": "vi", "GIT_DIR": "/w/g"}


def environment(data: bytes) -> None:
    """Of a hostile environment only what is harmless or the user's own comes through."""
    program, listing, given = pieces(data, 3)
    name, *arguments = words(program)
    caller = dict(word.partition("=")[::2] for word in words(given))

    def writable(path: str) -> bool:
        return path.startswith("/w")

    own = own_environment(_SERVER, writable=writable)
    found = escalated_environment(own, _SERVER, caller, writable=writable).variables
    assert PRIVATE_VARIABLES.isdisjoint(found)
    assert found["PATH"]
    for variable, value in found.items():
        assert b"\0" not in os.fsencode(f"{variable}={value}")
        if variable == "PATH":
            entries = value.split(":")
            assert all(each.startswith("/") and not writable(each) for each in entries)
        else:
            assert value == _SERVER.get(variable) or harmless(variable, value)
    guards = git_guards(f"/{name}", arguments, found, own=settings(listing))
    for variable, value in guards.items():
        assert b"\0" not in os.fsencode(f"{variable}={value}")
