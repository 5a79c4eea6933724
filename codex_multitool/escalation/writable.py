"""What the sandbox can write, and what it can make lead elsewhere."""

import os
import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from codex_multitool.interception.resolve import way

# What is found there depends on who looks, and when.
_SHIFTING = "/proc"

_MOMENT = 1.0  # seconds
_MOST_REMEMBERED = 1024

Roots = tuple[str, ...]
T = TypeVar("T")


def _for_a_moment(look: Callable[[str, Roots], T]) -> Callable[[str, Roots], T]:
    """Remember what was found at a path, for some writable directories, for a moment.

    Nobody in the sandbox can make it untrue that something is out of the sandbox's reach; the
    user, who can, is seen to have done so a moment later.
    """
    found: dict[tuple[str, Roots], T] = {}
    since = -_MOMENT

    def remembered(path: str, writable: Roots) -> T:
        nonlocal since
        now = time.monotonic()
        if now - since > _MOMENT or len(found) >= _MOST_REMEMBERED:
            found.clear()
            since = now
        key = path, writable
        if key not in found:
            found[key] = look(path, writable)
        return found[key]

    return remembered


def redirectable(path: str, writable: Collection[str]) -> bool:
    """Whether the sandbox can write at `path`, absolute, or could make it lead elsewhere."""
    return leads_to(path, tuple(writable)) is None


@_for_a_moment
def leads_to(path: str, writable: Roots) -> str | None:
    """Where a path leads that nobody inside can redirect; None for any other."""
    try:
        found, passed = way(path)
    except OSError:
        return None
    reachable = any(
        beneath(place, (*writable, _SHIFTING)) or mounted_beneath(place, writable)
        for place in (found, *passed)
    )
    return None if reachable else found


def beneath(path: str, roots: Iterable[str]) -> bool:
    """Whether `path`, absolute and normalised, is one of `roots` or lies under one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


@_for_a_moment
def mounted_beneath(path: str, writable: Roots) -> bool:
    """Whether the path lies in a writable directory that is mounted there, too.

    Landlock goes by the directory itself, under whatever path it is reached.
    """
    roots = set(filter(None, map(_identity, writable)))
    while path != "/":
        if _identity(path) in roots:
            return True
        path = os.path.dirname(path)
    return _identity(path) in roots


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
