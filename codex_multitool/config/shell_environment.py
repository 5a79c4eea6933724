"""The environment of a shell and all it starts in the sandbox — pure.

The steps and their order are the original's; what they start from is less: as first published,
the user's core variables, and no name that speaks of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

ALL, CORE, NONE = "all", "core", "none"
# Who and where one is, and how text and time are to be written: without the second half programs
# garble names and dates. XDG_RUNTIME_DIR is not here: it leads to sockets of the session, agents
# and the bus, which the sandbox is there to keep commands from.
_CORE = frozenset(
    (
        *("HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"),
        *("LANG", "LANGUAGE", "TERM", "TZ"),
    )
)
_CORE_BEGINNING = "LC_"
_SECRETS = ("*KEY*", "*SECRET*", "*TOKEN*")


class EnvironmentPolicy(NamedTuple):
    """`shell_environment_policy`. Patterns: `*` any text, `?` any character, in any case."""

    inherit: str = CORE
    ignore_default_excludes: bool = False
    exclude: tuple[str, ...] = ()
    set: Mapping[str, str] = MappingProxyType({})
    include_only: tuple[str, ...] = ()


def shell_environment(policy: EnvironmentPolicy, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for commands, of those the server has."""
    found = {name: value for name, value in environ.items() if _inherited(policy.inherit, name)}
    if not policy.ignore_default_excludes:
        found = _without(found, _SECRETS)
    found = _without(found, policy.exclude)
    found.update(policy.set)
    if policy.include_only:
        found = {
            name: value for name, value in found.items() if _matches(name, policy.include_only)
        }
    return found


def _inherited(inherit: str, name: str) -> bool:
    return inherit == ALL or (
        inherit == CORE and (name in _CORE or name.startswith(_CORE_BEGINNING))
    )


def _without(variables: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not _matches(name, patterns)}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Each piece at the first place it fits: no other place could help those after it, and a
    # pattern of many stars must not take for ever to fail (atomic groups, Python 3.11).
    first, *others = (re.escape(piece).replace(r"\?", ".") for piece in re.split(r"\*+", pattern))
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    last = f".*{others[-1]}" if others else ""
    return re.compile(first + middle + last, re.IGNORECASE | re.DOTALL)
