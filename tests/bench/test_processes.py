"""Processor time is seen once, whatever has become of the process that had it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from bench import processes
from bench.client import BenchError

BURNT = 400.0  # milliseconds
ASIDE = 100.0  # ticks, a fork, the exits: far from nothing and from twice

BURN = f"""
import os, resource
def burn():
    had = 0
    while had < {BURNT / 1000}:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        had = usage.ru_utime + usage.ru_stime
"""
PROGRAM = f"""{BURN}
import ctypes, signal, sys
becomes = sys.argv[1]
if becomes == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if becomes == "orphan":
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
print("ready", flush=True)
sys.stdin.readline()
reader, writer = os.pipe()
child = os.fork()
if not child:
    if becomes == "orphan" and os.fork():
        os._exit(0)
    burn()
    os.write(writer, b".")
    if becomes == "alive":
        signal.pause()
    os._exit(0)
os.read(reader, 1)
if becomes == "zombie":
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
elif becomes != "alive":
    for _ in range(1 + (becomes == "orphan")):
        os.wait()
print("burnt", flush=True)
sys.stdin.readline()
os.kill(child, signal.SIGKILL) if becomes == "alive" else None
"""


@contextmanager
def tree(becomes: str) -> Iterator[tuple[int, IO[str], IO[str]]]:
    """A process about to have a child that burns; its id, standard input and output."""
    command = [sys.executable, "-c", PROGRAM, becomes]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid, process.stdin, process.stdout
        process.stdin.close()


@pytest.mark.parametrize("becomes", ["reaped", "zombie", "alive", "orphan"])
def test_time_of_a_descendant_counts_once(becomes: str) -> None:
    with tree(becomes) as (pid, say, told):
        before = processes.processor_time(pid)
        say.write("\n")
        say.flush()
        assert told.readline() == "burnt\n"
        spent = processes.processor_time(pid) - before
    assert spent == pytest.approx(BURNT, abs=ASIDE)


def test_children_that_nobody_waits_for_are_told_of() -> None:
    with tree("ignored") as (pid, _, _), pytest.raises(BenchError, match="ignores SIGCHLD"):
        processes.processor_time(pid)


def test_tree_that_does_not_rest_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = itertools.count(1)
    monkeypatch.setattr(processes, "_PATIENCE", 0.05)
    monkeypatch.setattr(processes, "_tree", lambda _: [os.getpid()] * next(lengths))
    with pytest.raises(BenchError, match="come and go"):
        processes.processor_time(os.getpid())


def test_time_of_children_waited_for() -> None:
    command = [sys.executable, "-c", f"{BURN}burn()"]
    spent = processes.processor_time_of_children(lambda: subprocess.run(command, check=True))
    assert spent == pytest.approx(BURNT, abs=ASIDE)
