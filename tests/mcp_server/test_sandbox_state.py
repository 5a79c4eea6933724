"""The sandbox state in every form in which clients send it."""

from typing import Any

import pytest

from codex_multitool.mcp_server.sandbox_state import StateError, parse_state
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.sandbox.policy import SandboxPolicy

READ_ONLY = {"type": "read-only"}


def state(**members: Any) -> SandboxState:
    return parse_state({"sandboxPolicy": READ_ONLY, **members}, "/server")


def test_every_member_the_reference_knows() -> None:
    sent = {
        "sandboxPolicy": {
            "type": "workspace-write",
            "writable_roots": ["/a"],
            "network_access": True,
            "exclude_tmpdir_env_var": True,
            "exclude_slash_tmp": False,
        },
        "codexLinuxSandboxExe": "/opt/codex-linux-sandbox",
        "sandboxCwd": "/work",
        "useLinuxSandboxBindMounts": False,
        "useLinuxSandboxBwrap": True,
        "useLegacyLandlock": False,
        "permissionProfile": {"type": "managed"},
        "useMxc": False,
        "unheardOf": [1],
        "sandboxPolicyV2": {},
    }
    policy = SandboxPolicy(
        "workspace-write", network_access=True, writable_roots=("/a",), exclude_tmpdir_env_var=True
    )
    assert parse_state(sent, "/server") == SandboxState(policy, "/work")


@pytest.mark.parametrize(
    ("cwd", "path"),
    [
        ("/a/b", "/a/b"),
        ("/with space", "/with space"),
        ("/100%", "/100%"),
        ("", "/server/"),
        ("sub", "/server/sub"),
        ("file:///a/b", "/a/b"),
        ("file:///a%20b/%C3%A9%2f", "/a b/é/"),
        ("file:///caf%E9", "/caf\udce9"),
        ("file://localhost/a", "/a"),
        ("file:///é", "/é"),
    ],
)
def test_directory_as_path_or_url(cwd: str, path: str) -> None:
    assert state(sandboxCwd=cwd).cwd == path


def test_directory_is_the_servers_where_none_is_given() -> None:
    assert state().cwd == "/server"
    assert state(sandboxCwd=None).cwd == "/server"


@pytest.mark.parametrize(
    "cwd",
    [
        7, [], {}, True, "/a\0b", "/\ud800", "file:///a%00b", "file://host/a", "file://",
        "file://localhostile/", "file:///a%2", "file:///a%", "file:///a%zz", "file:///a%+1",
        "file:///a% 1",
    ],
)  # fmt: skip
def test_what_is_no_directory_is_refused(cwd: object) -> None:
    with pytest.raises(StateError, match=r"^failed to deserialize sandbox state: `sandboxCwd` "):
        state(sandboxCwd=cwd)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({}, "missing field `sandboxPolicy`"),
        ({"sandboxCwd": "/"}, "missing field `sandboxPolicy`"),
        ({"permissionProfile": {"type": "open"}}, "`permissionProfile`: unknown profile 'open'"),
        ({"sandboxPolicy": "read-only"}, "must be an object"),
        ({"sandboxPolicy": {"type": "open"}}, "unknown policy 'open'"),
        ({"sandboxPolicy": {"type": "workspace-write", "writable_roots": ["a"]}}, "absolute path"),
        ({"sandboxPolcy": {"type": "read-only"}}, "'sandboxPolcy'; did you mean `sandboxPolicy`?"),
        ({"sandbox_policy": {"type": "read-only"}}, "did you mean `sandboxPolicy`?"),
        (
            {"sandboxPolicy": {"type": "read-only"}, "sandboxCWD": "/a"},
            "unknown key 'sandboxCWD'; did you mean `sandboxCwd`?",
        ),
        (
            {"sandboxPolicy": {"type": "workspace-write", "exclude_slashtmp": True}},
            "`sandboxPolicy`: unknown key 'exclude_slashtmp' of `workspace-write`; did you mean",
        ),
        ([], "it must be an object, not an array"),
        (None, "it must be an object, not null"),
    ],
)
def test_what_is_no_state_is_refused_by_name(sent: object, why: str) -> None:
    with pytest.raises(StateError) as caught:
        parse_state(sent, "/server")
    assert str(caught.value).startswith("failed to deserialize sandbox state: ")
    assert why in str(caught.value)
