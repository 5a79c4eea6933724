"""SandboxPolicy and its JSON forms.

The text comes from a client or a command line: it is bounded, and what it says wrongly is a
PolicyError that names the field. So is a field that is not known: whatever it asks for would not
be held to. The reference ignores it.
Never touches the file system: whether a root exists is decided where it is opened.
"""

import os
from _collections_abc import (
    Iterable,
    Mapping,
)  # loaded with os; collections.abc would add collections, 2 ms
from os.path import isabs

from codex_multitool.json_text import JSONTextError, decode
from codex_multitool.spelling import did_you_mean

READ_ONLY = "read-only"
WORKSPACE_WRITE = "workspace-write"
DANGER_FULL_ACCESS = "danger-full-access"
EXTERNAL_SANDBOX = "external-sandbox"
KINDS = (READ_ONLY, WORKSPACE_WRITE, DANGER_FULL_ACCESS, EXTERNAL_SANDBOX)

# What each may say besides its kind. The last ones of the third are of older versions.
_MEMBERS = {
    READ_ONLY: ("network_access", "access"),
    WORKSPACE_WRITE: (
        "writable_roots",
        "network_access",
        "exclude_tmpdir_env_var",
        "exclude_slash_tmp",
        "read_only_access",
        "read_access",
        "include_default_writable_roots",
    ),
    DANGER_FULL_ACCESS: (),
    EXTERNAL_SANDBOX: ("network_access",),
}

MAX_TEXT = 128 * 1024  # MAX_ARG_STRLEN: no longer text can reach the role (execve(2))
MAX_ROOTS = 1024  # each is one descriptor, one rule and a few path look-ups
MAX_PATH = 4096  # PATH_MAX


class PolicyError(Exception):
    """What a policy says is not a policy."""


class SandboxPolicy:
    """What a command may do. Equal by value; not to be changed once made."""

    __slots__ = (
        "_fields",
        "exclude_slash_tmp",
        "exclude_tmpdir_env_var",
        "kind",
        "network_access",
        "writable_roots",
    )

    def __init__(
        self,
        kind: str,
        *,
        network_access: bool = False,
        writable_roots: tuple[str, ...] = (),
        exclude_tmpdir_env_var: bool = False,
        exclude_slash_tmp: bool = False,
    ) -> None:
        self.kind = kind
        self.network_access = network_access
        self.writable_roots = writable_roots
        self.exclude_tmpdir_env_var = exclude_tmpdir_env_var
        self.exclude_slash_tmp = exclude_slash_tmp
        self._fields = (
            kind,
            network_access,
            writable_roots,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        )

    @property
    def full_write(self) -> bool:
        """Whether no file is kept from being written."""
        return self.kind in (DANGER_FULL_ACCESS, EXTERNAL_SANDBOX)

    @property
    def full_network(self) -> bool:
        """Whether no socket is kept from being made."""
        return self.network_access or self.kind == DANGER_FULL_ACCESS

    def with_roots(self, roots: tuple[str, ...]) -> "SandboxPolicy":
        """The same with other writable roots."""
        return SandboxPolicy(
            self.kind,
            network_access=self.network_access,
            writable_roots=roots,
            exclude_tmpdir_env_var=self.exclude_tmpdir_env_var,
            exclude_slash_tmp=self.exclude_slash_tmp,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SandboxPolicy) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"SandboxPolicy({to_object(self)})"


def parse_policy(text: str | bytes) -> SandboxPolicy:
    """The policy that a JSON text spells."""
    if len(text) > MAX_TEXT:
        raise PolicyError(f"the policy is longer than {MAX_TEXT} bytes")
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    try:
        return from_object(decode(text))
    except JSONTextError as error:
        raise PolicyError(f"the policy is not JSON: {error}") from None


def from_object(value: object) -> SandboxPolicy:
    """The policy that a decoded JSON value spells: tag `type`, or `mode` as it once was."""
    if not isinstance(value, dict):
        raise PolicyError(f"the policy must be an object, not {_named(value)}")
    tag = "type" if "type" in value or "mode" not in value else "mode"
    if tag not in value:
        raise PolicyError(f"`type` is missing: one of {', '.join(KINDS)}")
    kind = value[tag]
    if isinstance(kind, str) and kind in _MEMBERS:
        refuse_others(value, (tag, *_MEMBERS[kind]), f"`{kind}`")
    match kind:
        case "read-only":
            _require_full_read(value, "access")
            return SandboxPolicy(READ_ONLY, network_access=_network(value))
        case "workspace-write":
            _require_full_read(value, "read_only_access")
            _require_full_read(value, "read_access")
            _require_default_roots(value)
            return SandboxPolicy(
                WORKSPACE_WRITE,
                network_access=_network(value),
                writable_roots=_roots(value),
                exclude_tmpdir_env_var=_boolean(value, "exclude_tmpdir_env_var"),
                exclude_slash_tmp=_boolean(value, "exclude_slash_tmp"),
            )
        case "danger-full-access":
            return SandboxPolicy(DANGER_FULL_ACCESS)
        case "external-sandbox":
            return SandboxPolicy(EXTERNAL_SANDBOX, network_access=_network(value))
        case str():
            meant = did_you_mean(kind, KINDS) or f"; one of {', '.join(KINDS)}"
            raise PolicyError(f"`{tag}`: unknown policy {kind[:40]!r}{meant}")
        case _:
            raise PolicyError(f"`{tag}` must be a string, not {_named(kind)}")


