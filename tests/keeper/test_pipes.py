"""The pipes of a command: read to their ends, in order, and closed exactly once."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

from codex_multitool.keeper.output import Capture
from codex_multitool.keeper.pipes import Arrivals, Pipes
from codex_multitool.loop import Loop, Task, Wait
from tests.executables import ROOT

PATIENCE = 20.0
Scenario = Callable[[Pipes, int, int], Task[None]]
SETTLED = 0.01  # seconds in which a loop with nothing else to do has read what is there


def piped(scenario: Scenario) -> Capture:
    """Run a scenario that writes into both pipes while they are read; it closes what it writes."""
    capture, loop = Capture(), Loop()
    pipes = Pipes(Arrivals(loop), capture.feed)
    stdout, stderr = (os.dup(fd) for fd, _ in pipes.write_ends())
    pipes.finish()
    try:
        loop.result(scenario(pipes, stdout, stderr))
    finally:
        pipes.close()
    return capture


def ended(pipes: Pipes) -> Task[None]:
    assert (yield Wait(event=pipes.ended, until=time.monotonic() + PATIENCE)) or pipes.ended.is_set


def settled() -> Task[None]:
    yield Wait(until=time.monotonic() + SETTLED)


def test_both_are_read_to_their_ends() -> None:
    def scenario(pipes: Pipes, stdout: int, stderr: int) -> Task[None]:
        os.write(stderr, b"err")
        os.close(stderr)
        yield from settled()
        os.write(stdout, b"out")
        assert not pipes.ended.is_set
        os.close(stdout)
        yield from ended(pipes)

    assert piped(scenario).output().text() == "errout"


def test_what_is_ready_together_is_read_in_the_order_it_became_ready() -> None:
    def scenario(pipes: Pipes, stdout: int, stderr: int) -> Task[None]:
        # The first two are written before anybody reads: a command may be that quick.
        for first, second in ((stderr, stdout), (stdout, stderr)):
            os.write(first, b"1")
            os.write(second, b"2")
            yield from settled()
        os.close(stdout)
        os.close(stderr)
        yield from ended(pipes)

    assert piped(scenario).output().text() == "1212"


def test_what_was_written_before_detaching_is_kept_and_nothing_after() -> None:
    def scenario(pipes: Pipes, stdout: int, stderr: int) -> Task[None]:
        os.write(stdout, b"kept")
        os.write(stderr, b"too")
        pipes.detach()
        os.write(stdout, b"x" * 100)
        os.close(stdout)
        os.close(stderr)
        yield from ended(pipes)  # a job in the background neither blocks nor dies

    assert piped(scenario).output().text() == "kepttoo"


def test_detaching_ends_though_somebody_writes_for_ever() -> None:
    def scenario(pipes: Pipes, stdout: int, stderr: int) -> Task[None]:
        os.close(stderr)
        with subprocess.Popen(["yes"], stdout=stdout) as forever:
            yield Wait(until=time.monotonic() + 0.1)
            pipes.detach()
            forever.kill()
        os.close(stdout)
        yield from ended(pipes)

    assert piped(scenario).output().text().startswith("y\ny\n")


def test_the_command_gets_them_as_1_and_2() -> None:
    pipes = Pipes(Arrivals(Loop()), Capture().feed)
    (_, first), (_, second) = pipes.write_ends()
    pipes.close()
    assert (first, second) == (1, 2)


OUT_OF_DESCRIPTORS = f"""
import os, resource, sys
sys.path.insert(0, {str(ROOT)!r})
from codex_multitool.keeper.pipes import Arrivals, Pipes
from codex_multitool.loop import Loop
arrivals = Arrivals(Loop())
before = len(os.listdir("/proc/self/fd"))
# Room for one pipe; `before` counts the listing too.
resource.setrlimit(resource.RLIMIT_NOFILE, (before + 1, before + 1))
try:
    Pipes(arrivals, lambda *_: None)
    print("opened")
except OSError as error:
    print(error.strerror, len(os.listdir("/proc/self/fd")) - before)
"""


def test_a_pipe_that_cannot_be_made_leaves_none_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Too many open files 0\n"
