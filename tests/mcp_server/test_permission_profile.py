"""Permission profiles: taken as the policy that says the same, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from codex_multitool.mcp_server.permission_profile import policy_of
from codex_multitool.mcp_server.sandbox_state import StateError, parse_state
from codex_multitool.sandbox.policy import PolicyError, SandboxPolicy

ROOT = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}


def special(kind: str, access: str = "write", **more: str) -> dict[str, Any]:
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access}


def path(name: str, access: str = "write") -> dict[str, Any]:
    return {"path": {"type": "path", "path": name}, "access": access}


def managed(*entries: dict[str, Any], network: str = "restricted") -> dict[str, Any]:
    files = {"type": "restricted", "entries": list(entries)}
    return {"type": "managed", "file_system": files, "network": network}


def test_what_codex_0_169_sends_for_workspace_write() -> None:
    skip = {"missing_path_behavior": "skip"}
    kept = [path(f"/w/{name}", "read") | skip for name in (".git", ".agents", ".codex", ".aws")]
    sent = managed(ROOT, path("/w"), special("slash_tmp"), special("tmpdir"), *kept)
    assert policy_of(sent, "/w") == (SandboxPolicy("workspace-write"), "/w")


@pytest.mark.parametrize(
    ("profile", "policy"),
    [
        ({"type": "disabled"}, SandboxPolicy("danger-full-access")),
        ({"type": "external"}, SandboxPolicy("external-sandbox")),
        (
            {"type": "external", "network": "enabled"},
            SandboxPolicy("external-sandbox", network_access=True),
        ),
        (managed(ROOT), SandboxPolicy("read-only")),
        (managed(ROOT, network="enabled"), SandboxPolicy("read-only", network_access=True)),
        (managed(ROOT, special("minimal", "read")), SandboxPolicy("read-only")),
        (managed({**ROOT, "access": "write"}), SandboxPolicy("external-sandbox")),
        (
            managed({**ROOT, "access": "write"}, network="enabled"),
            SandboxPolicy("danger-full-access"),
        ),
        (
            {"type": "managed", "file_system": {"type": "unrestricted"}},
            SandboxPolicy("external-sandbox"),
        ),
        (
            managed(ROOT, special("project_roots"), path("/a")),
            SandboxPolicy(
                "workspace-write",
                writable_roots=("/a",),
                exclude_slash_tmp=True,
                exclude_tmpdir_env_var=True,
            ),
        ),
    ],
)
def test_what_can_be_held_to(profile: dict[str, Any], policy: SandboxPolicy) -> None:
    assert policy_of(profile, "/w") == (policy, "/w")


def test_the_workspace_is_open_only_if_the_profile_says_so() -> None:
    policy, workspace = policy_of(managed(ROOT, path("/a")), "/w")
    assert (policy.writable_roots, workspace) == (("/a",), "")
    policy, workspace = policy_of(managed(ROOT, special("project_roots", subpath="out")), "/w")
    assert (policy.writable_roots, workspace) == (("/w/out",), "")


def test_tmpdir_stays_closed_where_a_path_to_keep_may_lie_in_it() -> None:
    policy, _ = policy_of(managed(ROOT, path("/w"), special("tmpdir")), "/w")
    assert not policy.exclude_tmpdir_env_var
    policy, _ = policy_of(managed(ROOT, path("/w"), special("tmpdir"), path("/v/x", "read")), "/w")
    assert policy.exclude_tmpdir_env_var


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (managed(path("/w")), "what a command may read cannot be limited"),
        (managed(ROOT, path("/etc/shadow", "none")), "the access 'none' cannot be given"),
        (managed(ROOT, path("/w"), path("/w/secret", "read")), "/w/secret cannot be kept"),
        (managed(ROOT, path("/w"), path("/w/a/.git", "read")), "/w/a/.git cannot be kept"),
        (managed(ROOT, path("/w"), path("/w", "read")), "/w cannot be kept"),
        (managed(ROOT, special("slash_tmp"), path("/tmp/x", "read")), "/tmp/x cannot be kept"),
        (managed({**ROOT, "access": "write"}, path("/w/.git", "read")), "/w/.git cannot be kept"),
        (managed(ROOT, path("w")), "no absolute path"),
        (managed(ROOT, path("/w/../etc")), "no absolute path"),
        (managed(ROOT, special("minimal")), "the place 'minimal'"),
        (managed(ROOT, special("project_roots", subpath="../x")), "the place 'project_roots'"),
        (managed(ROOT, special("moon")), "the place 'moon'"),
        (
            managed(ROOT, {"path": {"type": "glob_pattern", "pattern": "/*"}, "access": "read"}),
            "the type 'glob_pattern'",
        ),
        (managed(ROOT, network="some"), "`network`"),
        (managed(*[ROOT] * 1025), "at most 1024"),
        ({"type": "managed"}, "`file_system`"),
        ({"type": "disabled", "network": "restricted"}, "unknown key 'network' of the profile"),
        ({"type": "external", "netwrk": "enabled"}, "did you mean `network`?"),
        ({**managed(ROOT), "filesystem": {}}, "did you mean `file_system`?"),
        (
            {"type": "managed", "file_system": {"type": "unrestricted", "entries": []}},
            "unknown key 'entries' of `file_system`",
        ),
        (managed({**ROOT, "missing_path_behavior": "fail"}), "'fail' cannot be held to"),
        (managed({**ROOT, "acess": "none"}), "unknown key 'acess' of an entry"),
        (managed({**special("root", "read", subpath="a")}), "unknown key 'subpath' of `value`"),
        (managed({**ROOT, "path": {"type": "path", "path": "/", "value": {}}}), "key 'value' of"),
        ({"type": "moon"}, "unknown profile 'moon'"),
        ([], "the profile must be an object"),
    ],
)
def test_what_cannot_is_refused(profile: object, why: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(profile, "/w")
    assert why in str(caught.value)
    with pytest.raises(StateError, match="`permissionProfile`: "):
        parse_state({"permissionProfile": profile, "sandboxCwd": "/w"}, "/server")
