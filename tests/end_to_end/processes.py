"""The processes of a test, through /proc: each carries the test's mark in its environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

MARK = "CODEX_MULTITOOL_TEST_MARK"
# A config.toml under which the mark reaches commands, too.
CONFIG = """\
[shell_environment_policy]
inherit = "all"
ignore_default_excludes = true
"""
DEADLINE = 20.0  # seconds; nothing that works takes this long


@dataclass(frozen=True, slots=True)
class Process:
    """One process that carries the mark."""

    pid: int
    command: str


def marked(mark: str) -> list[Process]:
    """The living processes that inherited the mark, this one excepted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _carries(int(name), wanted):
            command = _read(int(name), "cmdline").replace(b"\0", b" ").strip()
            found.append(Process(int(name), os.fsdecode(command)))
    return found


def running(mark: str, words: str) -> bool:
    """Whether a marked process has exactly this command line."""
    return any(process.command == words for process in marked(mark))


def kill_marked(mark: str) -> None:
    """End what a test left behind, and nothing else."""
    wanted = f"{MARK}={mark}".encode()
    while processes := marked(mark):
        for process in processes:
            try:
                pidfd = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            try:
                # The descriptor names the process for good; the number might be another's by then.
                if _carries(process.pid, wanted):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            finally:
                os.close(pidfd)
        time.sleep(0.01)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = DEADLINE) -> None:
    """Wait until `condition` holds, or fail saying what did not come about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)


def _carries(pid: int, wanted: bytes) -> bool:
    return wanted in _read(pid, "environ").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended, is a zombie, or is somebody else's
        return b""
