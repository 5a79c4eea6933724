"""`--sandbox-permission`: the two older spellings of a policy — pure.

The first named one of four policies, the second a list of what is permitted.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence

from codex_multitool.sandbox.policy import SandboxPolicy

POLICIES = {
    "network-restricted": SandboxPolicy("external-sandbox"),
    "file-write-restricted": SandboxPolicy("read-only", network_access=True),
    "network-and-file-write-restricted": SandboxPolicy("read-only"),
    "dangerous-no-restrictions": SandboxPolicy("danger-full-access"),
}
USER_TEMP = "disk-write-platform-user-temp-folder"
GLOBAL_TEMP = "disk-write-platform-global-temp-folder"
HERE = "disk-write-cwd"
FULL_WRITE = "disk-full-write-access"
NETWORK = "network-full-access"
PERMISSIONS = ("disk-full-read-access", USER_TEMP, GLOBAL_TEMP, HERE, FULL_WRITE, NETWORK)
_FOLDER = "disk-write-folder"


class PermissionValueError(Exception):
    """A value that is none of these, or does not go with the others."""


def policy_of(values: Sequence[str], cwd: str, tmpdir: str | None) -> tuple[SandboxPolicy, str]:
    """The policy, and the directory that its workspace is. cwd: where relative folders start.

    tmpdir: the user's temporary folder, if any. Raises PermissionValueError.
    """
    named = [value for value in values if value in POLICIES]
    if named and len(values) > 1:
        raise PermissionValueError(f"`{named[0]}` is a whole policy: it goes with no other value")
    if named:
        return POLICIES[named[0]], cwd
    folders = [os.path.join(cwd, folder) for folder in map(_folder, values) if folder is not None]
    network = NETWORK in values
    if FULL_WRITE in values:
        kind = "danger-full-access" if network else "external-sandbox"
        return SandboxPolicy(kind, network_access=network and kind == "external-sandbox"), cwd
    if HERE in values:
        folders.insert(0, cwd)
    of_user = USER_TEMP in values and tmpdir is not None and os.path.isabs(tmpdir)
    # A workspace is always written: it must be one of the folders that are permitted.
    roots = [*folders, *(["/tmp"] if GLOBAL_TEMP in values else [])]
    if of_user and tmpdir is not None:
        roots.append(tmpdir)
    if not roots:
        return SandboxPolicy("read-only", network_access=network), cwd
    policy = SandboxPolicy(
        "workspace-write",
        network_access=network,
        writable_roots=tuple(roots[1:]),
        exclude_tmpdir_env_var=True,
        exclude_slash_tmp=True,
    )
    return policy, roots[0]


def workspace_among(
    policy: SandboxPolicy, workspace: str, exists: Callable[[str], bool]
) -> tuple[SandboxPolicy, str]:
    """The same with a workspace that exists, if one of the folders that may be written does."""
    roots = (workspace, *policy.writable_roots)
    there = next(filter(exists, roots), workspace)
    if policy.kind != "workspace-write" or there == workspace:
        return policy, workspace
    others = tuple(root for root in roots if root != there)
    return policy.with_roots(others), there


def _folder(value: str) -> str | None:
    """The folder that a value names; None if it is about something else."""
    name, equals, folder = value.partition("=")
    if name == _FOLDER and equals:
        if not folder:
            raise PermissionValueError(
                f"--sandbox-permission {_FOLDER}=<PATH> requires a non-empty PATH"
            )
        return folder
    if value not in PERMISSIONS:
        raise PermissionValueError(
            f"`{value}` is not a recognised permission.\n"
            "Run with `--help` to see the accepted values."
        )
    return None
