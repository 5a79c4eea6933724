"""The pipes of a command: read to their ends, in order, and closed exactly once."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial

import trio
import trio.testing
from codex_multitool.mcp_server.pipes import Pipes

from codex_multitool.keeper.output import Capture
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
from tests.executables import ROOT


def piped(scenario: Callable[[Pipes, int, int], Awaitable[None]]) -> Capture:
    """Run a scenario that writes into both pipes while they are read; it closes what it writes."""
    capture = Capture()

    async def session() -> None:
        with trio.fail_after(20), Pipes(capture, OutputFile(OutputFiles({}), ())) as pipes:
            stdout, stderr = (os.dup(fd) for fd, _ in pipes.write_ends())
            pipes.close_write_ends()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pipes.read)
                await scenario(pipes, stdout, stderr)
                nursery.cancel_scope.cancel()

    trio.run(session)
    return capture


def test_both_are_read_to_their_ends() -> None:
    async def scenario(pipes: Pipes, stdout: int, stderr: int) -> None:
        os.write(stderr, b"err")
        os.close(stderr)
        await trio.testing.wait_all_tasks_blocked()
        os.write(stdout, b"out")
        assert not pipes.ended.is_set()
        os.close(stdout)
        await pipes.ended.wait()

    capture = piped(scenario)
    assert capture.output().text() == "errout"


def test_what_is_ready_together_is_read_in_the_order_it_became_ready() -> None:
    async def scenario(pipes: Pipes, stdout: int, stderr: int) -> None:
        # The first two are written before anybody reads: a command may be that quick.
        for first, second in ((stderr, stdout), (stdout, stderr)):
            os.write(first, b"1")
            os.write(second, b"2")
            await trio.testing.wait_all_tasks_blocked(0.01)
        os.close(stdout)
        os.close(stderr)
        await pipes.ended.wait()

    assert piped(scenario).output().text() == "1212"


def test_what_was_written_before_detaching_is_kept_and_nothing_after() -> None:
    async def scenario(pipes: Pipes, stdout: int, stderr: int) -> None:
        os.write(stdout, b"kept")
        os.write(stderr, b"too")
        pipes.detach()
        os.write(stdout, b"x" * 100)
        os.close(stdout)
        os.close(stderr)
        await pipes.ended.wait()  # a job in the background neither blocks nor dies

    capture = piped(scenario)
    assert capture.output().text() == "kepttoo"


def test_detaching_ends_though_somebody_writes_for_ever() -> None:
    async def scenario(pipes: Pipes, stdout: int, stderr: int) -> None:
        os.close(stderr)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.run_process, ["yes"], stdout=stdout))
            await trio.sleep(0.1)
            pipes.detach()
            nursery.cancel_scope.cancel()
        os.close(stdout)
        await pipes.ended.wait()

    assert piped(scenario).output().text().startswith("y\ny\n")


def test_the_command_gets_them_as_1_and_2() -> None:
    async def session() -> None:
        with Pipes(Capture(), OutputFile(OutputFiles({}), ())) as pipes:
            (_, first), (_, second) = pipes.write_ends()
            assert (first, second) == (1, 2)

    trio.run(session)


OUT_OF_DESCRIPTORS = f"""
import os, resource, sys
sys.path.insert(0, {str(ROOT)!r})
import trio
import trio.testing
from codex_multitool.keeper.output import Capture
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
from codex_multitool.mcp_server.pipes import Pipes
async def session():
    before = len(os.listdir("/proc/self/fd"))
    # Room for what polls and for one pipe; `before` counts the listing too.
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 2, before + 2))
    try:
        with Pipes(Capture(), OutputFile(OutputFiles(os.environ), ())):
            print("opened")
    except OSError as error:
        print(error.strerror, len(os.listdir("/proc/self/fd")) - before)
trio.run(session)
"""


def test_a_pipe_that_cannot_be_made_leaves_none_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Too many open files 0\n"
