"""What reaches an escalated program, and what does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.environment import (
    Dropped,
    EscalatedEnvironment,
    escalated_environment,
)

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
    caller: dict[str, str], server: dict[str, str] | None = None, **options: frozenset[str]
) -> EscalatedEnvironment:
    return escalated_environment(
        SERVER if server is None else server, caller, writable=writable, **options
    )


def names(result: EscalatedEnvironment) -> list[str]:
    return [dropped.name for dropped in result.dropped]


def test_an_unchanged_environment_comes_through_whole() -> None:
    assert escalated(SERVER) == EscalatedEnvironment(SERVER, ())


def test_what_the_caller_set_or_changed_comes_through() -> None:
    caller = {**SERVER, "LANG": "de_DE", "ANSWER": "42", "GIT_AUTHOR_NAME": "A", "EMPTY": ""}
    assert escalated(caller) == EscalatedEnvironment(caller, ())


def test_what_the_caller_unset_stays_unset() -> None:
    result = escalated({"PATH": SERVER["PATH"]})
    assert result == EscalatedEnvironment({"PATH": SERVER["PATH"]}, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/ws/evil.so"),
        ("BASH_ENV", "/ws/evil"),
        ("BASH_FUNC_git%%", "() { evil; }"),
        ("ANYTHING", "() { evil; }"),
        ("PS4", "$(evil)"),
        ("PYTHONPATH", "/usr/lib/elsewhere"),
        ("NODE_OPTIONS", "--require /ws/evil.js"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_DIR", "/ws/evil.git"),
        ("GIT_WORK_TREE", "/home/me"),
        ("GIT_TRACE", "/home/me/.bashrc"),
        ("GIT_PAGER", "cat; evil"),
        ("PAGER", "evil"),
        ("LESSOPEN", "|evil %s"),
        ("LESS", "-o/home/me/.bashrc"),
        ("VISUAL", "evil"),
        ("TAR_OPTIONS", "--checkpoint-action=exec=evil"),
        ("https_proxy", "http://127.0.0.1:1"),
        ("XDG_CONFIG_HOME", "/ws"),
    ],
)
def test_what_steers_a_program_is_dropped_and_reported(name: str, value: str) -> None:
    result = escalated({**SERVER, name: value})
    assert result.environment == SERVER
    assert names(result) == [name]
    assert result.dropped[0].reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/ws"),
        ("EDITOR", "/ws/evil"),
        ("SSH_AUTH_SOCK", "/ws/agent"),
        ("GIT_SSH_COMMAND", "evil"),
    ],
)
def test_a_refused_change_gives_the_users_own_value_back(name: str, value: str) -> None:
    result = escalated({**SERVER, name: value})
    assert result.environment == SERVER
    assert names(result) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [("PAGER", "cat"), ("GIT_PAGER", ""), ("GIT_EDITOR", "true"), ("EDITOR", ":"),
     ("GIT_TRACE", "1"), ("LESS", "FRX")],
)  # fmt: skip
def test_a_harmless_value_may_be_set(name: str, value: str) -> None:
    caller = {**SERVER, name: value}
    assert escalated(caller) == EscalatedEnvironment(caller, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/ws/mine.so"),
        ("EDITOR", "/ws/bin/edit --wait"),
        ("LESSOPEN", "|/ws/lesspipe %s"),
        ("JAVA_TOOL_OPTIONS", "-javaagent:/ws/agent.jar"),
        ("CFLAGS", "-O2 -I/ws/include"),
        ("GIT_CONFIG_GLOBAL", "/ws/gitconfig"),
    ],
)
def test_the_users_own_value_goes_too_where_the_sandbox_can_write_it(name: str, value: str) -> None:
    server = {"PATH": "/bin", name: value}
    result = escalated(server, server)
    assert result.environment == {"PATH": "/bin"}
    assert names(result) == [name]
    assert "/ws" in result.dropped[0].reason


def test_the_users_own_places_stay_even_where_the_sandbox_can_write() -> None:
    server = {"PATH": "/bin", "HOME": "/ws", "SSH_AUTH_SOCK": "/tmp/agent", "TMUX": "/tmp/t,1,0"}
    assert escalated(server, server) == EscalatedEnvironment(server, ())


def test_lists_lose_only_the_entries_that_are_not_trusted() -> None:
    server = {"PATH": "/bin", "PYTHONPATH": "/opt/lib:/ws/src:.::/opt/more"}
    result = escalated(server, server)
    assert result.environment["PYTHONPATH"] == "/opt/lib:/opt/more"
    assert names(result) == ["PYTHONPATH"]


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
    assert result.environment == {**SERVER, "PATH": trusted}
    assert names(result) == ["PATH"]


def test_the_users_own_path_is_no_better() -> None:
    server = {"PATH": "/ws/.venv/bin:/bin"}
    result = escalated(server, server)
    assert result.environment == {"PATH": "/bin"}
    assert "/ws/.venv/bin" in result.dropped[0].reason


@pytest.mark.parametrize("server", [{}, {"PATH": ""}, {"PATH": "/ws/bin"}])
def test_a_path_is_never_missing(server: dict[str, str]) -> None:
    result = escalated({}, server)
    assert result.environment["PATH"].startswith("/usr/local/sbin:")
    assert names(result) == ["PATH"]


def test_without_any_trusted_directory_the_systems_own_remain() -> None:
    result = escalated_environment({}, {}, writable=lambda _: True)
    assert result.environment == {"PATH": "/usr/bin:/bin"}


def test_a_path_of_endless_entries_is_looked_at_in_part() -> None:
    asked: list[str] = []

    def counting(path: str) -> bool:
        asked.append(path)
        return False

    path = ":".join(f"/{number}" for number in range(100_000))
    escalated_environment(SERVER, {"PATH": path}, writable=counting)
    assert 0 < len(asked) < 1000


def test_the_wrappers_variables_go_without_a_word() -> None:
    wrapper = {"CODEX_ESCALATE_SOCKET": "5", "EXEC_WRAPPER": "/w", "BASH_EXEC_WRAPPER": "/w"}
    assert escalated({**SERVER, **wrapper}) == EscalatedEnvironment(SERVER, ())
    assert escalated({**SERVER, **wrapper}, {**SERVER, **wrapper}).environment == SERVER
    kept = escalated({**SERVER, **wrapper}, keep=frozenset({"*"}))
    assert kept.environment == SERVER


def test_the_sandboxs_own_variables_tell_what_the_server_is_in() -> None:
    inside = {**SERVER, "CODEX_SANDBOX_NETWORK_DISABLED": "1", "CODEX_SANDBOX": "seatbelt"}
    assert escalated(inside) == EscalatedEnvironment(SERVER, ())
    outer = {**SERVER, "CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    assert escalated(inside, outer) == EscalatedEnvironment(outer, ())


def test_the_user_can_keep_and_drop() -> None:
    caller = {**SERVER, "GIT_DIR": "/ws/.git", "NODE_OPTIONS": "--x", "SECRET_A": "s", "PS4": "+"}
    result = escalated(
        caller,
        keep=frozenset({"GIT_DIR", "NODE_*", "PS4"}),
        drop=frozenset({"SECRET_*", "PS4", "LANG"}),
    )
    expected = {**SERVER, "GIT_DIR": "/ws/.git", "NODE_OPTIONS": "--x"}
    del expected["LANG"]
    assert result.environment == expected
    assert names(result) == ["LANG", "PS4", "SECRET_A"]


def test_the_user_can_keep_the_callers_path() -> None:
    result = escalated({"PATH": "/ws/bin"}, keep=frozenset({"PATH"}))
    assert result == EscalatedEnvironment({"PATH": "/ws/bin"}, ())


@pytest.mark.parametrize(
    ("name", "value"), [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0"), ("A", "\ud800")]
)
def test_what_no_environment_can_hold_is_dropped(name: str, value: str) -> None:
    result = escalated({**SERVER, name: value})
    assert result.environment == SERVER
    assert result.dropped == (Dropped(name, "no environment can hold it: environ(7)"),)


def test_bytes_that_are_no_text_survive() -> None:
    caller = {**SERVER, "A": os.fsdecode(b"\xff\xfe"), os.fsdecode(b"\xe9"): "x"}
    assert escalated(caller) == EscalatedEnvironment(caller, ())


NAME = st.text("ABC_*=\0\udcff", max_size=4) | st.sampled_from(
    ["PATH", "HOME", "LD_PRELOAD", "GIT_DIR", "PYTHONPATH", "PAGER", "EXEC_WRAPPER", "IFS"]
)
VALUE = st.text(max_size=8) | st.sampled_from(
    ["/ws", "/bin:/ws:.", "/bin", "cat", "() { x; }", "() {:.", "\ud800", "/bin:\0", "-I/ws x"]
)
ENVIRONMENT = st.dictionaries(NAME, VALUE)


@given(ENVIRONMENT, ENVIRONMENT, st.frozensets(NAME), st.frozensets(NAME))
def test_any_two_environments_give_one_that_can_be_passed_on(
    server: dict[str, str], caller: dict[str, str], keep: frozenset[str], drop: frozenset[str]
) -> None:
    result = escalated_environment(server, caller, writable=writable, keep=keep, drop=drop)
    for name, value in result.environment.items():
        encoded = os.fsencode(name) + b"=" + os.fsencode(value)
        assert b"\0" not in encoded
        assert name
        assert "=" not in name
    assert set(result.environment) <= set(caller) | {"PATH"}
    assert result.environment["PATH"]


@given(ENVIRONMENT, ENVIRONMENT)
def test_nothing_dropped_is_left_but_the_users_own(
    server: dict[str, str], caller: dict[str, str]
) -> None:
    result = escalated_environment(server, caller, writable=writable)
    for name in set(names(result)) - {"PATH", "PYTHONPATH"}:
        assert name not in result.environment or result.environment[name] == server[name]


@given(ENVIRONMENT, ENVIRONMENT)
def test_lists_never_hold_an_entry_that_is_not_trusted(
    server: dict[str, str], caller: dict[str, str]
) -> None:
    environment = escalated_environment(server, caller, writable=writable).environment
    for value in (environment["PATH"], environment.get("PYTHONPATH", "/")):
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

    result = escalated_environment(
        dict(os.environ), caller, writable=lambda path: path.startswith(str(workspace))
    )
    assert b"evil" in output(caller)
    assert b"evil" not in output(result.environment)
