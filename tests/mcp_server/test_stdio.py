"""The two streams over everything they may be, and out of everybody else's reach."""

import errno
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from codex_multitool.mcp_server.stdio import Answers, Stdio
from tests.mcp_server.conversation import PATIENCE, pipes, sockets

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


async def echo(chunks: AsyncIterator[bytes], answers: Answers) -> None:
    """A session that says everything back."""
    async for data in chunks:
        answers.send_nowait(data)


def serve(descriptors: tuple[int, int], session: object = echo) -> None:
    """Serve in this process, to the end."""

    async def main() -> None:
        with trio.fail_after(PATIENCE):
            await Stdio(descriptors).serve(session)  # type: ignore[arg-type]  # an `echo`

    trio.run(main)


@contextmanager
def descriptor(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        try:
            os.close(fd)
        except OSError as error:
            if error.errno != errno.EBADF:  # the server has closed it: it was the server's
                raise


def closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False


class TestKinds:
    def test_pipes_and_sockets(self) -> None:
        for make in (pipes, sockets):
            ours, (reader, writer) = make()
            os.write(writer, b"hello")
            os.close(writer)
            serve(ours)
            with open(reader, "rb") as output:
                assert output.read() == b"hello"
            assert all(closed(fd) for fd in ours)

    def test_regular_files_at_the_place_they_stand(self, tmp_path: Path) -> None:
        source, sink = tmp_path / "in", tmp_path / "out"
        source.write_bytes(b"skipped" + b"x" * 200_000)
        sink.write_bytes(b"kept ")
        with (
            descriptor(source, os.O_RDONLY) as reader,
            descriptor(sink, os.O_WRONLY) as writer,
        ):
            os.lseek(reader, 7, os.SEEK_SET)
            os.lseek(writer, 5, os.SEEK_SET)
            serve((reader, writer))
        assert sink.read_bytes() == b"kept " + b"x" * 200_000

    def test_appended_file(self, tmp_path: Path) -> None:
        source, sink = tmp_path / "in", tmp_path / "out"
        source.write_bytes(b"new")
        sink.write_bytes(b"old ")
        with (
            descriptor(source, os.O_RDONLY) as reader,
            descriptor(sink, os.O_WRONLY | os.O_APPEND) as writer,
        ):
            serve((reader, writer))
        assert sink.read_bytes() == b"old new"

    def test_null_device(self) -> None:
        null = Path(os.devnull)
        with descriptor(null, os.O_RDONLY) as reader, descriptor(null, os.O_WRONLY) as writer:
            serve((reader, writer))

    def test_terminal(self) -> None:
        master, terminal = pty.openpty()
        ours = os.dup(terminal), os.dup(terminal)
        os.write(master, b"hello\n\x04")  # ^D: the end of the input, termios(3)
        serve(ours)
        # What was typed, and what was said: a terminal shows both, not always at once.
        shown = b""
        while (size := len(shown)) < len(b"hello\r\n" * 2):
            shown += os.read(master, 100)
            assert len(shown) > size
        assert shown.replace(b"\r", b"") == b"hello\nhello\n"
        os.close(master)
        os.close(terminal)

    def test_terminal_that_hangs_up_is_the_end(self) -> None:
        master, terminal = pty.openpty()
        os.close(master)
        serve((os.dup(terminal), os.dup(terminal)))
        os.close(terminal)

    def test_connection_that_is_reset_is_the_end(self) -> None:
        ours, (reader, writer) = sockets()
        os.close(reader)
        os.close(writer)
        serve(ours)


class TestWriting:
    def test_a_large_message_goes_through_a_small_pipe(self) -> None:
        ours, (reader, writer) = pipes()
        received: list[bytes] = []

        def read() -> None:
            with open(reader, "rb") as output:
                received.append(output.read())

        thread = threading.Thread(target=read)
        thread.start()

        async def talk(chunks: AsyncIterator[bytes], answers: Answers) -> None:
            answers.send_nowait(b"x" * 5_000_000)
            answers.send_nowait(b"y" * 5_000_000)
            async for _ in chunks:
                pass

        os.close(writer)
        serve(ours, talk)
        thread.join(PATIENCE)
        assert received == [b"x" * 5_000_000 + b"y" * 5_000_000]

    def test_what_comes_after_the_end_is_written_to_nobody(self, tmp_path: Path) -> None:
        ours, (reader, writer) = pipes()
        late: list[Answers] = []

        async def leave(_: AsyncIterator[bytes], answers: Answers) -> None:
            late.append(answers)

        os.close(writer)
        serve(ours, leave)
        others = tmp_path / "others"
        with descriptor(others, os.O_WRONLY | os.O_CREAT) as fd:
            os.dup2(fd, ours[1])  # the number is another's now
            with pytest.raises((trio.ClosedResourceError, trio.BrokenResourceError)):
                late[0].send_nowait(b"late")
            os.close(ours[1])
        assert others.read_bytes() == b""
        with open(reader, "rb") as output:
            assert output.read() == b""

    @pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
    def test_others_who_share_it_find_it_as_they_left_it(self, terminal: bool) -> None:
        reader, writer = pty.openpty() if terminal else os.pipe()
        shared = os.dup(writer)
        seen: list[bool] = []

        async def look(chunks: AsyncIterator[bytes], answers: Answers) -> None:
            del chunks
            answers.send_nowait(b"hello")
            await trio.testing.wait_all_tasks_blocked()
            seen.append(os.get_blocking(shared))

        serve((os.open(os.devnull, os.O_RDONLY), writer), look)
        assert seen == [True]
        assert os.read(reader, 10) == b"hello"
        os.close(shared)
        os.close(reader)

    def test_a_socket_is_given_back_as_it_was(self) -> None:
        ours, theirs = sockets()
        shared = os.dup(ours[1])
        os.close(theirs[1])
        serve(ours)
        assert os.get_blocking(shared)
        os.close(shared)
        os.close(theirs[0])


SERVER = """
import os, subprocess, sys
from codex_multitool.mcp_server.opening import take_over
streams = take_over()
{0}
import trio
from codex_multitool.mcp_server.conversation import Conversation
from codex_multitool.mcp_server.server import Server
from codex_multitool.mcp_server.stdio import Answers, Stdio
from codex_multitool.mcp_server.words import Words

async def run(spec, state, asker):
    raise AssertionError

server = Server(run, Conversation(Words(kernel=True)), patience=1, cwd="/")
trio.run(Stdio(streams).serve, server.serve)
"""


def program(after: str = "") -> list[str]:
    """A server for a process of its own, which does `after` once the streams are taken."""
    return [sys.executable, "-c", SERVER.format(after)]


def start(after: str = "", *, shell: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run it with a ping as its input, redirected as a shell is told."""
    command = program(after)
    if shell:
        command = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.run(command, input=PING, capture_output=True, timeout=PATIENCE, check=False)


class TestOwnStreams:
    def test_a_session(self) -> None:
        done = start()
        assert (done.returncode, done.stdout, done.stderr) == (0, PONG, b"")

    def test_stray_prints_and_children_go_to_stderr_and_read_nothing(self) -> None:
        done = start(
            "print('printed', flush=True); os.write(1, b'written\\n');"
            "subprocess.run('echo child; cat', shell=True, check=True)"
        )
        assert (done.returncode, done.stdout) == (0, PONG)
        assert done.stderr == b"printed\nwritten\nchild\n"

    def test_no_child_inherits_the_protocol(self) -> None:
        done = start(
            "subprocess.run(['sh', '-c', 'ls -l /proc/self/fd >&2'], close_fds=False, check=True)"
        )
        assert done.stdout == PONG
        links = [
            line.split(" -> ")[1] for line in done.stderr.decode().splitlines() if "->" in line
        ]
        pipes_seen = {link for link in links if link.startswith("pipe:")}
        assert len(pipes_seen) == 1  # stderr, as 1 and as 2

    @pytest.mark.parametrize(
        ("shell", "answer"),
        [
            ("<&-", b""),
            (">&-", b""),
            ("2>&-", PONG),
            ("<&- >&- 2>&-", b""),
            ("</dev/null", b""),
            (">/dev/null", b""),
        ],
    )
    def test_streams_that_are_closed_count_as_empty(self, shell: str, answer: bytes) -> None:
        done = start(shell=shell)
        assert (done.returncode, done.stdout, done.stderr) == (0, answer, b"")

    def test_log_and_protocol_may_share_a_pipe(self) -> None:
        lines = 20_000
        done = start(f"[print('noise', file=sys.stderr) for _ in range({lines})]", shell="2>&1")
        assert done.stdout == b"noise\n" * lines + PONG

    def test_client_that_is_gone_ends_it_quietly(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        with subprocess.Popen(
            program(),
            stdin=subprocess.PIPE,
            stdout=writer,
            stderr=subprocess.PIPE,
        ) as process:
            os.close(writer)
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(PING)
            process.stdin.flush()
            assert process.wait(PATIENCE) == 0  # its input is still open
            assert process.stderr.read() == b""

    def test_a_file_as_input_and_output(self, tmp_path: Path) -> None:
        source, sink = tmp_path / "in", tmp_path / "out"
        source.write_bytes(PING + PING.replace(b"1", b"7"))
        with source.open("rb") as reader, sink.open("wb") as writer:
            subprocess.run(program(), stdin=reader, stdout=writer, timeout=PATIENCE, check=True)
        answers = [json.loads(line) for line in sink.read_bytes().splitlines()]
        assert [answer["id"] for answer in answers] == [1, 7]
