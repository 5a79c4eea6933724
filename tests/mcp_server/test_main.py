"""The role as a process: its options, its errors, and every way to its end."""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from codex_multitool import __version__
from tests.end_to_end.client import Client
from tests.end_to_end.processes import CONFIG, MARK, kill_marked, marked, running, wait_until
from tests.executables import built
from tests.machine import kernel_refusal
from tests.mcp_server.tool import patched_shell

NAME = "codex-exec-mcp-server"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
# One process that no signal but SIGKILL ends, in a session of its own.
STUBBORN = "setsid sh -c 'trap : TERM HUP INT; while :; do sleep 1000; done' & sleep 1001"


@dataclass
class Role:
    """The server's command line in a home of its own."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def command(self) -> Path:
        return built() / NAME

    def environ(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "CODEX_MULTITOOL_CACHE": str(self.home),  # no shell was ever built there
            MARK: self.mark,
            **self.environment,
        }

    def run(self, *options: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Start it with nothing to read, and wait for its end."""
        given = {"cwd": self.home, "input": b"", **more}
        return subprocess.run(
            [self.command, *options],
            env=self.environ(),
            capture_output=True,
            check=False,
            timeout=60,
            **given,
        )

    def refusal(self, *options: str) -> str:
        """What it says when it does not start."""
        done = self.run(*options)
        assert (done.returncode, done.stdout) == (1, b"")
        told = done.stderr.decode()
        assert told.startswith(f"{NAME}: ")
        assert "Traceback" not in told
        return told.removeprefix(f"{NAME}: ").strip()

    def client(self, *options: str, cwd: Path | None = None) -> Client:
        """A client that has shaken hands with it."""
        client = Client(
            [str(self.command), *options],
            env=self.environ(),
            cwd=cwd or self.home,
            stderr=self.home / "stderr",
        )
        client.initialize()
        return client


@pytest.fixture
def role(tmp_path: Path) -> Iterator[Role]:
    """The role; whatever it leaves behind fails the test, and is ended."""
    role = Role(tmp_path.resolve())
    (role.home / ".codex").mkdir()
    (role.home / ".codex" / "config.toml").write_text(CONFIG)
    if kernel_refusal() is not None:
        role.environment["CODEX_BASH_PATH"] = patched_shell()
    yield role
    try:
        wait_until(lambda: not marked(role.mark), "the end of every process of the test")
    finally:
        kill_marked(role.mark)


# Options


