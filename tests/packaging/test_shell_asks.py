"""A patched shell asks a server that answers shells, and starts its wrapper for all but Run."""

import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool.escalation import wire
from tests.packaging.patched_shell import PatchedShell, patched_shell
from tests.packaging.played_server import RUN, PlayedServer, words

NO_WRAPPER = "/nonexistent/wrapper"
# What is UTF-8, what only looks like it (Unicode, table 3-7), and what JSON has to escape.
PIECES = (
    b"a", b"=", b'"', b"\\", b"/", b"\n", b"\x01", b"\x1f", b"\x7f", b"\x80", b"\xbf", b"\xc0\xaf",
    b"\xc2\x80", b"\xc3\xa9", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xe2\x82", b"\xe2\x82\xac",
    b"\xed\x9f\xbf", b"\xed\xa0\x80", b"\xed\xb2\x80", b"\xee\x80\x80", b"\xf0\x8f\xbf\xbf",
    b"\xf0\x90\x80\x80", b"\xf0\x9f\x98", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80",
    b"\xf5", b"\xff",
)  # fmt: skip


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> PatchedShell:
    return patched_shell(request.param, tmp_path)


@pytest.fixture
def bash(tmp_path: Path) -> PatchedShell:
    return patched_shell("bash", tmp_path)


@pytest.fixture
def server() -> Iterator[PlayedServer]:
    with PlayedServer() as played:
        yield played


def programs(server: PlayedServer) -> list[str]:
    return [request.file for request in server.requests]


# --- told to run it


def test_run_needs_no_wrapper(shell: PatchedShell, server: PlayedServer) -> None:
    shell.fds = [server.number]
    script = """
        /bin/echo a | /bin/cat; v=$(/bin/echo b); /bin/echo $v; (exec /bin/echo c)
        /bin/sh -c 'exit 7'; /bin/echo $?; /bin/sh -c 'kill -TERM $$'; exec /bin/echo $?
    """
    done = shell.run(script, environment=server.environment(NO_WRAPPER))
    assert (done.returncode, done.stdout) == (0, "a\nb\nc\n7\n143\n")
    assert done.stderr == shell.unwrapped(script).stderr
    assert sorted(programs(server)) == ["/bin/cat"] + ["/bin/echo"] * 6 + ["/bin/sh"] * 2


def test_the_request_tells_what_the_wrapper_would(
    shell: PatchedShell, server: PlayedServer
) -> None:
    shell.fds = [server.number]
    (shell.folder / "päth\\").mkdir()
    done = shell.run(
        "cd päth*; BASH_EXEC_WRAPPER=x A='a\"=b' /usr/bin/env -0; : ",
        environment={**server.environment(NO_WRAPPER), "TWICE": "once"},
    )
    (request,) = server.requests
    assert (request.file, request.argv) == ("/usr/bin/env", ["/usr/bin/env", "-0"])
    assert request.workdir == f"{shell.folder}/päth\\"
    assert request.extended
    assert request.by_shell
    seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0")[:-1])
    assert seen["A"] == 'a"=b'
    private = wire.PRIVATE_VARIABLES
    assert request.env == {name: seen[name] for name in seen if name not in private}


def test_words_and_variables_are_bytes(shell: PatchedShell, server: PlayedServer) -> None:
    dice = random.Random(1)
    some = [b"".join(dice.choices(PIECES, k=dice.randrange(8))) for _ in range(2000)]
    every_byte = bytes(range(1, 256))
    given = [every_byte, *PIECES, *some]
    shell.fds = [server.number]
    done = shell.run(
        'export V=$1; /bin/true "$@"', *given, environment=server.environment(NO_WRAPPER)
    )
    assert (done.returncode, done.stderr) == (0, "")
    (request,) = server.requests
    assert words(request) == [b"/bin/true", *given]
    assert os.fsencode(request.env["V"]) == every_byte


@pytest.mark.parametrize("how", ["", "exec ", "exec -c "])
def test_the_environment_is_that_of_a_program_behind_a_wrapper(
    shell: PatchedShell, server: PlayedServer, how: str
) -> None:
    shell.fds = [server.number]
    script = f"export A=$'\\xff' B=; unset EXEC_WRAPPER; CODEX_ESCALATE_SHELL_SOCKET=x; {how}env -0"
    environment = server.environment(str(shell.wrapper))
    asked = shell.run(script, environment=environment).stdout
    assert programs(server) == ["/usr/bin/env"]
    wrapped = shell.run(script, environment={**environment, "EXEC_WRAPPER_ALWAYS": "1"}).stdout
    assert len(shell.records()) == 1
    switch = "EXEC_WRAPPER_ALWAYS=1"
    assert asked.split("\0") == [entry for entry in wrapped.split("\0") if entry != switch]
    assert {f"{name}={value}" for name, value in environment.items()} <= set(asked.split("\0"))


