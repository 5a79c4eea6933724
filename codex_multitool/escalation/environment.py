"""The environment a program gets that runs outside the sandbox.

It is the caller's, less what would make a trusted program run untrusted code. A variable the
caller set or changed is refused when it stands in the table, and the user's own value, the
server's, takes its place; a variable the caller unset stays unset. Of what is in the table only
harmless values and trusted PATH entries ever come from inside. Pure: whether the sandbox can
write a path, a function tells.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import NamedTuple

from codex_multitool.escalation.environment_table import Kind, Risk, risk_of
from codex_multitool.escalation.wire import PRIVATE_VARIABLES

# They describe the sandbox the caller is in; outside only what the server itself is in counts.
_SURROUNDINGS = frozenset(("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"))
# Without PATH, or with an empty one, execvp(3) and shells may look in the working directory.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAST_PATH = "/usr/bin:/bin"
_MOST_ENTRIES = 256  # of a list that are looked at; the rest is dropped
# An absolute path in a value, whatever its syntax: after a blank, a sign, or `-X`.
_ABSOLUTE = re.compile(r"""(?:^|[\s:;,='"|&()<>!@]|(?:^|\s)-[A-Za-z])(/[^\s:;,='"|&()<>]*)""")


class Dropped(NamedTuple):
    """A variable that did not come through as the caller had it, and why."""

    name: str
    reason: str


class EscalatedEnvironment(NamedTuple):
    """dropped: sorted by name; the wrapper's own variables go without being listed."""

    environment: dict[str, str]
    dropped: tuple[Dropped, ...]


def escalated_environment(
    server: Mapping[str, str],
    caller: Mapping[str, str],
    *,
    writable: Callable[[str], bool],
    keep: Collection[str] = (),
    drop: Collection[str] = (),
) -> EscalatedEnvironment:
    """What the program gets, and what the caller's environment lost on the way.

    writable: whether the sandbox can write at an absolute path, symbolic links followed.
    keep, drop: the user's exceptions, names or, with a final `*`, beginnings of names. What is
    kept comes through as the caller has it; what is dropped is absent. drop goes before keep.
    """
    judge = _Judge(server, cache(writable))
    for name, value in caller.items():
        if not _possible(name, value):
            judge.dropped[name] = "no environment can hold it: environ(7)"
        elif name in PRIVATE_VARIABLES:
            continue
        elif _listed(name, drop):
            judge.dropped[name] = "the configuration drops it"
        elif _listed(name, keep):
            judge.environment[name] = value
        elif name in _SURROUNDINGS:
            judge.restore(name)
        else:
            judge.take(name, value)
    judge.ensure_path()
    dropped = sorted(judge.dropped.items())
    return EscalatedEnvironment(judge.environment, tuple(Dropped(*item) for item in dropped))


class _Judge:
    def __init__(self, server: Mapping[str, str], writable: Callable[[str], bool]) -> None:
        self.environment: dict[str, str] = {}
        self.dropped: dict[str, str] = {}
        self._server = server
        self._writable = writable

    def take(self, name: str, value: str) -> None:
        """Let a variable of the caller's through, or the user's own value instead."""
        risk = risk_of(name, value)
        if risk is None:
            self.environment[name] = value
        elif name == "PATH" or value == self._server.get(name):
            self._keep_trusted(name, value, risk)
        elif value in risk.harmless:
            self.environment[name] = value
        else:
            self.dropped[name] = risk.reason
            self.restore(name)

    def restore(self, name: str) -> None:
        """Give the variable the server's own value, where it has one."""
        own = self._server.get(name)
        if own is not None and _possible(name, own):
            risk = risk_of(name, own)
            if risk is None:
                self.environment[name] = own
            else:
                self._keep_trusted(name, own, risk)

    def ensure_path(self) -> None:
        """See to it that no program falls back to the working directory."""
        if self.environment.get("PATH"):
            return
        self.dropped.setdefault("PATH", "without one, programs are looked up in the working folder")
        for candidate in (self._server.get("PATH", ""), _PATH):
            trusted, _ = self._trusted_entries(candidate)
            if trusted:
                self.environment["PATH"] = ":".join(trusted)
                return
        self.environment["PATH"] = _LAST_PATH

    def _keep_trusted(self, name: str, value: str, risk: Risk) -> None:
        """Keep of a value what the sandbox cannot write."""
        match risk.kind:
            case Kind.PLACE:
                self.environment[name] = value
            case Kind.CODE:
                inside = [path for path in _paths(value) if self._writable(path)]
                if inside:
                    self.dropped[name] = f"the sandbox can write {_some(inside)}; {risk.reason}"
                else:
                    self.environment[name] = value
            case Kind.PATHS:
                trusted, removed = self._trusted_entries(value)
                if trusted:
                    self.environment[name] = ":".join(trusted)
                if removed:
                    self.dropped[name] = (
                        f"relative or writable for the sandbox: {_some(removed)}; {risk.reason}"
                    )

    def _trusted_entries(self, value: str) -> tuple[list[str], list[str]]:
        entries = list(dict.fromkeys(value.split(":")))
        trusted = [
            entry
            for entry in entries[:_MOST_ENTRIES]
            if entry.startswith("/") and not self._writable(entry)
        ]
        kept = frozenset(trusted)
        return trusted, [entry for entry in entries if entry not in kept]


def _possible(name: str, value: str) -> bool:
    """Whether execve(2) can pass it on: `NAME=value` without NUL, as bytes."""
    try:
        encoded = os.fsencode(name), os.fsencode(value)
    except UnicodeEncodeError:
        return False  # half a surrogate pair, which JSON can carry
    return bool(name) and "=" not in name and not any(b"\0" in part for part in encoded)


def _listed(name: str, names: Collection[str]) -> bool:
    return name in names or any(
        pattern.endswith("*") and name.startswith(pattern[:-1]) for pattern in names
    )


def _paths(value: str) -> list[str]:
    return list(dict.fromkeys(_ABSOLUTE.findall(value)))[:_MOST_ENTRIES]


def _some(paths: list[str]) -> str:
    shown = ", ".join(ascii(path[:60]) for path in paths[:3])
    return shown + (", ..." if len(paths) > 3 else "")
