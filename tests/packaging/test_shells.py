"""The patched bash and zsh: every exec of theirs goes to the wrapper, and else they are as ever.

Real shells, built by packaging/shells/build.py, and a real wrapper.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.packaging.patched_shell import PatchedShell, patched_shell

NO_WRAPPER = "/nonexistent/wrapper"


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> PatchedShell:
    return patched_shell(request.param, tmp_path)


@pytest.fixture
def bash(tmp_path: Path) -> PatchedShell:
    return patched_shell("bash", tmp_path)


def put(shell: PatchedShell, name: str, content: str | bytes, mode: int = 0o755) -> Path:
    path = shell.folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


# --- what the wrapper is given


def test_every_number_of_words_arrives_intact(shell: PatchedShell) -> None:
    words = [[f"w{n}.{i}" for i in range(n)] for n in [*range(70), 5000]]
    done = shell.run("\n".join(f"/bin/true {' '.join(line)}" for line in words))
    assert (done.returncode, done.stderr) == (0, "")
    assert shell.commands() == [["/bin/true", "/bin/true", *line] for line in words]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 13, 14, 15, 29, 30, 31, 62])
def test_words_arrive_intact_in_loops_and_functions(shell: PatchedShell, count: int) -> None:
    padding = " ".join(f"p{i}" for i in range(count - 1))
    done = shell.run(
        f'f() {{ printenv --version >/dev/null; for i in a b c d e f; do local v="x$i"; '
        f'/bin/echo {padding} "$v" || exit 9; done; }}; f; f'
    )
    lines = [f"{padding} x{letter}".strip() for letter in "abcdef"]
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", lines * 2)


def test_words_are_bytes(shell: PatchedShell) -> None:
    every_byte = bytes(range(1, 256))
    done = shell.run('/bin/true "$@"', every_byte, b"", b"\xff")
    assert done.returncode == 0
    assert shell.records()[0].argv[3:] == [every_byte, b"", b"\xff"]


def test_a_program_found_by_path_is_given_with_its_path(shell: PatchedShell) -> None:
    put(shell, "tool", "#!/bin/sh\necho tool")
    done = shell.run("true; basename a/b; PATH=$PWD:$PATH; tool; ./tool", "x")
    assert done.stdout == "b\ntool\ntool\n"
    assert shell.commands() == [
        ["/usr/bin/basename", "basename", "a/b"],
        [f"{shell.folder}/tool", "tool"],
        ["./tool", "./tool"],
    ]


def test_the_last_command_of_a_script_replaces_the_shell(shell: PatchedShell) -> None:
    process = subprocess.Popen(
        [shell.path, *shell.options, "-c", "/bin/readlink /proc/self"],
        env=shell.base_environment | {"EXEC_WRAPPER": str(shell.wrapper)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.communicate()[0].strip() == str(process.pid)
    assert len(shell.records()) == 1


def test_exec_and_its_options(shell: PatchedShell) -> None:
    done = shell.run(
        "(exec /bin/true 1); (exec -a name /bin/true 2); (exec -l /bin/true 3); command /bin/true 4"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert shell.commands() == [
        ["/bin/true", "/bin/true", "1"],
        ["/bin/true", "name", "2"],
        ["/bin/true", "-/bin/true", "3"],
        ["/bin/true", "/bin/true", "4"],
    ]


def test_exported_variables_and_functions_reach_the_program(shell: PatchedShell) -> None:
    script = "export WORD='a b'; export EMPTY=; " + (
        "f() { :; }; export -f f; " if shell.name == "bash" else ""
    )
    plain = shell.unwrapped(f"{script} /usr/bin/env -0")
    done = shell.run(f"{script} /usr/bin/env -0")
    added = {f"EXEC_WRAPPER={shell.wrapper}", "CODEX_ESCALATE_SOCKET=63"}
    assert set(done.stdout.split("\0")) == set(plain.stdout.split("\0")) | added


def test_open_descriptors_reach_the_wrapper(shell: PatchedShell) -> None:
    reader, writer = os.pipe()
    high = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 63)
    shell.fds = (high,)
    try:
        script = f"exec 5>&{high}; /bin/sh -c 'echo out >/proc/self/fd/{high}' | /bin/cat"
        done = shell.run(script)
    finally:
        os.close(high)
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "out\n"


# --- the wrapper cannot be shaken off


@pytest.mark.parametrize(
    "script",
    [
        "unset EXEC_WRAPPER BASH_EXEC_WRAPPER CODEX_ESCALATE_SOCKET; /bin/true",
        "EXEC_WRAPPER= CODEX_ESCALATE_SOCKET=1 /bin/true",
        "export EXEC_WRAPPER=/bin/echo CODEX_ESCALATE_SOCKET=; /bin/true",
        "EXEC_WRAPPER=/bin/echo; exec /bin/true",
        "exec -c /bin/true",
        "unset EXEC_WRAPPER; (unset CODEX_ESCALATE_SOCKET; exec /bin/true)",
    ],
)
def test_a_script_cannot_turn_the_wrapper_off(shell: PatchedShell, script: str) -> None:
    done = shell.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (record,) = shell.records()
    assert record.command == ["/bin/true", "/bin/true"]
    assert record.value_of("EXEC_WRAPPER") == [str(shell.wrapper)]
    assert record.value_of("CODEX_ESCALATE_SOCKET") == ["63"]


def test_a_nested_shell_keeps_intercepting(shell: PatchedShell) -> None:
    done = shell.run(
        f"unset EXEC_WRAPPER; {shell.path} {' '.join(shell.options)} -c '/bin/echo in'"
    )
    assert done.stdout == "in\n"
    assert shell.commands()[1] == ["/bin/echo", "/bin/echo", "in"]


def test_the_older_variable_is_honoured(shell: PatchedShell) -> None:
    done = shell.run(
        "unset BASH_EXEC_WRAPPER; /bin/true", environment={"BASH_EXEC_WRAPPER": str(shell.wrapper)}
    )
    assert done.returncode == 0
    (record,) = shell.records()
    assert record.value_of("BASH_EXEC_WRAPPER") == [str(shell.wrapper)]
    assert record.value_of("EXEC_WRAPPER") == []


def test_the_newer_variable_comes_first(shell: PatchedShell) -> None:
    both = {"BASH_EXEC_WRAPPER": NO_WRAPPER, "EXEC_WRAPPER": str(shell.wrapper)}
    assert shell.run("/bin/true", environment=both).returncode == 0
    assert len(shell.records()) == 1


@pytest.mark.parametrize("blank", ["", " ", " /nonexistent/wrapper", "\t/nonexistent", "\n"])
@pytest.mark.parametrize("name", ["EXEC_WRAPPER", "BASH_EXEC_WRAPPER"])
def test_a_blank_variable_means_no_wrapper(shell: PatchedShell, name: str, blank: str) -> None:
    done = shell.run("/bin/echo run", environment={name: blank})
    assert (done.returncode, done.stdout) == (0, "run\n")


# --- a wrapper that cannot run


@pytest.fixture(params=["absent", "folder", "text", "not executable"])
def broken(request: pytest.FixtureRequest, shell: PatchedShell) -> str:
    path = shell.folder / "broken"
    if request.param == "folder":
        path.mkdir()
    elif request.param != "absent":
        put(shell, "broken", "/bin/touch ran\n", 0o755 if request.param == "text" else 0o644)
    return str(path)


@pytest.mark.parametrize("how", ["", "exec "])
def test_without_its_wrapper_nothing_runs(shell: PatchedShell, broken: str, how: str) -> None:
    script = put(shell, "script", "/bin/touch ran\n")
    for command in ("/bin/touch ran", "./script"):
        done = shell.run(f"({how}{command}); echo $?", environment={"EXEC_WRAPPER": broken})
        assert done.stdout == "126\n"
        assert f"exec wrapper {broken}" in done.stderr
    assert sorted(path.name for path in shell.folder.iterdir() if path.name != "broken") == [
        script.name
    ]


def test_a_failed_exec_of_the_wrapper_leaves_the_shell_usable(bash: PatchedShell) -> None:
    script = 'shopt -s execfail; set -- a b; exec /bin/true x; echo $? $*; [ -n "$BASHPID" ]'
    done = bash.run(script, environment={"EXEC_WRAPPER": NO_WRAPPER})
    assert (done.returncode, done.stdout) == (0, "126 a b\n")


# --- everyday scripts


def test_a_script_without_an_interpreter_line(shell: PatchedShell) -> None:
    put(shell, "script", '/bin/echo "in $1" $#\n/bin/echo "$0"; exit 7')
    done = shell.run("./script x 'y z'; echo $?")
    assert (done.stdout, done.stderr) == ("in x 2\n./script\n7\n", "")
    if shell.name == "bash":  # bash reads the script itself, zsh has /bin/sh do it
        assert shell.commands() == [
            ["/bin/echo", "/bin/echo", "in x", "2"],
            ["/bin/echo", "/bin/echo", "./script"],
        ]
    else:
        assert shell.commands() == [["/bin/sh", "sh", "./script", "x", "y z"]]


def test_scripts_with_interpreters(shell: PatchedShell) -> None:
    put(shell, "outer", "#! ./inner  -x\n")
    put(shell, "inner", "#!/bin/echo")
    put(shell, "env", "#!/usr/bin/env sh\necho env $1\n")
    done = shell.run("./outer a; ./env b")
    assert done.stdout.splitlines() == ["./inner -x ./outer a", "env b"]
    assert shell.commands() == [["./outer", "./outer", "a"], ["./env", "./env", "b"]]


def test_shell_constructs_work_and_are_seen(shell: PatchedShell) -> None:
    done = shell.run(
        """
        printf 'b\\na\\n' | /usr/bin/sort | /usr/bin/tr a-z A-Z
        v=$(/bin/echo sub | /bin/cat); echo $v
        /bin/cat <<EOF
        here $v
EOF
        /bin/cat <<< string
        /bin/cat <(/bin/echo process)
        /bin/echo back > file & wait; /bin/cat file
        if /bin/false; then :; else echo false; fi
        ( cd / && /bin/pwd )
        /bin/sh -c 'kill -TERM $$'; echo $?
        """
    )
    assert " ".join(done.stdout.split()) == "A B sub here sub string process back false / 143"
    seen = sorted(Path(command[0]).name for command in shell.commands())
    assert " ".join(seen) == "cat cat cat cat cat echo echo echo false pwd sh sort tr"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_program_that_may_be_executed_but_not_read(bash: PatchedShell) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        for path in (bash.path, bash.wrapper, Path("/bin/echo")):
            shutil.copy(path, Path(folder, path.name))
        Path(folder, "echo").chmod(0o711)
        done = subprocess.run(
            [Path(folder, "bash"), "-c", "./echo out; : ./echo; /usr/bin/id -u"],
            env={"EXEC_WRAPPER": str(Path(folder, "wrapper"))},
            cwd=folder,
            user=65534,
            group=65534,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("out\n65534\n", "")