def test_help_names_the_options(role: Role) -> None:
    done = role.run("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    told = done.stdout.decode()
    assert told.startswith(f"Usage: {NAME} [OPTIONS]")
    for name in ("--intercept", "--shell", "--bash", "--execve", "--rules", "--version"):
        assert name in told


def test_version(role: Role) -> None:
    done = role.run("--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"{NAME} {__version__}\n")


@pytest.mark.parametrize("option", ["word", "--intercept=magic"])
def test_a_wrong_command_line_is_a_usage_error(role: Role, option: str) -> None:
    done = role.run(option)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--help" in done.stderr


@pytest.mark.parametrize("option", ["--bash", "--execve"])
def test_a_program_that_is_not_there_is_named(role: Role, option: str) -> None:
    told = role.refusal(option, "missing")
    shown = "--shell" if option == "--bash" else option
    assert told == f"{shown} {role.home}/missing: no such file"


@pytest.mark.parametrize("option", ["--shell", "--execve"])
def test_a_program_that_cannot_be_executed_is_named(role: Role, option: str) -> None:
    (role.home / "text").write_text("")
    assert role.refusal(option, "text") == f"{option} {role.home}/text: not executable"
    assert role.refusal(option, "/") == f"{option} /: no such file"


def test_the_environment_may_name_the_shell(role: Role) -> None:
    role.environment["CODEX_BASH_PATH"] = "/no/such/bash"
    assert role.refusal() == "--shell /no/such/bash: no such file"


def test_without_a_patched_shell_wrapper_mode_says_how_to_get_one(role: Role) -> None:
    role.environment["CODEX_BASH_PATH"] = ""
    told = role.refusal("--intercept=wrapper")
    assert "make shells" in told
    assert "--shell" in told


@pytest.mark.parametrize("option", ["--shell=/bin/sh", "--bash=/bin/bash"])
def test_a_shell_that_is_not_patched_does_not_start_in_wrapper_mode(
    role: Role, option: str
) -> None:
    told = role.refusal("--intercept=wrapper", option)
    assert told.startswith(f"no rule would hold under the shell {option.partition('=')[2]}: ")
    assert "make shells" in told


def test_a_log_level_that_is_none_is_told(role: Role) -> None:
    role.environment["CODEX_MULTITOOL_LOG"] = "loud"
    assert role.refusal().startswith("CODEX_MULTITOOL_LOG=LOUD is none of DEBUG,")


# Rules


@pytest.mark.parametrize("given", [True, False], ids=["--rules", "CODEX_HOME"])
def test_a_bad_rules_file_is_an_error_with_its_place(role: Role, given: bool) -> None:
    rules = role.home / ".codex" / "rules" / ("extra" if given else "default.rules")
    rules.parent.mkdir(parents=True)
    rules.write_text('# fine\nprefix_rule(pattern=["ls"], decision="maybe")\n')
    told = role.refusal(*(["--rules", str(rules)] if given else []))
    assert told.startswith(f"{rules}:2:1: ")
    assert "maybe" in told


def test_a_missing_rules_file_is_an_error(role: Role) -> None:
    assert f"{role.home}/none.rules" in role.refusal("--rules", f"{role.home}/none.rules")


def test_a_missing_codex_home_is_an_error(role: Role) -> None:
    role.environment["CODEX_HOME"] = "/no/such/home"
    assert "/no/such/home" in role.refusal()


# Standard descriptors and the working directory


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_descriptor_takes_nothing_elses_place(role: Role, closed: int) -> None:
    done = role.run(input=PING, preexec_fn=lambda: os.close(closed))
    assert done.returncode == 0
    assert done.stdout == (b"" if closed in (0, 1) else PONG)
    assert b"Traceback" not in done.stderr


def test_only_messages_are_written_to_stdout(role: Role) -> None:
    role.environment["CODEX_MULTITOOL_LOG"] = "debug"
    with role.client() as client:
        assert client.shell("echo out; echo err >&2").exit_code == 0
    assert client.noise == []


def test_a_server_whose_directory_has_gone_serves(role: Role) -> None:
    gone = role.home / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && exec "$2"'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", gone, role.command],
        env=role.environ(), input=PING, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, PONG)


@pytest.mark.parametrize(("cwd", "writable"), [("workspace", True), ("/", False)])
def test_the_root_directory_is_nobodys_workspace(role: Role, cwd: str, writable: bool) -> None:
    folder = role.home / cwd
    folder.mkdir(exist_ok=True)
    made = folder / f"made-{role.mark}"
    policy = {"type": "workspace-write", "exclude_slash_tmp": True}
    try:
        with role.client(cwd=folder) as client:
            assert client.request("codex/sandbox-state/update", {"sandboxPolicy": policy}) == {}
            result = client.shell(f": > {made}")
        assert (result.exit_code == 0) == made.exists() == writable
    finally:
        made.unlink(missing_ok=True)


# The end


def test_the_end_of_the_input_is_the_end(role: Role) -> None:
    client = role.client()
    assert client.end_input() == 0
    client.close()


def test_the_end_of_the_input_ends_every_call(role: Role) -> None:
    with role.client() as client:
        calls = [client.begin_shell(STUBBORN) for _ in range(2)]
        wait_until(lambda: running(role.mark, "sleep 1000"), "the commands run")
        assert client.end_input() == 0
    assert [client.answers_to(call) for call in calls] == [[], []]
    for call in calls:
        assert call.message.exception() is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_signal_ends_it_with_everything_it_started(role: Role, number: int, busy: bool) -> None:
    with role.client() as client:
        if busy:
            call = client.begin_shell(STUBBORN)
            wait_until(lambda: running(role.mark, "sleep 1000"), "the command runs")
        client.process.send_signal(number)
        assert client.wait() == 128 + number
    if busy:
        assert call.message.exception() is not None
    assert "Traceback" not in client.stderr()


def test_a_killed_server_leaves_no_process(role: Role) -> None:
    with role.client() as client:
        call = client.begin_shell(STUBBORN)
        wait_until(lambda: running(role.mark, "sleep 1000"), "the command runs")
        client.process.kill()
        assert client.wait() == -signal.SIGKILL
        wait_until(lambda: not marked(role.mark), "the end of every process of the server")
    assert call.message.exception() is not None


def test_a_client_that_reads_no_more_ends_it(role: Role) -> None:
    with subprocess.Popen(
        [role.command], env=role.environ(), cwd=role.home,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        server.stdin.write(PING)
        server.stdin.flush()
        assert b"Traceback" not in server.stderr.read()
        assert server.wait(60) == 0
