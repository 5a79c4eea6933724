"""The JSON forms of a policy, what each grants, and how each mistake is named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.sandbox import policy
from codex_multitool.sandbox.policy import (
    DANGER_FULL_ACCESS,
    EXTERNAL_SANDBOX,
    READ_ONLY,
    WORKSPACE_WRITE,
    PolicyError,
    SandboxPolicy,
    from_object,
    parse_policy,
    to_object,
    writable_roots,
)

FORMS: list[tuple[dict[str, object], SandboxPolicy]] = [
    ({"type": "read-only"}, SandboxPolicy(READ_ONLY)),
    ({"mode": "read-only"}, SandboxPolicy(READ_ONLY)),
    ({"type": "read-only", "network_access": True}, SandboxPolicy(READ_ONLY, network_access=True)),
    ({"type": "read-only", "access": {"type": "full-access"}}, SandboxPolicy(READ_ONLY)),
    ({"type": "danger-full-access"}, SandboxPolicy(DANGER_FULL_ACCESS)),
    ({"type": "external-sandbox"}, SandboxPolicy(EXTERNAL_SANDBOX)),
    (
        {"type": "external-sandbox", "network_access": "restricted"},
        SandboxPolicy(EXTERNAL_SANDBOX),
    ),
    (
        {"type": "external-sandbox", "network_access": "enabled"},
        SandboxPolicy(EXTERNAL_SANDBOX, network_access=True),
    ),
    (
        {"type": "external-sandbox", "network_access": True},
        SandboxPolicy(EXTERNAL_SANDBOX, network_access=True),
    ),
    ({"type": "workspace-write"}, SandboxPolicy(WORKSPACE_WRITE)),
    (
        {"type": "workspace-write", "network_access": "enabled"},
        SandboxPolicy(WORKSPACE_WRITE, network_access=True),
    ),
    (
        {
            "type": "workspace-write",
            "writable_roots": ["/a", "/b c"],
            "network_access": True,
            "exclude_tmpdir_env_var": True,
            "exclude_slash_tmp": True,
            "read_only_access": {"type": "full-access"},
            "read_access": {"type": "full-access"},
            "include_default_writable_roots": True,
        },
        SandboxPolicy(
            WORKSPACE_WRITE,
            network_access=True,
            writable_roots=("/a", "/b c"),
            exclude_tmpdir_env_var=True,
            exclude_slash_tmp=True,
        ),
    ),
]


@pytest.mark.parametrize(("value", "expected"), FORMS)
def test_forms(value: dict[str, object], expected: SandboxPolicy) -> None:
    assert from_object(value) == expected
    assert parse_policy(json.dumps(value)) == expected
    assert parse_policy(json.dumps(value, indent=2).encode()) == expected


CANONICAL = [
    '{"type": "read-only"}',
    '{"type": "read-only", "network_access": true}',
    '{"type": "danger-full-access"}',
    '{"type": "external-sandbox", "network_access": "restricted"}',
    '{"type": "external-sandbox", "network_access": "enabled"}',
    (
        '{"type": "workspace-write", "network_access": false, "exclude_tmpdir_env_var": false, '
        '"exclude_slash_tmp": false}'
    ),
    (
        '{"type": "workspace-write", "writable_roots": ["/a"], "network_access": true, '
        '"exclude_tmpdir_env_var": true, "exclude_slash_tmp": false}'
    ),
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_forms_come_back_as_they_went(text: str) -> None:
    assert json.dumps(to_object(parse_policy(text))) == text


MISTAKES: list[tuple[object, str]] = [
    (None, "the policy must be an object, not null"),
    ("read-only", "the policy must be an object, not a string"),
    ([], "the policy must be an object, not an array"),
    (True, "the policy must be an object, not a boolean"),
    (1.5, "the policy must be an object, not a number"),
    ({}, "`type` is missing: one of read-only, workspace-write"),
    ({"type": None}, "`type` must be a string, not null"),
    ({"type": "readonly"}, "`type`: unknown policy 'readonly'; did you mean `read-only`?"),
    ({"type": "moon"}, "`type`: unknown policy 'moon'; one of read-only, workspace-write"),
    ({"type": "read-only", "mode": "workspace-write"}, "unknown key 'mode' of `read-only`, which"),
    (
        {"type": "workspace-write", "exclude_slashtmp": True},
        "unknown key 'exclude_slashtmp' of `workspace-write`; did you mean `exclude_slash_tmp`",
    ),
    (
        {"type": "workspace-write", "excludeSlashTmp": True},
        "unknown key 'excludeSlashTmp' of `workspace-write`; did you mean `exclude_slash_tmp`",
    ),
    (
        {"type": "workspace-write", "something_new": {"deep": [1]}},
        "unknown key 'something_new' of `workspace-write`, which has type, writable_roots, ",
    ),
    (
        {"type": "workspace-write", "include_default_writable_roots": False},
        "`include_default_writable_roots`: the workspace cannot be left out",
    ),
    ({"type": "danger-full-access", "network_access": False}, "unknown key 'network_access' of"),
    ({"type": "read-only", "exclude_slash_tmp": True}, "unknown key 'exclude_slash_tmp' of"),
    ({"type": "external-sandbox", "writable_roots": []}, "unknown key 'writable_roots' of"),
    (
        {"type": "read-only", "access": {"type": "full-access", "readable_roots": []}},
        "unknown key 'readable_roots' of `access`",
    ),
    (
        {"type": "workspace-write", "read_access": {"type": "restricted"}},
        "`read_access`: restricted read access is not supported",
    ),
    ({"mode": "custom"}, "`mode`: unknown policy 'custom'"),
    ({"type": "read-only", "network_access": 1}, "`network_access` must be a boolean,"),
    ({"type": "read-only", "network_access": None}, "`network_access` must be a boolean,"),
    ({"type": "external-sandbox", "network_access": "on"}, "`network_access` must be .* not 'on'"),
    ({"type": "read-only", "access": "full-access"}, "`access` must be an object, not a string"),
    ({"type": "read-only", "access": {"type": "restricted"}}, "`access`: restricted read access"),
    ({"type": "read-only", "access": {}}, '`access.type` must be "full-access", not null'),
    ({"type": "read-only", "access": {"type": "some"}}, "`access.type` must be .* not 'some'"),
    (
        {"type": "workspace-write", "read_only_access": {"type": "restricted"}},
        "`read_only_access`: restricted read access is not supported",
    ),
    ({"type": "workspace-write", "exclude_slash_tmp": "yes"}, "`exclude_slash_tmp` must be a bool"),
    ({"type": "workspace-write", "exclude_tmpdir_env_var": 0}, "`exclude_tmpdir_env_var` must be"),
    ({"type": "workspace-write", "writable_roots": "/a"}, "`writable_roots` must be an array, not"),
    ({"type": "workspace-write", "writable_roots": None}, "`writable_roots` must be an array, not"),
    (
        {"type": "workspace-write", "writable_roots": ["/a", 1]},
        r"`writable_roots\[1\]` must be a s",
    ),
    ({"type": "workspace-write", "writable_roots": ["a"]}, r"\[0\]` must be an absolute path, not"),
    ({"type": "workspace-write", "writable_roots": [""]}, r"\[0\]` must be an absolute path, not"),
    ({"type": "workspace-write", "writable_roots": ["/a\0"]}, r"`writable_roots\[0\]` is not a pa"),
    ({"type": "workspace-write", "writable_roots": ["/\ud800"]}, r"\[0\]` is not a path"),
    ({"type": "workspace-write", "writable_roots": ["/" + "a" * 5000]}, r"\[0\]` is not a path"),
    (
        {"type": "workspace-write", "writable_roots": ["/a"] * 1025},
        "has 1025 entries; at most 1024",
    ),
]


@pytest.mark.parametrize(("value", "message"), MISTAKES)
def test_a_mistake_names_its_field(value: object, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        from_object(value)
    with pytest.raises(PolicyError, match=message):
        parse_policy(json.dumps(value))


def test_a_text_that_is_no_json_is_a_policy_error() -> None:
    for text in ("", "{", "read-only", '{"type": "read-only"} {}', b"\xff{}"):
        with pytest.raises(PolicyError, match=r"the policy is not JSON: .* at character \d+"):
            parse_policy(text)


def test_the_text_is_bounded() -> None:
    with pytest.raises(PolicyError, match="longer than 131072 bytes"):
        parse_policy(" " * (policy.MAX_TEXT + 1))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "mode", "network_access", "writable_roots", "access"]),
                inner,
            )
        ),
        max_leaves=6,
    )
)
def test_a_value_is_a_policy_or_a_policy_error(value: object) -> None:
    try:
        made = from_object(value)
    except PolicyError:
        return
    assert from_object(to_object(made)) == made


def test_a_path_of_any_bytes_survives() -> None:
    made = parse_policy('{"type":"workspace-write","writable_roots":["/caf\\udce9"]}')
    assert made.writable_roots == ("/caf\udce9",)


def test_what_a_policy_grants() -> None:
    grants = {
        kind: (SandboxPolicy(kind).full_write, SandboxPolicy(kind).full_network)
        for kind in policy.KINDS
    }
    assert grants == {
        READ_ONLY: (False, False),
        WORKSPACE_WRITE: (False, False),
        EXTERNAL_SANDBOX: (True, False),
        DANGER_FULL_ACCESS: (True, True),
    }
    assert SandboxPolicy(READ_ONLY, network_access=True).full_network
    assert SandboxPolicy(EXTERNAL_SANDBOX, network_access=True).full_network


def test_policies_are_values() -> None:
    one = SandboxPolicy(WORKSPACE_WRITE, writable_roots=("/a",))
    same = SandboxPolicy(WORKSPACE_WRITE, writable_roots=("/a",))
    assert one == same
    assert hash(one) == hash(same)
    assert one != SandboxPolicy(WORKSPACE_WRITE, writable_roots=("/b",))
    assert one != SandboxPolicy(WORKSPACE_WRITE, writable_roots=("/a",), exclude_slash_tmp=True)
    assert one != {"type": "workspace-write"}
    assert "'/a'" in repr(one)


@pytest.mark.parametrize(
    ("made", "cwd", "environ", "expected"),
    [
        (SandboxPolicy(READ_ONLY), "/w", {"TMPDIR": "/t"}, ()),
        (SandboxPolicy(DANGER_FULL_ACCESS), "/w", {}, ()),
        (SandboxPolicy(EXTERNAL_SANDBOX), "/w", {}, ()),
        (SandboxPolicy(WORKSPACE_WRITE), "/w", {"TMPDIR": "/t"}, ("/w", "/tmp", "/t")),
        (SandboxPolicy(WORKSPACE_WRITE), "/w", {}, ("/w", "/tmp")),
        (SandboxPolicy(WORKSPACE_WRITE), "/w", {"TMPDIR": ""}, ("/w", "/tmp")),
        (SandboxPolicy(WORKSPACE_WRITE), "/w", {"TMPDIR": "t"}, ("/w", "/tmp")),
        (SandboxPolicy(WORKSPACE_WRITE), "w", {}, ("/tmp",)),
        (
            SandboxPolicy(WORKSPACE_WRITE, exclude_slash_tmp=True),
            "/w",
            {"TMPDIR": "/t"},
            ("/w", "/t"),
        ),
        (
            SandboxPolicy(WORKSPACE_WRITE, exclude_tmpdir_env_var=True),
            "/w",
            {"TMPDIR": "/t"},
            ("/w", "/tmp"),
        ),
        (
            SandboxPolicy(WORKSPACE_WRITE, writable_roots=("/b", "/a", "/b")),
            "/b",
            {"TMPDIR": "/tmp"},
            ("/b", "/a", "/b", "/b", "/tmp", "/tmp"),
        ),
    ],
)
def test_writable_roots(
    made: SandboxPolicy, cwd: str, environ: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert writable_roots(made, cwd, environ) == expected
