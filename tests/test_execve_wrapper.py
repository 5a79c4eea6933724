"""The wrapper as a process, against a server end played by the test: real sockets, real execs."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from codex_multitool.escalation import requests, wire

ROOT = Path(__file__).resolve().parent.parent
START = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    "from codex_multitool.roles import main; "
    "sys.argv[0] = 'codex-execve-wrapper'; sys.exit(main(sys.argv))"
)
PATIENCE = 20.0


class Server:
    """The server's end of one wrapper's conversation."""

    def __init__(self) -> None:
        self.datagrams, self.client = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.settimeout(PATIENCE)
        self.stream: socket.socket | None = None

    def start(
        self,
        *words: str | bytes,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> "subprocess.Popen[bytes]":
        number = self.client.fileno()
        environment = {"PATH": os.environ["PATH"], wire.SOCKET_VARIABLE: str(number)}
        return subprocess.Popen(
            [sys.executable, "-I", "-c", START, *words],
            env={**environment, **(env or {})},
            pass_fds=[number, *pass_fds],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def request(self) -> wire.EscalateRequest:
        data, fds, _, _ = socket.recv_fds(self.datagrams, 16, 4)
        assert data == b"\0"
        assert len(fds) == 1
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fds[0])
        self.stream.settimeout(PATIENCE)
        return requests.decode_request(self.frame()[0])

    def frame(self) -> tuple[bytes, list[int]]:
        assert self.stream is not None
        header, fds, _, _ = socket.recv_fds(self.stream, 4, 253)
        length = wire.payload_length(header)
        data = b""
        while len(data) < length:
            data += self.stream.recv(length - len(data))
        return data, list(fds)

    def answer(self, message: dict[str, object]) -> None:
        assert self.stream is not None
        self.stream.sendall(wire.frame(message))

    def close(self) -> None:
        for end in (self.datagrams, self.client, self.stream):
            if end is not None:
                end.close()


@pytest.fixture
def server() -> Iterator[Server]:
    end = Server()
    yield end
    end.close()


def finish(wrapper: "subprocess.Popen[bytes]") -> tuple[int, bytes, bytes]:
    stdout, stderr = wrapper.communicate(timeout=PATIENCE)
    return wrapper.returncode, stdout, stderr


def test_run_executes_the_program_here_with_its_own_argv(server: Server) -> None:
    wrapper = server.start("/bin/sh", b"odd\xff", "-c", 'printf %s "$0:$1"; exit 5', b"\xfe", "x")
    request = server.request()
    assert [os.fsencode(word) for word in request.argv][:1] == [b"odd\xff"]
    assert request.file == "/bin/sh"
    assert request.workdir == os.getcwd()
    server.answer({"action": "Run"})
    assert finish(wrapper) == (5, b"\xfe:x", b"")


def test_the_request_leaves_out_the_variables_of_the_interception(server: Server) -> None:
    own = {wire.WRAPPER_VARIABLE: "/w", wire.OLDER_WRAPPER_VARIABLE: "/w", "KEPT": "caf\udcff"}
    wrapper = server.start("/bin/true", "true", env=own)
    assert set(server.request().env) == {"PATH", "KEPT"}
    server.answer({"action": "Run"})
    assert finish(wrapper)[0] == 0


def test_run_keeps_the_interception_for_a_nested_shell(server: Server) -> None:
    script = f'printf %s "$EXEC_WRAPPER"; test -S /proc/self/fd/${wire.SOCKET_VARIABLE}'
    wrapper = server.start("/bin/sh", "sh", "-c", script, env={wire.WRAPPER_VARIABLE: "/w"})
    server.request()
    server.answer({"action": "Run"})
    assert finish(wrapper) == (0, b"/w", b"")


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"Deny": {"reason": "not now"}}, b"Execution denied: not now\n"),
        ({"Deny": {"reason": None}}, b"Execution denied\n"),
    ],
)
def test_deny_says_why_and_exits_1(server: Server, action: object, text: bytes) -> None:
    wrapper = server.start("/bin/true", "true")
    server.request()
    server.answer({"action": action})
    assert finish(wrapper) == (1, b"", text)


def test_a_server_that_closes_is_a_refusal_in_one_line(server: Server) -> None:
    wrapper = server.start("/bin/echo", "echo", "ran")
    server.request()
    assert server.stream is not None
    server.stream.close()
    status, stdout, stderr = finish(wrapper)
    assert (status, stdout) == (1, b"")
    assert stderr.count(b"\n") == 1
    assert b"cannot ask the server" in stderr


@pytest.mark.parametrize("value", [None, "", "-3", "x", "9999"])
def test_without_a_usable_socket_nothing_runs(value: str | None) -> None:
    environment = {} if value is None else {wire.SOCKET_VARIABLE: value}
    words = [sys.executable, "-I", "-c", START, "/bin/echo", "echo", "ran"]
    done = subprocess.run(
        words, env=environment, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Traceback" not in done.stderr


def test_escalate_lends_stdio_to_a_server_of_another_make(server: Server) -> None:
    extra, other = os.pipe()
    wrapper = server.start("/bin/true", "true", pass_fds=[extra])
    server.request()
    server.answer({"action": "Escalate"})
    payload, fds = server.frame()
    assert requests.decode_descriptors(payload, len(fds)) == [0, 1, 2]
    os.write(fds[1], b"from outside")
    for fd in (*fds, extra, other):
        os.close(fd)
    server.answer({"exit_code": 9})
    assert finish(wrapper) == (9, b"from outside", b"")


def test_escalate_lends_every_descriptor_and_dies_the_same_death(server: Server) -> None:
    extra, other = os.pipe()
    wrapper = server.start("/bin/true", "true", pass_fds=[extra])
    server.request()
    server.answer({"action": "Escalate", wire.EXTENSION: 1})
    payload, fds = server.frame()
    assert requests.decode_descriptors(payload, len(fds)) == [0, 1, 2, extra]
    wrapper.send_signal(signal.SIGUSR1)
    assert requests.decode_signal(server.frame()[0]) == signal.SIGUSR1
    for fd in (*fds, extra, other):
        os.close(fd)
    server.answer({"exit_code": 128 + signal.SIGKILL, "signal": int(signal.SIGKILL)})
    assert finish(wrapper)[0] == -signal.SIGKILL


@pytest.mark.parametrize("ignored", [True, False])
def test_run_passes_sigpipe_on_as_the_shell_had_it(server: Server, ignored: bool) -> None:
    # A shell between: the wrapper's parent is what knows the disposition Python overwrote.
    trap = "trap '' PIPE; " if ignored else ""
    words = [sys.executable, "-I", "-c", START, "/bin/grep", "grep", "SigIgn", "/proc/self/status"]
    number = server.client.fileno()
    quoted = " ".join(f"'{word}'" for word in words).replace("'" + START + "'", '"$CODE"')
    wrapper = subprocess.Popen(
        ["/bin/sh", "-c", f"{trap}{quoted}; exit $?"],
        env={wire.SOCKET_VARIABLE: str(number), "CODE": START},
        pass_fds=[number],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    server.request()
    server.answer({"action": "Run"})
    _, stdout, stderr = finish(wrapper)
    assert stderr == b""
    mask = int(stdout.split()[1], 16)
    assert bool(mask >> (signal.SIGPIPE - 1) & 1) is ignored


@pytest.mark.parametrize(
    ("words", "status", "start"),
    [(["--help"], 0, b"Usage:"), (["--version"], 0, b"codex-execve-wrapper "), ([], 1, b"")],
)
def test_help_version_and_misuse(words: list[str], status: int, start: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", START, *words],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status
    assert done.stdout.startswith(start)


@pytest.mark.parametrize(("program", "status"), [("/no/such", 127), ("/etc/passwd", 126)])
def test_what_cannot_be_executed_says_so(server: Server, program: str, status: int) -> None:
    wrapper = server.start(program, "such")
    server.request()
    server.answer({"action": "Run"})
    code, _, stderr = finish(wrapper)
    assert code == status
    assert stderr.startswith(b"such: ")
