"""Shell scripts work as in any shell although each of their programs is asked about."""

from __future__ import annotations

import os

import pytest

from tests.end_to_end.rig import (
    NOT_THE_ORIGINALS_BASH,
    NOT_THE_ORIGINALS_WRAPPER,
    OUR_PAIRINGS,
    PAIRINGS,
    WORKSPACE,
    Box,
    Pairing,
    Start,
    over,
)
from tests.end_to_end.shared import Share

HERE_DOCUMENT = """\
name=x
cat <<END
plain $name $(printf 'sub%s' stituted)
END
cat <<'END'
quoted $name
END
"""


CONSTRUCTS = {
    "pipe": ("printf 'b\\na\\nb\\n' | sort -u | tail -n 1", "b\n"),
    "here-document": (HERE_DOCUMENT, "plain x substituted\nquoted $name\n"),
    "here-string": ("cat <<< word | tr a-z A-Z", "WORD\n"),
    "substitution": ('echo "[$(basename /a/b)] `dirname /a/b`"', "[b] /a\n"),
    "process substitution": ("true; cat <(env echo sub)", "sub\n"),
    "assignment": ("env A=1 sh -c 'echo $A$B'; B=2 sh -c 'echo $B'", "1\n2\n"),
    "argv[0]": ("(exec -a other sh -c 'echo $0')", "other\n"),
    "exec": ("exec cat /dev/null; echo no", ""),
    "background": ("sleep 0.1 & wait $!; echo rc=$?", "rc=0\n"),
    "background status": ("(sh -c 'exit 5') & wait $!; echo rc=$?", "rc=5\n"),
    "condition": ("if env false; then echo y; else echo n; fi", "n\n"),
    "pipefail": ("set -o pipefail; env false | cat; echo rc=$?", "rc=1\n"),
    "errexit": ("set -e; env false; echo no", ""),
    "function": ("f() { env echo f$1; }; f 1", "f1\n"),
    "words": ("env printf '%s|' '' 'a b' \"it's\" '*'", "|a b|it's|*|"),
    "shell below": ("sh -c 'cd /; pwd; env echo hi | cat'", "/\nhi\n"),
}


@over(PAIRINGS)
def test_constructs(pairing: Pairing, share: Share) -> None:
    client = share(pairing, policy=WORKSPACE)
    outputs = {name: client.shell(script).output for name, (script, _) in CONSTRUCTS.items()}
    assert outputs == {name: output for name, (_, output) in CONSTRUCTS.items()}


@over(PAIRINGS)
def test_cd_holds_for_the_programs_that_follow(pairing: Pairing, share: Share, box: Box) -> None:
    client = share(pairing, policy=WORKSPACE)
    result = client.shell("mkdir sub && cd sub && pwd && env pwd; touch here")
    assert result.output == f"{box.ws}/sub\n" * 2
    assert (box.ws / "sub" / "here").exists()


@over(PAIRINGS)
def test_a_large_here_document_comes_through_whole(pairing: Pairing, share: Share) -> None:
    text = "0123456789abcde\n" * 5120  # more than a pipe holds, less than a command may have
    client = share(pairing, policy=WORKSPACE)
    assert client.shell(f"cat <<'END' | wc -c\n{text}END\n").output.strip() == str(len(text))


@over(PAIRINGS)
def test_a_script_with_an_interpreter_line_runs(pairing: Pairing, share: Share, box: Box) -> None:
    script = box.ws / "script"
    script.write_text('#!/bin/sh -e\necho "$0 $1"\nexit 3\n')
    script.chmod(0o755)
    client = share(pairing)
    assert client.shell("./script 'a b'; echo rc=$?").output == "./script a b\nrc=3\n"


@over(NOT_THE_ORIGINALS_WRAPPER)  # the original's: Exec format error
def test_a_script_without_an_interpreter_line_runs(
    pairing: Pairing, share: Share, box: Box
) -> None:
    script = box.ws / "script"
    script.write_text('echo "got $1"\nexit 3\n')
    script.chmod(0o755)
    client = share(pairing)
    assert client.shell("./script 'a b'; echo rc=$?").output == "got a b\nrc=3\n"


