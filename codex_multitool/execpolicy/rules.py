"""What rules files state: prefix rules, host executables, network rules, and errors about them.

Plain immutable values; nothing here reads a file or evaluates anything.
"""

from __future__ import annotations

import enum
import json
import os.path
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple


class Decision(enum.IntEnum):
    """What a rule wants; the larger value is the stricter one."""

    ALLOW = 0
    PROMPT = 1
    FORBIDDEN = 2

    @property
    def word(self) -> str:
        """The decision as rules files and JSON spell it."""
        return self.name.lower()


class Location(NamedTuple):
    """A place in a rules file; line and column count from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class PrefixRule(NamedTuple):
    """A decision about every command that starts with `pattern`.

    Each position of the pattern lists the tokens it accepts; position 0 has exactly one.
    The location is that of the call that made the rule: exact in its line; its column is
    the first place on that line where the builtin's name stands.
    """

    pattern: tuple[tuple[str, ...], ...]
    decision: Decision
    justification: str | None = None
    location: Location | None = None

    def matches(self, command: Sequence[str]) -> bool:
        """Whether `command` starts with this pattern, token by token."""
        return len(command) >= len(self.pattern) and all(
            token in accepted for token, accepted in zip(command, self.pattern, strict=False)
        )

    def __str__(self) -> str:
        tokens = [accepted[0] if len(accepted) == 1 else accepted for accepted in self.pattern]
        pattern = json.dumps(tokens, ensure_ascii=False)
        return f'prefix_rule(pattern={pattern}, decision="{self.decision.word}")'


class RuleMatch(NamedTuple):
    """A rule that covers a command, and what of the command it covered.

    `resolved_program` is the absolute path when a rule for its base name matched.
    """

    matched_prefix: tuple[str, ...]
    decision: Decision
    resolved_program: str | None
    rule: PrefixRule


class NetworkRule(NamedTuple):
    """A decision about one host and protocol; parsed and kept, not enforced here."""

    host: str
    protocol: str
    decision: Decision
    justification: str | None = None
    location: Location | None = None


class Policy(NamedTuple):
    """All rules of all files: prefix rules by first token, each list in file order.

    warnings: what of them has no effect, or another than it seems; each with its place.
    """

    rules: Mapping[str, tuple[PrefixRule, ...]] = MappingProxyType({})
    host_executables: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    network_rules: tuple[NetworkRule, ...] = ()
    warnings: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., Policy], tuple[object, ...]]:
        """For pickle, which does not know views of mappings."""
        return _policy, (dict(self.rules), dict(self.host_executables), *self[2:])


def _policy(
    rules: dict[str, tuple[PrefixRule, ...]],
    host_executables: dict[str, tuple[str, ...]],
    *more: Any,
) -> Policy:
    return Policy(MappingProxyType(rules), MappingProxyType(host_executables), *more)


def normal_path(path: str) -> str:
    """An absolute path without empty, `.` and `..` components, as host executables have it.

    Purely lexical: symbolic links stay.
    """
    return os.path.normpath("/" + path.lstrip("/"))


class RulesError(Exception):
    """A rules file that can't be used: where, what is wrong, how to mend it.

    `path` names the file when no line can be named.
    """

    def __init__(
        self, location: Location | None, what: str, mend: str, *, path: str | None = None
    ) -> None:
        self.location = location
        self.what = what
        self.mend = mend
        self.path = location.path if location else path
        where = str(location) if location else path
        super().__init__(f"{where}: {what}\n  {mend}" if where else f"{what}\n  {mend}")
