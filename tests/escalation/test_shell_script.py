"""The commands that stand in a script are found, and nothing that is only text."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.shell_script import simple_commands

RM = ["rm", "-rf", "x"]


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("", []),
        ("rm -rf x", [RM]),
        ("a && b || c; d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a |& b", [["a"], ["b"]]),
        ("'r'm -\"rf\" \\x", [RM]),
        ("r\\\nm -rf x", [RM]),
        ("rm -rf \\\n x", [RM]),
        ("echo a\\ b 'c d' \"e f\"", [["echo", "a b", "c d", "e f"]]),
        ("echo 'a;b' \"c|d\" e\\;f", [["echo", "a;b", "c|d", "e;f"]]),
        ("find . -exec rm {} \\;", [["find", ".", "-exec", "rm", "{}", ";"]]),
        ('echo "a\\"b\\$c\\d"', [["echo", 'a"b$c\\d']]),
        ("echo $'it\\'s' y", [["echo", "it\\'s", "y"]]),
        ("A=1 B=(2) rm -rf x", [["2"], RM]),
        ("$SUDO rm -rf x", [RM]),
        ("rm -rf x >log 2>&1 </dev/null", [RM]),
        ("2>log rm -rf x", [RM]),
        ("rm -rf x2>log", [["rm", "-rf", "x2"]]),
        ("a &>log b", [["a", "b"]]),
    ],
)
def test_words_and_lists(script: str, commands: list[list[str]]) -> None:
    assert simple_commands(script) == commands


@pytest.mark.parametrize(
    "script",
    [
        "if rm -rf x; then a; fi",
        "if a; then rm -rf x; else b; fi",
        "if a; then b; elif rm -rf x; then c; fi",
        "while a; do rm -rf x; done",
        "until rm -rf x; do a; done",
        "for f in a b; do rm -rf x; done",
        "! rm -rf x",
        "{ rm -rf x; }",
        "(cd a && rm -rf x)",
        "f() { rm -rf x; }; f",
        "f() (rm -rf x)",
        "function f { rm -rf x; }",
        "case $1 in a) rm -rf x;; esac",
        "case a in (a) rm -rf x;; esac",
        "case a in b) c;; *) rm -rf x;; esac",
        "y=$(case a in a) rm -rf x;; esac)",
        "echo $(rm -rf x) b",
        "echo `rm -rf x` b",
        'echo "a $(rm -rf x) b"',
        'echo "a `rm -rf x` b"',
        'echo "$(echo "b c"; rm -rf x)"',
        "echo ${a:-$(rm -rf x)}",
        "echo $((1 + $(rm -rf x)))",
        "echo $((1 << 2)); rm -rf x",
        "((a << 2))\nrm -rf x",
        "cat <(rm -rf x)",
        "a > >(rm -rf x)",
        "cat <<E\ntext\nE\nrm -rf x",
        "cat <<E; rm -rf x\ntext\nE",
        "cat <<-E\n\ttext\n\tE\nrm -rf x",
        "cat <<A <<B\na\nA\nb\nB\nrm -rf x",
        "cat <<E\n$(rm -rf x)\nE",
        "cat <<<E\nrm -rf x",
        "echo it # don't\nrm -rf x",
        "echo a#'\n'; rm -rf x",
        "rm -rf x; echo 'never ends",
        "echo ${a#'}'}\nrm -rf x",
        'echo ${a#"}"}\nrm -rf x',
        'echo "${a:-it\'s}"\nrm -rf x',
        'echo "${a:-"b c"}"; rm -rf x',
    ],
)
def test_a_command_is_found_wherever_the_shell_would_run_it(script: str) -> None:
    assert RM in simple_commands(script)


@pytest.mark.parametrize(
    "script",
    [
        "echo rm -rf x",
        "echo 'a; rm -rf x'",
        'echo "a; rm -rf x"',
        "echo a # ; rm -rf x",
        "cat <<E\nrm -rf x\nE",
        "cat <<E >script\nrm -rf x\nE\nls",
        "cat <<'E'\n$(rm -rf x)\nE",
        'cat <<"E F"\n$(rm -rf x)\nE F',
        "cat <<-E\n\trm -rf x\n\tE",
        "git commit -m 'do it\nrm -rf x\nnow'",
        "a >rm -rf x",
    ],
)
def test_text_is_no_command(script: str) -> None:
    assert not any(command[0] == "rm" for command in simple_commands(script))


WORD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(WORD, min_size=1))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    command = ["program", *words]
    assert simple_commands(shlex.join(command)) == [command]


@given(st.text("abc \t\n\\'\"`$;&|<>(){}#=!1[]-") | st.text())
def test_any_text_is_a_script(script: str) -> None:
    for command in simple_commands(script):
        assert command


BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    "script",
    [
        'probe a; probe \'b c\' && probe "d\\e\\""',
        "probe a\\\nb \\\n c",
        "{ probe a; } | (probe b)",
        "case x in x) probe a;; esac; y=$(case x in x) probe b;; esac)",
        'z="$(probe "b c")" probe d >/dev/null',
        "cat <<E\n$(probe a) '\nE\nprobe b",
        "cat <<'E'\n$(probe a) '\nE\nprobe b # 'c",
        "f() { probe $((1<<2)) ${x:-e}; }; f",
    ],
)
def test_it_finds_what_bash_runs(script: str, tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.write_text('#!/bin/sh\nprintf "%s\\n" "$#" >>"$LOG"\n')
    probe.chmod(0o755)
    log = tmp_path / "log"
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    subprocess.run(
        [str(BASH), "-c", script],
        env={"PATH": path, "LOG": str(log)},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    ran = sorted(int(line) for line in log.read_text().split())
    found = sorted(len(command) - 1 for command in simple_commands(script) if command[0] == "probe")
    assert found == ran
