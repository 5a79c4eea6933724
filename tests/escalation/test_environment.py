"""What reaches an escalated program, and what does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.environment import (
    NOT_HARMLESS,
    UNSET,
    WRITABLE,
    Dropped,
    Environment,
    escalated_environment,
    own_environment,
    told,
)
from codex_multitool.escalation.harmless_variables import harmless

SERVER = {
    "HOME": "/home/me",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "EDITOR": "vim",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "GIT_SSH_COMMAND": "ssh -i /home/me/key",
}


def writable(path: str) -> bool:
    return path.startswith(("/ws", "/tmp"))


def escalated(
    caller: dict[str, str],
    server: dict[str, str] | None = None,
    *,
    true: dict[str, str] | None = None,
    withheld: frozenset[str] = frozenset(),
    keep: frozenset[str] = frozenset(),
    drop: frozenset[str] = frozenset(),
) -> Environment:
    server = SERVER if server is None else server
    own = own_environment(server, writable=writable, drop=drop)
    return escalated_environment(
        own, server, caller, writable=writable, true=true or {}, withheld=withheld, keep=keep,
        drop=drop,
    )  # fmt: skip


def names(result: Environment) -> list[str]:
    return [dropped.name for dropped in result.dropped]


def test_an_unchanged_environment_comes_through_whole() -> None:
    assert escalated(SERVER) == (SERVER, ())


def test_what_is_harmless_comes_through() -> None:
    caller = {**SERVER, "LANG": "de_DE", "NO_COLOR": "1", "GIT_AUTHOR_NAME": "A", "PAGER": "cat"}
    assert escalated(caller) == (caller, ())


@pytest.mark.parametrize(
    "name",
    # One of each kind that made a program run the caller's code when the dangerous was listed,
    # and of those that nobody had thought of.
    [
        "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_git%%", "PS4", "PYTHONPATH", "NODE_OPTIONS",
        "GIT_CONFIG_COUNT", "GIT_DIR", "GIT_TRACE_REDACT", "LESSOPEN", "TAR_OPTIONS", "https_proxy",
        "XDG_CONFIG_HOME", "GSS_MECH_CONFIG", "LTDL_LIBRARY_PATH", "OMP_TOOL_LIBRARIES",
        "CUDA_INJECTION64_PATH", "SOPS_AGE_KEY_CMD", "TASKRC", "PGHOST", "DJANGO_SETTINGS_MODULE",
        "ESBUILD_BINARY_PATH", "LLVM_PROFILE_FILE", "QML2_IMPORT_PATH", "AZURE_EXTENSION_DIR",
        "CC", "FOO", "GITHUB_ENV", "TMPDIR",
    ],
)  # fmt: skip
def test_all_else_that_is_set_or_changed_is_refused(name: str) -> None:
    for server in (SERVER, {**SERVER, name: "/usr/share/own"}):
        result = escalated({**SERVER, name: "x"}, server)
        assert result == (server, (Dropped(name, NOT_HARMLESS),))


@pytest.mark.parametrize("name", ["HOME", "EDITOR", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND"])
def test_what_was_unset_is_there_again(name: str) -> None:
    caller = {key: value for key, value in SERVER.items() if key != name}
    expected = (Dropped(name, UNSET),) if name != "EDITOR" else ()
    assert escalated(caller).dropped == expected
    assert (escalated(caller).variables == SERVER) is (name != "EDITOR")


def test_what_the_caller_never_had_is_there_without_a_word() -> None:
    caller = {"PATH": SERVER["PATH"], "LANG": "C"}
    withheld = frozenset(SERVER) - caller.keys()
    assert escalated(caller, withheld=withheld) == ({**SERVER, "LANG": "C"}, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/ws/mine.so"),
        ("EDITOR", "/ws/bin/edit --wait"),
        ("LESSOPEN", "|/ws/lesspipe %s"),
        ("JAVA_TOOL_OPTIONS", "-javaagent:/ws/agent.jar"),
        ("CFLAGS", "-O2 -I/ws/include"),
        ("KUBECONFIG", "/ws/kubeconfig"),
        ("NOBODY_KNOWS", "./file"),
        ("NOBODY_KNOWS", ".."),
        ("NOBODY_KNOWS", ":".join(f"/{number}" for number in range(300))),
    ],
)
def test_the_users_own_value_goes_too_where_the_sandbox_can_write_it(name: str, value: str) -> None:
    server = {"PATH": "/bin", name: value}
    assert escalated(server, server) == ({"PATH": "/bin"}, (Dropped(name, WRITABLE),))
    silent = escalated({"PATH": "/bin"}, server, withheld=frozenset((name,)))
    assert silent.dropped == (Dropped(name, WRITABLE),)


def test_the_users_own_places_stay_even_where_the_sandbox_can_write() -> None:
    server = {"PATH": "/bin", "HOME": "/ws", "SSH_AUTH_SOCK": "/tmp/agent", "TMUX": "/tmp/t,1,0",
              "XDG_CACHE_HOME": "/ws/cache", "TMPDIR": "/tmp"}  # fmt: skip
    assert escalated(server, server) == (server, ())


def test_lists_lose_only_the_entries_that_are_not_trusted() -> None:
    server = {"PATH": "/bin", "PYTHONPATH": "/opt/lib:/ws/src:.::/opt/more", "PERLLIB": "lib"}
    result = escalated(server, server)
    assert result.variables == {"PATH": "/bin", "PYTHONPATH": "/opt/lib:/opt/more"}
    assert names(result) == ["PERLLIB", "PYTHONPATH"]


@pytest.mark.parametrize(
    ("path", "trusted"),
    [
        ("/ws/bin:/usr/bin:/bin", "/usr/bin:/bin"),
        ("/usr/bin:.:/bin", "/usr/bin:/bin"),
        (":/usr/bin", "/usr/bin"),
        ("/usr/bin:", "/usr/bin"),
        ("/usr/bin::/bin", "/usr/bin:/bin"),
        ("bin:/usr/bin", "/usr/bin"),
        ("node_modules/.bin:/opt/tool/bin:/bin", "/opt/tool/bin:/bin"),
        ("/ws", SERVER["PATH"]),
        ("() {:.:/bin", "/bin"),
        ("", SERVER["PATH"]),
        (".", SERVER["PATH"]),
    ],
)
def test_path_keeps_what_the_sandbox_cannot_write(path: str, trusted: str) -> None:
    result = escalated({**SERVER, "PATH": path})
    assert result.variables == {**SERVER, "PATH": trusted}
    assert names(result) == ["PATH"]


def test_the_users_own_path_is_no_better() -> None:
    server = {"PATH": "/ws/bin:/usr/bin"}
    result = escalated(server, server)
    assert result.variables == {"PATH": "/usr/bin"}
    assert names(result) == ["PATH"]


@pytest.mark.parametrize("server", [{}, {"PATH": "/ws/bin"}])
def test_without_a_path_there_is_one_all_the_same(server: dict[str, str]) -> None:
    result = escalated({}, server)
    assert result.variables["PATH"].split(":")[-1] == "/bin"
    assert names(result) == ["PATH"]


def test_a_path_without_end_is_looked_at_in_part() -> None:
    asked = []

    def counting(path: str) -> bool:
        asked.append(path)
        return False

    path = ":".join(f"/{number}" for number in range(100_000))
    escalated_environment(Environment({}), {}, {"PATH": path}, writable=counting)
    assert 0 < len(asked) < 1000


def test_what_shells_keep_account_of_is_true_or_not_there() -> None:
    true = {"PWD": "/real", "_": "/usr/bin/git"}
    lies = {"PWD": "/lie", "OLDPWD": "/ws", "_": "/ws/evil", "LOGNAME": "root"}
    assert escalated({**SERVER, **lies, "SHLVL": "3"}, true=true) == (
        {**SERVER, **true, "SHLVL": "3"},
        (),
    )
    server = {**SERVER, "PWD": "/p", "OLDPWD": "/o", "LOGNAME": "me"}
    assert escalated({**SERVER, **lies}, server, true=true) == ({**server, **true}, ())
    rest = {**SERVER, "OLDPWD": "/o", "LOGNAME": "me"}
    assert escalated(SERVER, server, true=true) == (rest, ())


def test_the_wrappers_variables_go_without_a_word() -> None:
    wrapper = {"CODEX_ESCALATE_SOCKET": "5", "EXEC_WRAPPER": "/w", "BASH_EXEC_WRAPPER": "/w"}
    assert escalated({**SERVER, **wrapper}) == (SERVER, ())
    assert escalated({**SERVER, **wrapper}, {**SERVER, **wrapper}).variables == SERVER
    kept = escalated({**SERVER, **wrapper}, keep=frozenset({"*"}))
    assert kept.variables == SERVER


def test_the_sandboxs_own_variables_tell_what_the_server_is_in() -> None:
    inside = {**SERVER, "CODEX_SANDBOX_NETWORK_DISABLED": "1", "CODEX_SANDBOX": "seatbelt"}
    assert escalated(inside) == (SERVER, ())
    outer = {**SERVER, "CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    assert escalated(inside, outer) == (outer, ())
    assert escalated(SERVER, outer) == (outer, ())


def test_the_user_can_keep_and_drop() -> None:
    caller = {**SERVER, "GIT_DIR": "/ws/.git", "NODE_OPTIONS": "--x", "SECRET_A": "s", "PS4": "+"}
    result = escalated(
        caller,
        keep=frozenset({"GIT_DIR", "NODE_*", "PS4"}),
        drop=frozenset({"SECRET_*", "PS4", "LANG"}),
    )
    expected = {**SERVER, "GIT_DIR": "/ws/.git", "NODE_OPTIONS": "--x"}
    del expected["LANG"]
    assert result.variables == expected
    assert names(result) == ["LANG", "PS4", "SECRET_A"]


def test_what_is_dropped_and_the_caller_never_had_is_not_told() -> None:
    result = escalated({"PATH": SERVER["PATH"]}, withheld=frozenset(SERVER), drop=frozenset({"L*"}))
    assert result == ({k: v for k, v in SERVER.items() if k != "LANG"}, ())


def test_what_is_kept_may_be_unset_and_be_where_the_sandbox_writes() -> None:
    server = {**SERVER, "KUBECONFIG": "/ws/k"}
    keep = frozenset({"HOME", "KUBECONFIG"})
    caller = {name: value for name, value in server.items() if name != "HOME"}
    assert escalated(caller, server, keep=keep) == (caller, ())


def test_the_user_can_keep_the_callers_path() -> None:
    result = escalated({**SERVER, "PATH": "/ws/bin"}, keep=frozenset({"PATH"}))
    assert result == ({**SERVER, "PATH": "/ws/bin"}, ())


@pytest.mark.parametrize(
    ("name", "value"), [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0"), ("A", "\ud800")]
)
def test_what_no_environment_can_hold_is_dropped(name: str, value: str) -> None:
    result = escalated({**SERVER, name: value}, keep=frozenset({name}))
    assert result.variables == SERVER
    assert result.dropped == (Dropped(name, "no environment can hold it: environ(7)"),)


def test_bytes_that_are_no_text_survive() -> None:
    server = {**SERVER, "A": os.fsdecode(b"\xff\xfe"), os.fsdecode(b"\xe9"): "x"}
    assert escalated(server, server) == (server, ())


def test_what_was_lost_is_told_by_reason() -> None:
    dropped = [Dropped(name, "why") for name in ("A", "B\n", "C", "D", "E", "F", "G")]
    assert told([*dropped[:2], Dropped("X", "other")]) == "A, 'B\\n': why; X: other"
    assert told(dropped) == "A, 'B\\n', C, D, E and 2 more: why"
    assert told([]) == ""


NAME = st.text("ABC_*=\0\udcff", max_size=4) | st.sampled_from(
    ["PATH", "HOME", "LD_PRELOAD", "GIT_DIR", "PYTHONPATH", "PAGER", "EXEC_WRAPPER", "PWD", "LANG"]
)
VALUE = st.text(max_size=8) | st.sampled_from(
    ["/ws", "/bin:/ws:.", "/bin", "cat", "() { x; }", "() {:.", "\ud800", "/bin:\0", "-I/ws x"]
)
ENVIRONMENT = st.dictionaries(NAME, VALUE)


@given(ENVIRONMENT, ENVIRONMENT, st.frozensets(NAME), st.frozensets(NAME))
def test_any_two_environments_give_one_that_can_be_passed_on(
    server: dict[str, str], caller: dict[str, str], keep: frozenset[str], drop: frozenset[str]
) -> None:
    result = escalated(caller, server, keep=keep, drop=drop)
    for name, value in result.variables.items():
        encoded = os.fsencode(name) + b"=" + os.fsencode(value)
        assert b"\0" not in encoded
        assert name
        assert "=" not in name
    assert set(result.variables) <= set(server) | set(caller) | {"PATH"}
    assert result.variables["PATH"]


@given(ENVIRONMENT, ENVIRONMENT)
def test_all_is_the_users_own_or_harmless(server: dict[str, str], caller: dict[str, str]) -> None:
    variables = escalated(caller, server).variables
    for name in set(variables) - {"PATH", "PYTHONPATH"}:
        assert variables[name] == server.get(name) or harmless(name, variables[name])


@given(ENVIRONMENT, ENVIRONMENT)
def test_lists_never_hold_an_entry_that_is_not_trusted(
    server: dict[str, str], caller: dict[str, str]
) -> None:
    variables = escalated(caller, server).variables
    for value in (variables["PATH"], variables.get("PYTHONPATH", "/")):
        for entry in value.split(":"):
            assert entry.startswith("/")
            assert not writable(entry)


def test_a_real_program_runs_the_trusted_code(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "sitecustomize.py").write_text("print('evil')")
    (workspace / "true").write_text("#!/bin/sh\necho evil\n")
    (workspace / "true").chmod(0o755)
    (workspace / "rc").write_text("echo evil")
    caller = {
        "PATH": f"{workspace}:{os.environ['PATH']}",
        "PYTHONPATH": str(workspace),
        "BASH_ENV": str(workspace / "rc"),
        "ENV": str(workspace / "rc"),
    }
    code = "import subprocess; subprocess.run(['sh', '-c', 'true; bash -c true'], check=False)"

    def output(environment: dict[str, str]) -> bytes:
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True,
            timeout=60,
        ).stdout  # fmt: skip

    def inside(path: str) -> bool:
        return path.startswith(str(workspace))

    server = dict(os.environ)
    own = own_environment(server, writable=inside)
    result = escalated_environment(own, server, caller, writable=inside)
    assert b"evil" in output(caller)
    assert b"evil" not in output(dict(result.variables))
