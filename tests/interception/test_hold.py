"""A held thread is let go, or dies and is told dead to its parent; it is never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codex_multitool.interception.exec_stop import resume_checked
from codex_multitool.interception.hold import Ended, Hold, Refused, Stop, Stopped, holds, seize
from codex_multitool.interception.listener import Notification
from codex_multitool.interception.tracee import ExecSnapshot, read_exec
from tests.interception.supervise import Plain, Supervisor, expected

SLEEPER = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"


@contextmanager
def _running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, stdin=subprocess.PIPE)
    try:
        _until(lambda: "S (sleeping)" in Path(f"/proc/{process.pid}/status").read_text())
        yield process
    finally:
        process.kill()
        process.communicate()


def _held(tid: int, tgid: int) -> Hold:
    hold = seize(tid, tgid)
    assert isinstance(hold, Hold)
    return hold


def _next(hold: Hold) -> Stopped | Ended:
    limit = time.monotonic() + 20
    while (event := hold.poll()) is None:
        assert time.monotonic() < limit
        time.sleep(0.001)
    return event


def _until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.001)


def test_a_fork_holds_nothing() -> None:
    with _running("cat") as process:
        hold = _held(process.pid, process.pid)
        assert holds(process.pid)
        child = os.fork()
        if child == 0:
            os._exit(holds(process.pid))  # it may be a child of its own, by now
        assert os.waitpid(child, 0)[1] == 0
        hold.interrupt()
        _next(hold)
        assert hold.release()


def test_interrupted_stopped_and_let_go() -> None:
    with _running("cat") as process:
        hold = _held(process.pid, process.pid)
        assert hold.poll() is None
        hold.interrupt()
        assert _next(hold) == Stopped(Stop.INTERRUPTED)
        assert hold.registers()
        assert hold.release()
        assert b"TracerPid:\t0\n" in Path(f"/proc/{process.pid}/status").read_bytes()
        assert isinstance(seize(process.pid, process.pid), Hold)


def test_a_signal_stops_before_it_is_delivered() -> None:
    with _running("cat") as process:
        hold = _held(process.pid, process.pid)
        os.kill(process.pid, signal.SIGTERM)
        assert _next(hold) == Stopped(Stop.SIGNAL, signal.SIGTERM)
        assert hold.release(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_a_child_of_ours_is_left_for_us_to_wait_for() -> None:
    with _running("cat") as process:
        hold = _held(process.pid, process.pid)
        hold.kill()
        assert isinstance(_next(hold), Ended)
        assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT) is not None
        assert process.wait() == -signal.SIGKILL


def test_another_ones_child_is_told_dead_to_its_parent() -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 60 & echo $!; wait $!; echo $?"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        hold = _held(child, child)
        hold.kill()
        assert isinstance(_next(hold), Ended)
        assert shell.stdout.readline() == b"137\n"


def test_one_thread_of_a_process_at_a_time() -> None:
    with _running(sys.executable, "-IS", "-c", SLEEPER) as process:
        task = Path(f"/proc/{process.pid}/task")
        _until(lambda: len(list(task.iterdir())) == 2)
        first, second = sorted(int(thread.name) for thread in task.iterdir())
        hold = _held(second, process.pid)
        assert seize(first, process.pid) is None
        hold.interrupt()
        assert _next(hold) == Stopped(Stop.INTERRUPTED)
        assert hold.release()
        again = _held(first, process.pid)
        again.kill()
        assert isinstance(_next(again), Ended)


def test_refusals() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert seize(process.pid, process.pid) == Refused(3)
    assert seize(os.getpid(), os.getpid()) == Refused(1)


class Abandoning(Supervisor):
    """Closes the steps of every exec of target_a as soon as they have begun."""

    def _notified(self, notification: Notification) -> None:
        snapshot = read_exec(self.listener, notification)
        assert isinstance(snapshot, ExecSnapshot)
        if not snapshot.file.endswith("target_a"):
            self.listener.resume(notification)
            return
        steps = resume_checked(self.listener, notification, snapshot.tgid, expected(snapshot))
        try:
            next(steps)
        except StopIteration as stop:
            self.outcomes.append(stop.value)
        steps.close()
        snapshot.close()


@pytest.mark.parametrize("way", ["fork", "vfork", "spawn", "goroutine"])
def test_what_is_abandoned_dies_and_its_parent_hears_of_it(programs: Path, way: str) -> None:
    command = [str(programs / "caller"), way, "5", str(programs / "target_a"), "x"]
    with Abandoning(command, lambda _: Plain()) as under:
        finished = under.run()
    *statuses, intact = finished.out.split()
    assert intact == b"intact"
    assert statuses.count(b"9") == 5 - len(finished.outcomes)
    assert statuses.count(b"768") == len(finished.outcomes)