def test_no_descriptor_is_left_in_the_program(shell: PatchedShell) -> None:
    script = "/bin/ls /proc/self/fd; (exec /bin/ls /proc/self/fd) | /bin/cat"
    with open(os.devnull) as lent, PlayedServer(lent=lent.fileno()) as server:
        shell.fds = [server.number]
        environment = server.environment(NO_WRAPPER)
        done = shell.run(script, environment=environment)
        assert len(server.requests) == 3
        assert done.stdout == shell.run(script, environment={}).stdout


def test_nested_shells_ask_whatever_a_script_does(
    shell: PatchedShell, server: PlayedServer
) -> None:
    shell.fds = [server.number]
    nested = f"{shell.path} {' '.join(shell.options)} -c '/bin/echo in; :'"
    unset = f"unset EXEC_WRAPPER {wire.SOCKET_VARIABLE} {wire.SHELL_SOCKET_VARIABLE}"
    done = shell.run(f"{unset}; {nested}; :", environment=server.environment(NO_WRAPPER))
    assert (done.returncode, done.stdout, done.stderr) == (0, "in\n", "")
    assert programs(server) == [str(shell.path), "/bin/echo"]


def test_what_only_the_kernel_refuses_is_reported_as_ever(
    shell: PatchedShell, server: PlayedServer
) -> None:
    program = Path("/bin/true").read_bytes()
    assert b"/ld-" in program
    loaderless = shell.folder / "loaderless"
    loaderless.write_bytes(program.replace(b"/ld-", b"/xx-"))
    loaderless.chmod(0o755)
    shell.fds = [server.number]
    execfail = "shopt -s execfail; exec ./loaderless; " if shell.name == "bash" else ""
    script = f"./loaderless; echo $?; {execfail}/bin/echo on"
    done = shell.run(script, environment=server.environment(NO_WRAPPER))
    plain = shell.unwrapped(script)
    assert (done.returncode, done.stdout, done.stderr) == (
        plain.returncode,
        plain.stdout,
        plain.stderr,
    )
    assert done.stdout.endswith("on\n")


