"""The command behind a wrapper is found as the wrapper itself finds it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.unwrap import SHELLS, find_commands, unwrap

X = ["x", "-y"]


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("env x -y", [X]),
        ("env -i - A=b C= x -y", [X]),
        ("env -u A --chdir /tmp --unset=B x -y", [X]),
        ("env -- x -y", [X]),
        ("env", [[]]),
        ("nice -n 5 x -y", [X]),
        ("nice -5 x -y", [X]),
        ("nice --adj=5 x -y", [X]),
        ("nohup x -y", [X]),
        ("timeout -s KILL -k5 --preserve-status 10 x -y", [X]),
        ("timeout --signal KILL 10 x -y", [X]),
        ("setsid -w x -y", [X]),
        ("stdbuf -oL -e 0 x -y", [X]),
        ("ionice -c2 -n 7 x -y", [X]),
        ("sudo -nu root -E A=b x -y", [X]),
        ("sudo --user root -- x -y", [X]),
        ("doas -u root x -y", [X]),
        ("command -p x -y", [X]),
        ("command -v x -y", []),
        ("exec -a name x -y", [X]),
        ("chroot --userspec=a:b /root x -y", [X]),
        ("taskset -c 0,1 x -y", [X]),
        ("flock -n /lock x -y", [X]),
        ("flock /lock -c script", ["script"]),
        ("time -f %e x -y", [X]),
        ("unshare -rn x -y", [X]),
        ("strace -f -o log x -y", [X]),
        ("busybox x -y", [X]),
        ("ld-linux-x86-64.so.2 --library-path /lib x -y", [X]),
        ("xargs -0 -n1 -I {} x -y", [X]),
        ("xargs -r -P 4 --max-args=1 x -y", [X]),
        ("xargs -i -t x -y", [X]),
        ("su root -c script", ["script"]),
        ("script -qc script /dev/null", ["script"]),
        ("runuser -u me -- x -y", [X]),
        ("watch -n 1 x -y", ["x -y"]),
        ("eval x -y", ["x -y"]),
        ("trap script EXIT", ["script"]),
        ("sh -c script name", ["script"]),
        ("sh script -c", []),
        ("bash -lc script", ["script"]),
        ("bash -e -c script", ["script"]),
        ("bash -xc script", ["script"]),
        ("bash -c -e script", ["script"]),
        ("bash -eo pipefail -c script", ["script"]),
        ("bash -o pipefail -O extglob +x -c script", ["script"]),
        ("bash --norc --rcfile file -c -- script", ["script"]),
        ("dash -ec script", ["script"]),
        ("bash -- -c script", []),
        ("git -c alias.z=!script z", ["script"]),
        ("git -c alias.z=push z", ["git push"]),
        ("git submodule --quiet foreach --recursive script", ["script"]),
        ("git submodule foreach x -y", [X]),
        ("git status", []),
        ("find . -name a -exec x -y ; -okdir z {} +", [X, ["z", "{}"]]),
        ("grep -r x", []),
    ],
)
def test_what_a_wrapper_runs(command: str, inner: list[list[str] | str]) -> None:
    program, *words = command.split()
    assert unwrap(program, words) == inner


@pytest.mark.parametrize(
    ("words", "inner"),
    [
        (["-S", "x -y"], [["env", "x", "-y"]]),
        (["-Sx -y", "z"], [["env", "x", "-y", "z"]]),
        (["-ivS", "A=b x", "-y"], [["env", "x", "-y"]]),
        (["--split-string=x -y"], [["env", "x", "-y"]]),
        (["-u", "A", "--split", "x -y"], [["env", "x", "-y"]]),
        (["x", "-S", "y"], [["x", "-S", "y"]]),
        (["-S"], []),
    ],
)
def test_env_splits_a_string(words: list[str], inner: list[list[str]]) -> None:
    assert unwrap("env", words) == inner


def test_a_plus_ends_a_find_command_only_after_braces() -> None:
    assert find_commands(["-exec", "x", "+", "{}", "+", "-delete"]) == [["x", "+", "{}"]]


PROGRAMS = [*sorted(SHELLS), "env", "sudo", "timeout", "xargs", "find", "git", "command", "flock"]


@given(st.sampled_from(PROGRAMS), st.lists(st.text("-cCSoOe=+;{}a ") | st.text()))
def test_any_words_can_be_unwrapped(program: str, words: list[str]) -> None:
    for inner in unwrap(program, words):
        assert isinstance(inner, str | list)


@pytest.mark.parametrize(
    "command",
    [
        "env -i -u B A=b {} 1 2",
        "env -S '{} 1' 2",
        "nice -n 1 {} 1 2",
        "nice -1 {} 1 2",
        "nohup {} 1 2",
        "timeout -s KILL -k 5 10 {} 1 2",
        "setsid -w {} 1 2",
        "stdbuf -o L -e0 {} 1 2",
        "ionice -c 3 {} 1 2",
        "taskset 1 {} 1 2",
        "flock /dev/null {} 1 2",
        "flock /dev/null -c '{} 1 2'",
        "find / -maxdepth 0 -exec {} 1 2 ;",
        "xargs -r -n2 -P1 {} 1 2",
        "bash -eo pipefail -c '{} 1 2'",
        "bash -c -e '{} 1 2'",
        "bash -c -- '{} 1 2'",
        "dash -ec '{} 1 2'",
        "zsh -fc '{} 1 2'",
        "busybox env {} 1 2",
    ],
)
def test_the_real_wrapper_runs_that_command(command: str, tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.write_text(f'#!/bin/sh\nprintf "%s " "$@" >{tmp_path}/log\n')
    probe.chmod(0o755)
    words = [part.replace("{}", str(probe)) for part in _split(command)]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(
        words, input="2\n", text=True, capture_output=True, check=False, timeout=60,
        env={"PATH": os.environ["PATH"]}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text().startswith("1 2 ")
    inner = unwrap(words[0], words[1:])
    if words[0] == "busybox":
        assert isinstance(inner[0], list)
        inner = unwrap(inner[0][0], inner[0][1:])
    found = inner[-1] if isinstance(inner[-1], str) else " ".join(inner[-1]).removeprefix("env ")
    assert found == f"{probe} 1 2"


def _split(command: str) -> list[str]:
    quoted = command.split("'")
    return [
        word
        for index, part in enumerate(quoted)
        for word in ([part] if index % 2 else part.split())
    ]
