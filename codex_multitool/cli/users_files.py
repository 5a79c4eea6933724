"""What doctor asks of the user's files: the layers of config.toml, the rules, their places."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

from codex_multitool.cli.findings import MISSING, OK, WEAKER, Finding
from codex_multitool.cli.places import opened, others_write, place
from codex_multitool.config.configuration import Config, configuration
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.layers import load
from codex_multitool.config.rules_files import load_policy, overlooked, read_rules, rules_files
from codex_multitool.config.settings import (
    KEPT_BY_PROGRAM,
    OURS,
    VARIABLES,
    Key,
    Stated,
    dotted,
)
from codex_multitool.execpolicy.parser import parse
from codex_multitool.execpolicy.rules import RulesError
from codex_multitool.running.configured import workspace

_NO_START = "neither the server nor `exec` starts"
# Settings by which users give away what is promised, and what they give away.
_WIDE: dict[Key, tuple[object, str]] = {
    ("sandbox_mode",): ("danger-full-access", "commands run without a sandbox"),
    ("shell_environment_policy", "ignore_default_excludes"): (
        True,
        "variables named like secrets reach commands that inherit them",
    ),
    (OURS, "dangerous_commands"): ("run", "commands like `rm -rf` run unasked"),
}
_KEPT = (OURS, "keep_environment")


def users_files() -> tuple[list[Finding], list[str]]:
    """All findings about them; and what a workspace-write sandbox started here may write."""
    config, found = _configured()
    roots: list[str] = []
    try:
        here, why_none = workspace(_cwd())
        roots = opened(config, here)
        found.append(_home(roots))
    except ConfigError as error:
        found.append(Finding("CODEX_HOME", MISSING, _one_line(error), _NO_START, "set it"))
    else:
        told = here if why_none is None else f"none in {_cwd() or 'a removed folder'}: {why_none}"
        found.append(Finding("workspace", OK, told))
        found += _rules(config)
    return found, roots


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _configured() -> tuple[Config, list[Finding]]:
    """The configuration, or the default; and what is to be told of it."""
    name = "config.toml"
    try:
        config = load(os.environ, _cwd())
    except ConfigError as error:
        return Config(), [Finding(name, MISSING, _one_line(error), _NO_START, "mend that place")]
    read = [layer.name for layer in config.layers if layer.unread is None]
    found = [Finding(name, OK, ", ".join(read) if read else "none: the defaults hold")]
    for number, warning in enumerate(config.warnings, 1):
        found.append(Finding(f"config.toml, note {number}", OK, _one_line(warning)))
    for key, stated in config.stated.items():
        if configuration({key: stated})._replace(stated={}) != configuration({}):
            found.append(_setting(key, stated))
    return config, found


def _setting(key: Key, stated: Stated) -> Finding:
    name = f"setting {dotted(stated.path)}"
    # A variable may well hold a secret, and this is output to be shown around.
    value = "set" if key[:-1] == VARIABLES else json.dumps(stated.value, ensure_ascii=False)
    found = f"{value} ({stated.where})"
    wide, follows = _WIDE.get(key, (None, ""))
    if key == _KEPT or key[:-1] == KEPT_BY_PROGRAM:
        wide, follows = stated.value, "commands decide by these what trusted programs run"
    if wide is None or stated.value != wide:
        return Finding(name, OK, found)
    return Finding(name, WEAKER, found, follows, "take it out of that file if you do not need it")


def _home(roots: Sequence[str]) -> Finding:
    home = codex_home(os.environ)
    if not os.path.isdir(home):
        return Finding("CODEX_HOME", OK, f"{home} (no such folder: no rules, no settings)")
    return place("CODEX_HOME", home, roots, "change your rules and settings", "move it elsewhere")


def _rules(config: Config) -> Iterator[Finding]:
    """The rules together; where they are wrong, the first mistake of each file."""
    try:
        files = [*rules_files(codex_home(os.environ)), *config.rules]
        mistakes = list(_mistakes(files))
        policy = load_policy(files) if not mistakes else None
    except (ConfigError, RulesError) as error:
        mistakes, policy = [_one_line(error)], None
    for number, mistake in enumerate(mistakes, 1):
        name = "rules" if number == 1 else f"rules, mistake {number}"
        yield Finding(name, MISSING, mistake, _NO_START, "mend that file")
    if policy is None:
        return
    warnings = (*policy.warnings, *overlooked(codex_home(os.environ)))
    for number, warning in enumerate(warnings, 1):
        yield Finding(f"rules, note {number}", OK, _one_line(warning))
    count = sum(map(len, policy.rules.values()))
    told = f"{count} in {len(files)} files"
    try:
        trouble = next(filter(None, map(others_write, map(os.path.realpath, files))), None)
    except OSError as error:
        trouble = f"{error.filename}: {error.strerror}"
    if trouble is not None:
        follows = "other users can change your rules"
        yield Finding("rules", WEAKER, f"{told}; {trouble}", follows, "chmod or chown it")
    else:
        yield Finding("rules", OK, told)


def _mistakes(files: Sequence[str]) -> Iterator[str]:
    for path in files:
        try:
            # Its examples may need what another file says.
            parse([read_rules(path)], examples=False)
        except RulesError as error:
            yield _one_line(error)
        except OSError as error:
            yield f"{path}: {error.strerror}"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