def test_a_signal_while_the_server_thinks_changes_nothing(shell: PatchedShell) -> None:
    gate = shell.folder / "gate"
    os.mkfifo(gate)

    def answer(_: wire.EscalateRequest) -> bytes:
        gate.write_text("end\n")  # the jobs that wait for it end now: SIGCHLD
        return RUN

    with PlayedServer(answer) as server:
        shell.fds = [server.number]
        done = shell.run(
            f"trap : CHLD; {{ read x < {gate}; }} & exec /bin/echo out",
            environment=server.environment(NO_WRAPPER),
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")


# --- told anything else


NOT_RUN = {
    "nothing": b"",
    "half a header": RUN[:3],
    "half an answer": RUN[:-1],
    "escalate": wire.frame({"action": "Escalate", wire.EXTENSION: 1}),
    "deny": wire.frame({"action": {"Deny": {"reason": "Run"}}, wire.EXTENSION: 1}),
    "of another make": wire.frame({"action": "Run"}),
    "of another version": wire.frame({"action": "Run", wire.EXTENSION: 2}),
    "another spelling": b"\x25" + RUN[1:] + b" ",
    "an endless frame": b"\xff\xff\xff\xff" + RUN[4:],
    "a longer header": RUN[:3] + b"\x01" + RUN[4:],
    "garbage": b"\0" * 4096,
}


@pytest.mark.parametrize("case", NOT_RUN)
def test_for_all_but_run_the_wrapper_is_started_once(shell: PatchedShell, case: str) -> None:
    with PlayedServer(NOT_RUN[case]) as server:
        shell.fds = [server.number]
        done = shell.run(
            "/bin/echo a b; (exec /bin/echo c)",
            environment=server.environment(str(shell.wrapper)),
        )
        assert len(server.requests) == 2
    assert (done.returncode, done.stdout, done.stderr) == (0, "a b\nc\n", "")
    assert shell.commands() == [
        ["/bin/echo", "/bin/echo", "a", "b"],
        ["/bin/echo", "/bin/echo", "c"],
    ]


@pytest.mark.parametrize("answer", [b"", NOT_RUN["deny"], NOT_RUN["of another make"]])
def test_nothing_runs_without_run_and_without_a_wrapper(shell: PatchedShell, answer: bytes) -> None:
    with PlayedServer(answer) as server:
        shell.fds = [server.number]
        done = shell.run("/bin/touch ran", environment=server.environment("/bin/false"))
        assert done.returncode == 1
        done = shell.run("/bin/touch ran", environment=server.environment(NO_WRAPPER))
        assert done.returncode == 126
    assert not (shell.folder / "ran").exists()


def test_the_wrapper_inherits_no_descriptor_of_the_request(shell: PatchedShell) -> None:
    with open(os.devnull) as lent, PlayedServer(NOT_RUN["escalate"], lent.fileno()) as server:
        shell.fds = [server.number]
        script = "/bin/ls /proc/self/fd; :"
        done = shell.run(script, environment=server.environment(str(shell.wrapper)))
        assert len(shell.records()) == 1
        assert done.stdout == shell.run(script, environment={}).stdout


# --- nobody to ask, or no way to


NAMES = (wire.SOCKET_VARIABLE, wire.SHELL_SOCKET_VARIABLE)
OFF: dict[str, dict[str, str | None]] = {
    "no word of it": {wire.SHELL_SOCKET_VARIABLE: None},
    "another server's": {wire.SHELL_SOCKET_VARIABLE: "197"},
    "empty": {wire.SHELL_SOCKET_VARIABLE: ""},
    "both empty": dict.fromkeys(NAMES, ""),
    "no number": dict.fromkeys(NAMES, "1x"),
    "negative": dict.fromkeys(NAMES, "-1"),
    "too large": dict.fromkeys(NAMES, "4294967297"),
    "not open": dict.fromkeys(NAMES, "999"),
    "no socket": dict.fromkeys(NAMES, "0"),
    "switched off": {"EXEC_WRAPPER_ALWAYS": "1"},
}


@pytest.mark.parametrize("case", OFF)
def test_where_it_may_not_ask_the_wrapper_does(
    shell: PatchedShell, server: PlayedServer, case: str
) -> None:
    shell.fds = [server.number]
    changed = {**server.environment(str(shell.wrapper)), **OFF[case]}
    environment = {name: value for name, value in changed.items() if value is not None}
    done = shell.run("EXEC_WRAPPER_ALWAYS= /bin/echo out", environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    assert len(shell.records()) == 1
    assert server.requests == []


def test_a_script_that_closes_the_socket_gets_the_wrapper(
    shell: PatchedShell, server: PlayedServer
) -> None:
    shell.fds = [server.number]
    done = shell.run(
        f"n={server.number}; exec {{n}}>&-; /bin/echo out; :",
        environment=server.environment(str(shell.wrapper)),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    assert len(shell.records()) == 1


def test_a_shell_does_not_ask_itself(shell: PatchedShell) -> None:
    """Where the script closes the socket, the shell's own may get its number."""
    environment = {wire.WRAPPER_VARIABLE: str(shell.wrapper), **dict.fromkeys(NAMES, "3")}
    done = shell.run("/bin/echo out; :", environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    assert len(shell.records()) == 1


def test_a_server_that_went_away_leaves_the_wrapper(shell: PatchedShell) -> None:
    with PlayedServer() as server:
        environment = server.environment(str(shell.wrapper))
        kept = os.dup(server.number)
    try:
        environment |= dict.fromkeys(NAMES, str(kept))
        shell.fds = [kept]
        done = shell.run("/bin/echo out", environment=environment)
    finally:
        os.close(kept)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    assert len(shell.records()) == 1


def test_without_two_free_descriptors_the_wrapper_asks(
    bash: PatchedShell, server: PlayedServer
) -> None:
    high = os.dup2(server.number, 63)
    try:
        bash.fds = [high]
        done = bash.run(
            "exec 3</dev/null 4</dev/null; ulimit -n 6; /bin/echo out; :",
            environment=server.environment(str(bash.wrapper)) | dict.fromkeys(NAMES, "63"),
        )
    finally:
        os.close(high)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    assert len(bash.records()) == 1
    assert server.requests == []


@pytest.mark.parametrize(("byte", "asked"), [("x", 2), ("\udcff", 0)])
def test_large_environments(
    bash: PatchedShell, server: PlayedServer, byte: str, asked: int
) -> None:
    """Escaped, the second one's is longer than a frame: it is the wrapper's to say so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    room = 64 << 20  # execve(2): a quarter of it, at most 6 MiB, for all words together
    if hard != resource.RLIM_INFINITY:
        pytest.skip("the stack is limited")
    large = {f"v{number}": byte * 65000 for number in range(80)}
    bash.fds = [server.number]
    resource.setrlimit(resource.RLIMIT_STACK, (room, hard))
    try:
        environment = {**server.environment(str(bash.wrapper)), **large}
        done = bash.run("/bin/true; /bin/echo $?", environment=environment)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    assert len(server.requests) == asked
    assert len(bash.records()) == 2 - asked
    for request in server.requests:
        assert {name: request.env[name] for name in large} == large
