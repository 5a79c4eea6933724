"""SandboxState as clients send it: by `codex/sandbox-state/update`, or with each call — pure."""

import os
from os.path import isabs, join

from codex_multitool.mcp_server.messages import named
from codex_multitool.mcp_server.permission_profile import policy_of
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.sandbox.policy import PolicyError, from_object
from codex_multitool.spelling import nearest

META = "codex/sandbox-state-meta"  # the key in a call's `_meta`
META_PREFIX = "codex/sandbox-state"  # of it, and of what else such clients send there
_FILE_URL = "file://"
_MAX_ROOTS = 256  # each is opened and watched at every call
# All that clients have been seen to send. The last ones are about the reference's own sandbox.
_KEYS = (
    *("sandboxPolicy", "permissionProfile", "sandboxCwd", "codexLinuxSandboxExe"),
    *("useLinuxSandboxBindMounts", "useLinuxSandboxBwrap", "useLegacyLandlock"),
)
_HEXADECIMAL = b"0123456789abcdefABCDEF"


class StateError(Exception):
    """What a client sent is no sandbox state; the text begins as the reference's does."""

    def __init__(self, why: str) -> None:
        super().__init__(f"failed to deserialize sandbox state: {why}")


def parse_state(value: object, server_cwd: str) -> SandboxState:
    """The state a decoded JSON value spells; without a `sandboxCwd`, the server's.

    `codexLinuxSandboxExe` and what chooses between the reference's sandboxes mean nothing here,
    nor do keys that are like none of these: a newer client may have more to say of itself.
    """
    if not isinstance(value, dict):
        raise StateError(f"it must be an object, not {named(value)}")
    for key in value:
        meant = None if key in _KEYS else nearest(key, _KEYS, part=8)
        if meant is not None and meant not in value:
            raise StateError(f"unknown key {key[:40]!r}; did you mean `{meant}`?")
    name = next((it for it in ("sandboxPolicy", "permissionProfile") if it in value), None)
    if name is None:
        raise StateError("missing field `sandboxPolicy`")
    cwd = value.get("sandboxCwd")
    workspace = server_cwd if cwd is None else join(server_cwd, _path(cwd))
    try:
        if name == "permissionProfile":
            policy, workspace = policy_of(value[name], workspace)
        else:
            policy = from_object(value[name])
    except PolicyError as error:
        raise StateError(f"`{name}`: {error}") from None
    if len(policy.writable_roots) > _MAX_ROOTS:
        many = len(policy.writable_roots)
        raise StateError(f"`{name}`: {many} writable roots, at most {_MAX_ROOTS} are taken")
    return SandboxState(policy, workspace)


def _path(value: object) -> str:
    if not isinstance(value, str):
        raise StateError(f"`sandboxCwd` must be a string, not {named(value)}")
    path = value
    if value.startswith(_FILE_URL):
        # RFC 8089; urllib would be a large import for this.
        path = value.removeprefix(_FILE_URL).removeprefix("localhost")
        if not isabs(path):
            raise StateError(f"`sandboxCwd` is on another host: {value!r}")
        path = _unescaped(path)
    if "\0" in path or not _encodable(path):
        raise StateError(f"`sandboxCwd` is not a path: {value!r}")
    return path


def _encodable(path: str) -> bool:
    """Whether it is bytes: half a surrogate pair, which JSON can spell, is not."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _unescaped(text: str) -> str:
    """`text` with its %XX turned into the bytes they stand for: RFC 3986, section 2.1."""
    first, *escaped = text.encode("utf-8", "replace").split(b"%")
    found = bytearray(first)
    for piece in escaped:
        digits = piece[:2]
        if len(digits) < 2 or digits.strip(_HEXADECIMAL):
            raise StateError(f"`sandboxCwd` is not a URL: {text!r}")
        found.append(int(digits, 16))
        found += piece[2:]
    return found.decode("utf-8", "surrogateescape")
