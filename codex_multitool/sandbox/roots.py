"""Open writable roots so that no command can choose what the next one may write.

A command may replace what lies in its writable directories, a root inside another root included:
`mv` the workspace away, leave a symbolic link to the home directory in its place, and the next
call would be granted the home directory. So a link met inside a root must not lead out of it.
"""

import os

_MAX_LINKS = 40  # as the kernel follows (path_resolution(7))


class UntrustedRootError(Exception):
    """A root that is not what it was when it was named."""


def canonical_roots(paths: tuple[str, ...]) -> frozenset[str]:
    """Where roots lead as they are found; os.path.realpath raises if one changes meanwhile."""
    found = set()
    for path in paths:
        try:
            found.add(_resolve(path, frozenset()))
        except UntrustedRootError:
            pass  # a circle of links, which open_root() will meet again
    return frozenset(found)


def open_root(path: str, guarded: frozenset[str]) -> int:
    """An O_PATH descriptor of a root; raises OSError, or UntrustedRootError.

    guarded: the canonical_roots() of all roots.
    """
    resolved = _resolve(path, guarded)
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        opened = os.readlink(f"/proc/self/fd/{descriptor}")
        if opened != resolved:
            raise UntrustedRootError(f"it changed to {opened} while it was opened")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _resolve(path: str, guarded: frozenset[str]) -> str:
    """The canonical path, as realpath(3) has it."""
    resolved = "/"
    bounds: set[str] = set()
    pending = path.split("/")[::-1]
    links = 0
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            resolved = os.path.dirname(resolved)
            continue
        entry = os.path.join(resolved, name)
        try:
            target = os.readlink(entry)
        except OSError:  # not a link; or not there, which open(2) will say
            resolved = entry
            continue
        links += 1
        if links > _MAX_LINKS:
            raise UntrustedRootError("too many symbolic links")
        bounds.update(root for root in guarded if _within(resolved, root))
        if target.startswith("/"):
            resolved = "/"
        pending += target.split("/")[::-1]
    for root in bounds:
        if not _within(resolved, root):
            raise UntrustedRootError(f"a symbolic link inside {root} leads out of it to {resolved}")
    return resolved


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
