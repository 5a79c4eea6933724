"""Which rules files there are, and one policy from all of them or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice

from codex_multitool.config import rule_paths
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.utf8 import NotUTF8Error, decode
from codex_multitool.execpolicy.engine_process import Engine
from codex_multitool.execpolicy.parser import MOST_WARNINGS, Source, parse
from codex_multitool.execpolicy.rules import Location, Policy, RulesError
from codex_multitool.spelling import nearest

MAXIMUM_BYTES = 16 << 20


def rules_files(home: str) -> list[str]:
    """The paths `home`/rules/*.rules, sorted: regular files and links to them, no subfolders.

    No such folder means no rules. Raises ConfigError, also for a link that leads nowhere:
    the rules it was to bring in would be missing silently.
    """
    folder = os.path.join(home, "rules")
    try:
        with os.scandir(folder) as scan:
            entries = [entry for entry in scan if os.path.splitext(entry.name)[1] == ".rules"]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"failed to read rules files from {folder}: {error.strerror}") from error
    found: list[str] = []
    for entry in entries:
        try:
            if stat.S_ISREG(entry.stat().st_mode):
                found.append(entry.path)
        except OSError as error:
            raise _unreadable(entry.path, error) from error
    return sorted(found, key=os.fsencode)


def overlooked(home: str) -> Iterator[str]:
    """What of files in `home`/rules is to be told that are not read for their names."""
    folder = os.path.join(home, "rules")
    try:
        names = sorted(os.listdir(folder), key=os.fsencode)
    except OSError:
        return  # rules_files() says so, unless there is none
    for name in names:
        stem, ending = os.path.splitext(name)
        near = ending != ".rules" and nearest(ending, ["rules", "codexpolicy"]) is not None
        if near and os.path.isfile(path := os.path.join(folder, name)):
            yield f"{path} is not read: the name of a rules file is {stem}.rules"


def read_rules(path: str) -> Source:
    """The text of one rules file; raises OSError, or RulesError if it isn't UTF-8."""
    with open(path, "rb") as rules:
        return decoded(path, rules.read(MAXIMUM_BYTES + 1))


def decoded(path: str, content: bytes) -> Source:
    """The text of a rules file that holds `content`; raises RulesError."""
    if len(content) > MAXIMUM_BYTES:
        raise RulesError(
            None,
            f"larger than {MAXIMUM_BYTES >> 20} MiB",
            "split it, or name a rules file",
            path=path,
        )
    try:
        return Source(path, decode(content))
    except NotUTF8Error as error:
        raise RulesError(
            Location(path, error.line, error.column), str(error), "save the file as UTF-8"
        ) from None


def load_policy(paths: Iterable[str], engine: Engine | None = None) -> Policy:
    """The policy of all files together; raises ConfigError or RulesError, naming the bad one.

    engine: one that was begun for this.
    """
    sources: list[Source] = []
    for path in paths:
        try:
            sources.append(read_rules(path))
        except OSError as error:
            raise _unreadable(path, error) from error
    policy = parse(sources, engine=engine)
    told = (*policy.warnings, *islice(rule_paths.warnings(policy), MOST_WARNINGS))
    return policy._replace(warnings=told)


def _unreadable(path: str, error: OSError) -> ConfigError:
    return ConfigError(f"failed to read rules file {path}: {error.strerror}")
