"""Where files lie that nobody but the user may change: what doctor finds of that."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from codex_multitool.cli.findings import OK, WEAKER, Finding
from codex_multitool.config.configuration import Config
from codex_multitool.escalation.writable import beneath
from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots

_TEMPORARY = SandboxPolicy("workspace-write")


def opened(config: Config, workspace: str) -> list[str]:
    """What a workspace-write sandbox may write, as configured. workspace: may be empty."""
    roots = writable_roots(config.workspace_write, workspace, os.environ)
    return [os.path.realpath(root) for root in roots]


def place(
    name: str, path: str, roots: Sequence[str], danger: str, mend: str = "install elsewhere"
) -> Finding:
    """Whether somebody else, or a command in its sandbox, could put other content at `path`.

    roots: what a sandbox may write. danger: what they could then do.
    """
    path = os.path.realpath(path)
    try:
        trouble = others_write(path)
    except OSError as error:
        follows = "who can write there is not known"
        return Finding(name, WEAKER, f"{path}: {error.strerror}", follows, "look as its owner")
    if trouble is not None:
        return Finding(name, WEAKER, trouble, f"other users can {danger}", f"chmod it, or {mend}")
    follows = f"commands in a workspace-write sandbox can {danger}"
    temporary = [os.path.realpath(it) for it in writable_roots(_TEMPORARY, "", os.environ)]
    if beneath(path, temporary):
        return Finding(name, WEAKER, f"{path} is a temporary place", follows, mend)
    for root in roots:
        if beneath(path, [root]):
            return Finding(name, WEAKER, f"{path} lies in {root}", follows, mend)
    return Finding(name, OK, path)


def others_write(path: str) -> str | None:
    """The first of `path` and the folders above that others may change; None if there is none.

    Raises OSError where one may not look.
    """
    while True:
        status = os.stat(path)
        # In a sticky folder only the owner of a file replaces it: inode(7).
        others = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if others:
            return f"{path} is writable for everybody"
        if status.st_uid not in (0, os.getuid()):
            return f"{path} belongs to user {status.st_uid}"
        if path == "/":
            return None
        path = os.path.dirname(path)