@over(PAIRINGS)
def test_an_unknown_command_is_127_as_ever(pairing: Pairing, share: Share) -> None:
    client = share(pairing)
    result = client.shell("no-such-command; echo rc=$?")
    assert "rc=127" in result.lines
    assert "command not found" in result.output


@over(NOT_THE_ORIGINALS_BASH)  # the original's bash overruns its argument array: words get lost
def test_no_word_is_lost_in_a_loop(pairing: Pairing, share: Share) -> None:
    client = share(pairing)
    for count in (1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 30, 62):
        words = [f"w{n}" for n in range(count)]
        result = client.shell(f"for i in 1 2 3; do env printf '%s ' {' '.join(words)}; done")
        assert result.output.split() == words * 3


@over(PAIRINGS)
def test_a_login_shell_reads_its_start_up_file(pairing: Pairing, start: Start, box: Box) -> None:
    for name in (".profile", ".zprofile"):
        (box.home / name).write_text("FROM_PROFILE=sourced\n")
    client = start(pairing)
    script = 'echo "[$FROM_PROFILE]"'
    assert client.shell(script, login=True).output.endswith("[sourced]\n")
    assert client.shell(script, login=None).output.endswith("[sourced]\n")
    assert client.shell(script, login=False).output == "[]\n"


def decoys(box: Box) -> None:
    """A program of the same name in the server's folder and in sub."""
    for folder in (box.ws, box.ws / "sub"):
        folder.mkdir(exist_ok=True)
        tool = folder / "tool"
        tool.write_text(f"#!/bin/sh\necho {folder.relative_to(box.root)}\n")
        tool.chmod(0o755)


@over(PAIRINGS)
def test_a_relative_program_is_the_one_in_the_commands_folder(
    pairing: Pairing, share: Share, box: Box
) -> None:
    decoys(box)
    client = share(pairing)
    assert client.shell("cd sub; ./tool; ../tool").output == "ws/sub\nws\n"


@over(OUR_PAIRINGS)
def test_the_question_is_about_the_program_in_the_commands_folder(
    pairing: Pairing, start: Start, box: Box
) -> None:
    decoys(box)  # the original asks about, and runs, the one in the server's folder
    client = start(pairing, rules='prefix_rule(pattern=["tool"], decision="prompt")\n')
    assert client.shell("cd sub; ./tool").output == "ws/sub\n"
    assert [question.asked for question in client.questions] == [
        f"Allow agent to run `{box.ws}/sub/tool` in `{box.ws}/sub`?"
    ]


BYTES = "$'\\xe9 \\xff'"


@over(OUR_PAIRINGS)  # the original cannot carry them in JSON
@pytest.mark.parametrize(
    "decision", [None, "allow", "prompt"], ids=["inside", "allowed", "prompted"]
)
def test_words_that_are_not_utf8_arrive_as_they_are(
    pairing: Pairing, decision: str | None, start: Start
) -> None:
    rule = f'prefix_rule(pattern=["env", "printf"], decision="{decision}")\n' if decision else ""
    client = start(pairing, rules=rule)
    result = client.shell(f"env printf '<%s>' {BYTES} | od -An -tx1")
    assert result.output.split() == ["3c", "e9", "20", "ff", "3e"]
    assert len(client.questions) == (decision == "prompt")


@over(OUR_PAIRINGS)
def test_paths_and_variables_that_are_not_utf8_reach_an_escalated_program(
    pairing: Pairing, start: Start, box: Box
) -> None:
    folder = os.fsencode(box.ws) + b"/\xe9"
    os.mkdir(folder)
    (box.home / ".codex" / "config.toml").write_text('codex_multitool.keep_environment = ["V"]\n')
    client = start(pairing, rules='prefix_rule(pattern=["sh"], decision="allow")\n')
    result = client.shell(
        f"cd $'\\xe9' && V={BYTES} sh -c ': > \"$V\"; printf %s \"$V\"' | od -An -tx1"
    )
    assert result.output.split() == ["e9", "20", "ff"]
    assert os.listdir(folder) == [b"\xe9 \xff"]
