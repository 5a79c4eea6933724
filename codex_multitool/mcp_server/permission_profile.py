"""A permission profile, which newer Codex sends in place of a sandbox policy — pure.

A profile lists paths and how each may be accessed. It is taken as the policy that says the same,
or refused: one that cannot be held to is never taken for one that is close to it. Read-only paths
directly in a writable folder are held to if they are protected names, as under a workspace-write
policy of old, which implies them.
"""

from collections.abc import Mapping
from os.path import basename, dirname, isabs, join, normpath
from typing import Any

from codex_multitool.escalation.protected import NAMES
from codex_multitool.sandbox.policy import (
    DANGER_FULL_ACCESS,
    EXTERNAL_SANDBOX,
    READ_ONLY,
    WORKSPACE_WRITE,
    PolicyError,
    SandboxPolicy,
    refuse_others,
)

_ACCESS = ("read", "write")
_TEMPORARY = ("slash_tmp", "tmpdir")
_MAX_ENTRIES = 1024
_SKIP = "skip"  # what is said of a path that need not be there; it is watched all the same

# What else an object may have, by what its tag says, or None for any. A tag without an entry is
# refused where it is met. Patterns are not taken, so how deep they would be looked for is nothing.
_Others = Mapping[str | None, tuple[str, ...]]
_PROFILES: _Others = {
    "disabled": (),
    "external": ("network",),
    "managed": ("file_system", "network"),
}
_FILES: _Others = {"unrestricted": (), "restricted": ("entries", "glob_scan_max_depth")}
_PATHS: _Others = {"path": ("path",), "special": ("value",)}
_PLACES: _Others = {"project_roots": ("subpath",), None: ()}


def policy_of(profile: object, cwd: str) -> tuple[SandboxPolicy, str]:
    """The policy that says what the profile does, and the workspace it has; raises PolicyError.

    cwd: of the state the profile came in. The workspace is empty if the profile does not open it.
    """
    kind = _member(profile, "type", "the profile", _PROFILES)
    if kind == "disabled":
        return SandboxPolicy(DANGER_FULL_ACCESS), cwd
    network = _network(profile)
    if kind == "external":
        return SandboxPolicy(EXTERNAL_SANDBOX, network_access=network), cwd
    if kind != "managed":
        raise PolicyError(f"unknown profile {kind!r}; one of managed, disabled, external")
    files = profile.get("file_system") if isinstance(profile, dict) else None
    match _member(files, "type", "`file_system`", _FILES):
        case "unrestricted":
            return _unlimited(network), cwd
        case "restricted":
            return _restricted(files, cwd, network)
        case other:
            raise PolicyError(f"`file_system`: unknown type {other!r}")


def _restricted(files: Any, cwd: str, network: bool) -> tuple[SandboxPolicy, str]:
    entries = files.get("entries")
    if not isinstance(entries, list):
        raise PolicyError("`entries` must be an array")
    if len(entries) > _MAX_ENTRIES:
        raise PolicyError(f"{len(entries)} entries, at most {_MAX_ENTRIES} are taken")
    placed = [_placed(entry, cwd) for entry in entries]
    whole = [access for path, access in placed if path == "/"]
    if not whole:
        raise PolicyError("what a command may read cannot be limited here")
    kept = [path for path, access in placed if access == "read" and path[0] == "/" and path != "/"]
    if "write" in whole:
        if kept:
            raise PolicyError(f"{kept[0]} cannot be kept from being written in a writable root")
        return _unlimited(network), cwd
    written = [path for path, access in placed if access == "write"]
    if not written:
        return SandboxPolicy(READ_ONLY, network_access=network), cwd
    roots = [path for path in written if path not in _TEMPORARY]
    known = [*roots, "/tmp"] if "slash_tmp" in written else roots
    # Where $TMPDIR is is not known here: it stays closed if a path to keep may lie in it.
    inside = [_held(path, known) for path in kept]
    policy = SandboxPolicy(
        WORKSPACE_WRITE,
        network_access=network,
        writable_roots=tuple(root for root in roots if root != cwd),
        exclude_slash_tmp="slash_tmp" not in written,
        exclude_tmpdir_env_var="tmpdir" not in written or not all(inside),
    )
    return policy, cwd if cwd in roots else ""


def _held(path: str, roots: list[str]) -> bool:
    """Whether a path to keep is in a writable root, and watched there; raises PolicyError."""
    above = [root for root in roots if f"{path}/".startswith(f"{root}/")]
    if above and not (dirname(path) in roots and basename(path) in NAMES):
        raise PolicyError(f"{path} cannot be kept from being written in {above[0]}")
    return bool(above)


def _placed(entry: Any, cwd: str) -> tuple[str, str]:
    """An entry's place and access. The place is a path, or the word for special ones."""
    access = _member(entry, "access", "an entry", {None: ("path", "missing_path_behavior")})
    if (missing := entry.get("missing_path_behavior", _SKIP)) != _SKIP:
        raise PolicyError(f"`missing_path_behavior`: {missing!r} cannot be held to")
    if access not in _ACCESS:
        raise PolicyError(f"the access {access!r} cannot be given; one of {', '.join(_ACCESS)}")
    path = entry.get("path") if isinstance(entry, dict) else None
    match _member(path, "type", "`path`", _PATHS):
        case "path":
            return _absolute(path, "path"), access
        case "special":
            value = path.get("value") if isinstance(path, dict) else None
            return _special(value, cwd, access), access
        case other:
            raise PolicyError(f"`path`: the type {other!r} cannot be held to")


def _special(value: object, cwd: str, access: str) -> str:
    kind = _member(value, "kind", "`value`", _PLACES)
    if kind == "root":
        return "/"
    if kind in _TEMPORARY:
        return kind
    if kind == "minimal" and access == "read":
        return kind  # all can be read
    subpath = value.get("subpath") if isinstance(value, dict) else None
    if kind == "project_roots" and isabs(cwd):
        if subpath is None:
            return cwd
        if isinstance(subpath, str) and not isabs(subpath) and ".." not in subpath.split("/"):
            return normpath(join(cwd, subpath))
    raise PolicyError(f"the place {kind!r} cannot be held to")


def _unlimited(network: bool) -> SandboxPolicy:
    return SandboxPolicy(DANGER_FULL_ACCESS) if network else SandboxPolicy(EXTERNAL_SANDBOX)


def _network(profile: object) -> bool:
    network = profile.get("network", "restricted") if isinstance(profile, dict) else None
    if network not in ("restricted", "enabled"):
        raise PolicyError("`network` must be restricted or enabled")
    return bool(network == "enabled")


def _member(value: object, name: str, what: str, others: _Others) -> str:
    """A string that an object must have, which says what else it may have."""
    if not isinstance(value, dict) or not isinstance(value.get(name), str):
        raise PolicyError(f"{what} must be an object with the string `{name}`")
    found = str(value[name])
    more = others.get(found, others.get(None))
    if more is not None:
        refuse_others(value, (name, *more), what)
    return found


def _absolute(value: Any, name: str) -> str:
    path = _member(value, name, "`path`", {})
    if not isabs(path) or "\0" in path or normpath(path) != path:
        raise PolicyError(f"{path!r} is no absolute path in its plain form")
    return path
