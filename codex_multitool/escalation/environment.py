"""The environment a program gets that runs outside the sandbox.

It is the user's own, the server's, less what names a place that the sandbox can write. Of what the
caller has set, changed or removed in it only what is harmless counts, and what the user has named.
Pure: whether the sandbox can write a path, a function tells.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from codex_multitool.escalation.harmless_variables import harmless, may_be_unset
from codex_multitool.escalation.wire import PRIVATE_VARIABLES

NOT_HARMLESS = (
    "what a command sets goes outside if it is known to be harmless, or "
    "`codex_multitool.keep_environment` names it"
)
UNSET = "your own value is there, though the command has none"
WRITABLE = "the sandbox can write there"
_DROPPED = "the configuration drops it"
_IMPOSSIBLE = "no environment can hold it: environ(7)"
_NO_PATH = "without one, programs are looked up in the working folder"

# They describe the sandbox the caller is in; outside only what the server itself is in counts.
_SURROUNDINGS = frozenset(("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"))
_NOT_THEIRS = PRIVATE_VARIABLES | _SURROUNDINGS
# Shells set them by themselves.
_OF_SHELLS = frozenset(("PWD", "OLDPWD", "_", "LOGNAME"))
# What the user has in these places is the user's affair, whoever can write there: where settings,
# sockets and temporary files are that many programs have to share with the sandbox.
_PLACES = frozenset((
    "HOME", "CODEX_HOME", "TMPDIR", "TEMP", "TMP", "SSH_AUTH_SOCK", "KRB5CCNAME", "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS", "TMUX", "TMUX_TMPDIR", *_OF_SHELLS,
))  # fmt: skip
_PLACES_BEGINNING = "XDG_"
# So end the names of lists of folders: PATH, LD_LIBRARY_PATH, CLASSPATH, PERL5LIB.
_LISTS_ENDING = ("PATH", "LIB")

# Without PATH, or with an empty one, execvp(3) and shells may look in the working directory.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAST_PATH = "/usr/bin:/bin"
_MOST_ENTRIES = 256  # of a list that are looked at; the rest is dropped
# An absolute path in a value, whatever its syntax: after a blank, a sign, or `-X`.
_ABSOLUTE = re.compile(r"""(?:^|[\s:;,='"|&()<>!@]|(?:^|\s)-[A-Za-z])(/[^\s:;,='"|&()<>]*)""")
_RELATIVE = re.compile(r"\.{1,2}(?:/|$)")  # to a working directory that is the sandbox's
_MOST_TOLD = 5  # names for one reason


class Dropped(NamedTuple):
    """A variable that did not come through as the caller, or the user, had it, and why."""

    name: str
    reason: str


class Environment(NamedTuple):
    """An environment, and what was kept from it."""

    variables: Mapping[str, str]
    dropped: tuple[Dropped, ...] = ()


def own_environment(
    server: Mapping[str, str], *, writable: Callable[[str], bool], drop: Collection[str] = ()
) -> Environment:
    """What a program outside gets of the server's environment.

    writable: whether the sandbox can write at an absolute path, symbolic links followed. drop:
    names, or with a final `*` beginnings of names.
    """
    writable = cache(writable)
    found: dict[str, str] = {}
    dropped: list[Dropped] = []
    for name, value in server.items():
        if name in PRIVATE_VARIABLES or not _possible(name, value):
            continue
        if listed(name, drop):
            dropped.append(Dropped(name, _DROPPED))
        elif name in _PLACES or name.startswith(_PLACES_BEGINNING):
            found[name] = value
        elif name.endswith(_LISTS_ENDING):
            trusted, removed = _trusted_entries(value, writable)
            if trusted:
                found[name] = trusted
            if removed:
                dropped.append(Dropped(name, _of_list(removed)))
        elif _names_writable(value, writable):
            dropped.append(Dropped(name, WRITABLE))
        else:
            found[name] = value
    return Environment(found, tuple(dropped))


def escalated_environment(
    own: Environment,
    server: Mapping[str, str],
    caller: Mapping[str, str],
    *,
    writable: Callable[[str], bool],
    true: Mapping[str, str] = MappingProxyType({}),
    withheld: Collection[str] = (),
    keep: Collection[str] = (),
    drop: Collection[str] = (),
) -> Environment:
    """What the program gets, and what the caller's environment lost on the way.

    own: of `server`, by `own_environment`. true: what holds of what shells keep account of
    (PWD, _), for callers that have it. withheld: names that the caller never had. keep: what
    comes through as the caller has it; drop goes before keep: see `own_environment`.
    """
    found = dict(own.variables)
    lost = dict(it for it in own.dropped if it.name in caller or it.reason != _DROPPED)
    # Most have not been touched.
    changed = dict(caller.items() - server.items())
    for name in [it for it in true if it in caller and not listed(it, drop)]:
        found[name] = true[name]
        changed.pop(name, None)
    for name, value in (*changed.items(), *((it, caller[it]) for it in lost if it in caller)):
        if not _possible(name, value):
            lost[name] = _IMPOSSIBLE
        elif name in _NOT_THEIRS:
            continue
        elif listed(name, drop):
            lost[name] = _DROPPED
        elif listed(name, keep) or (name in changed and harmless(name, value)):
            found[name] = value
            lost.pop(name, None)
        elif name == "PATH":
            found[name] = _path(value, cache(writable), lost)
        elif name in changed and name not in _OF_SHELLS:
            lost[name] = NOT_HARMLESS
    unset = found.keys() - caller.keys() - {"PATH", *withheld, *_SURROUNDINGS}
    for name in unset:
        if name in true or may_be_unset(name) or listed(name, keep):
            del found[name]
    lost.update(dict.fromkeys(found.keys() & unset - _OF_SHELLS, UNSET))
    if not found.get("PATH"):
        found["PATH"] = own.variables.get("PATH") or _safe_path(writable)
        lost.setdefault("PATH", _NO_PATH)
    return Environment(found, tuple(Dropped(*it) for it in sorted(lost.items())))


def _path(value: str, writable: Callable[[str], bool], lost: dict[str, str]) -> str:
    """What may be left of the caller's PATH; and in `lost`, whether anything has gone."""
    trusted, removed = _trusted_entries(value, writable)
    lost.pop("PATH", None)
    if removed:
        lost["PATH"] = _of_list(removed)
    return trusted


def listed(name: str, names: Collection[str]) -> bool:
    """Whether it is one of the names, or begins like one that ends with `*`."""
    return name in names or any(
        pattern.endswith("*") and name.startswith(pattern[:-1]) for pattern in names
    )


def told(dropped: Iterable[Dropped]) -> str:
    """What was lost as people read it, one reason after the other."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in dropped:
        by_reason.setdefault(reason, []).append(name if name.isprintable() else ascii(name))
    return "; ".join(f"{_some(names)}: {reason}" for reason, names in by_reason.items())


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(name[:60] for name in names[:_MOST_TOLD]) + more


def _possible(name: str, value: str) -> bool:
    """Whether execve(2) can pass it on: `NAME=value` without NUL, as bytes."""
    try:
        encoded = os.fsencode(name), os.fsencode(value)
    except UnicodeEncodeError:
        return False  # half a surrogate pair, which JSON can carry
    return bool(name) and "=" not in name and not any(b"\0" in part for part in encoded)


def _names_writable(value: str, writable: Callable[[str], bool]) -> bool:
    paths = dict.fromkeys(_ABSOLUTE.findall(value))
    if len(paths) > _MOST_ENTRIES or _RELATIVE.match(value):
        return True
    return any(map(writable, paths))


def _trusted_entries(value: str, writable: Callable[[str], bool]) -> tuple[str, list[str]]:
    """A list less what is relative, or what the sandbox can write; and that."""
    entries = list(dict.fromkeys(value.split(":")))
    trusted = [
        entry for entry in entries[:_MOST_ENTRIES] if entry.startswith("/") and not writable(entry)
    ]
    kept = frozenset(trusted)
    return ":".join(trusted), [entry for entry in entries if entry not in kept]


def _of_list(removed: list[str]) -> str:
    shown = ", ".join(ascii(entry[:60]) for entry in removed[:3])
    return (
        f"less {shown}{', ...' if len(removed) > 3 else ''}, relative or writable for the sandbox"
    )


def _safe_path(writable: Callable[[str], bool]) -> str:
    return _trusted_entries(_PATH, writable)[0] or _LAST_PATH