def refuse_others(value: Mapping[str, object], known: Iterable[str], what: str) -> None:
    """Raise PolicyError for a key that is not known: what it asks for would not be held to."""
    known = tuple(known)
    for name in value:
        if name not in known:
            meant = did_you_mean(name, known) or f", which has {', '.join(known)}"
            raise PolicyError(f"unknown key {name[:40]!r} of {what}{meant}")


def to_object(policy: SandboxPolicy) -> dict[str, object]:
    """The canonical JSON value of a policy, defaults left out where the reference does."""
    match policy.kind:
        case "external-sandbox":
            network = "enabled" if policy.network_access else "restricted"
            return {"type": policy.kind, "network_access": network}
        case "workspace-write":
            roots = {"writable_roots": list(policy.writable_roots)} if policy.writable_roots else {}
            return {
                "type": policy.kind,
                **roots,
                "network_access": policy.network_access,
                "exclude_tmpdir_env_var": policy.exclude_tmpdir_env_var,
                "exclude_slash_tmp": policy.exclude_slash_tmp,
            }
        case "read-only" if policy.network_access:
            return {"type": policy.kind, "network_access": True}
        case _:
            return {"type": policy.kind}


def writable_roots(policy: SandboxPolicy, cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The directories a workspace-write policy opens, existing or not, in the reference's order.

    cwd: what the workspace is; skipped unless absolute, as is $TMPDIR.
    """
    if policy.kind != WORKSPACE_WRITE:
        return ()
    roots = [*policy.writable_roots]
    if isabs(cwd):
        roots.append(cwd)
    if not policy.exclude_slash_tmp:
        roots.append("/tmp")
    tmpdir = environ.get("TMPDIR", "")
    if not policy.exclude_tmpdir_env_var and isabs(tmpdir):
        roots.append(tmpdir)
    return tuple(roots)


def _named(value: object) -> str:
    """A value's JSON type."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _boolean(fields: dict[str, object], name: str, *, default: bool = False) -> bool:
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise PolicyError(f"`{name}` must be a boolean, not {_named(value)}")
    return value


def _network(fields: dict[str, object]) -> bool:
    """`network_access` in either shape; the reference has one for each kind of policy."""
    match fields.get("network_access", False):
        case bool() as value:
            return value
        case "enabled":
            return True
        case "restricted":
            return False
        case value:
            raise PolicyError(
                '`network_access` must be a boolean, "restricted" or "enabled", not '
                + (repr(value) if isinstance(value, str) else _named(value))
            )


def _require_full_read(fields: dict[str, object], name: str) -> None:
    access = fields.get(name, {"type": "full-access"})
    if not isinstance(access, dict):
        raise PolicyError(f"`{name}` must be an object, not {_named(access)}")
    match access.get("type"):
        case "full-access":
            refuse_others(access, ("type",), f"`{name}`")
        case "restricted":
            raise PolicyError(f"`{name}`: restricted read access is not supported")
        case kind:
            raise PolicyError(
                f'`{name}.type` must be "full-access", not '
                + (repr(kind) if isinstance(kind, str) else _named(kind))
            )


def _require_default_roots(fields: dict[str, object]) -> None:
    """The workspace and the temporary folders; each of the latter has a key to leave it out."""
    if not _boolean(fields, "include_default_writable_roots", default=True):
        raise PolicyError(
            "`include_default_writable_roots`: the workspace cannot be left out; read-only is "
            "a policy without it"
        )


def _roots(fields: dict[str, object]) -> tuple[str, ...]:
    roots = fields.get("writable_roots", [])
    if not isinstance(roots, list):
        raise PolicyError(f"`writable_roots` must be an array, not {_named(roots)}")
    if len(roots) > MAX_ROOTS:
        raise PolicyError(f"`writable_roots` has {len(roots)} entries; at most {MAX_ROOTS}")
    return tuple(_path(f"writable_roots[{index}]", root) for index, root in enumerate(roots))


def _path(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise PolicyError(f"`{name}` must be a string, not {_named(value)}")
    if not isabs(value):
        raise PolicyError(f"`{name}` must be an absolute path, not {value!r}")
    try:
        length = len(os.fsencode(value))
    except UnicodeEncodeError:
        raise PolicyError(f"`{name}` is not a path: {value!r}") from None
    if "\0" in value or length >= MAX_PATH:
        raise PolicyError(f"`{name}` is not a path: {value[:40]!r}")
    return value
