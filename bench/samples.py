"""How one sample of each row is taken. A sample may fill several rows, each by its name."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import git_tests, processes
from bench.client import BenchError, Client, Json
from bench.subjects import (
    ASKED,
    FLOOR,
    JUDGED,
    LAUNCHED,
    OURS,
    READ_ONLY,
    WORKSPACE_WRITE,
    Bench,
)

Values = dict[str, float]
Sample = Callable[[Bench, str], Values]

_OPENS = 20_000
_OUTPUT_MIB = 64
_CALLS = 1000
_CALLS_COUNTED = 200  # of 2 ms or more each, when a tick is 10
_JUDGED = 500
_PATIENCE = 20.0  # seconds for a wrapper to ask
_SOCKET_VARIABLE = "CODEX_ESCALATE_SOCKET"
_BARE_PYTHON = (sys.executable, "-ISc", "")


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def _spawned(bench: Bench, command: tuple[str, ...]) -> None:
    pid = os.posix_spawn(command[0], command, bench.environment)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise BenchError(f"{' '.join(command)}: status {status}")


def start(bench: Bench, column: str) -> Values:
    """From nothing to the first answers."""
    if column == FLOOR:
        return {"start": _milliseconds(lambda: _spawned(bench, _BARE_PYTHON))}
    begun = time.perf_counter()
    with bench.start(column) as client:
        client.initialize()
        initialized = time.perf_counter()
        client.request("tools/list", {})
        listed = time.perf_counter()
    return {"start": (initialized - begun) * 1000, "start-tools": (listed - begun) * 1000}


def call(name: str, policy: Json) -> Sample:
    """One call of `:`."""

    def sample(bench: Bench, column: str) -> Values:
        if column == FLOOR:
            shell = bench.subjects[OURS].shell
            return {name: _milliseconds(lambda: _spawned(bench, (shell, "-c", ":")))}
        client = bench.server(column, policy)
        return {name: _milliseconds(lambda: _succeeds(client, ":"))}

    return sample


def processor(name: str, policy: Json) -> Sample:
    """Processor time of all processes but the client, by call of `:`."""

    def sample(bench: Bench, column: str) -> Values:
        if column == FLOOR:
            command = (bench.subjects[OURS].shell, "-c", ":")
            spent = processes.processor_time_of_children(
                lambda: _repeat(lambda: _spawned(bench, command))
            )
            return {name: spent / _CALLS_COUNTED}
        client = bench.server(column, policy)
        before = processes.processor_time(client.pid)
        _repeat(lambda: _succeeds(client, ":"))
        return {name: (processes.processor_time(client.pid) - before) / _CALLS_COUNTED}

    return sample


def _repeat(work: Callable[[], object]) -> None:
    for _ in range(_CALLS_COUNTED):
        work()


def _succeeds(client: Client, command: str) -> str:
    result = client.shell(command)
    if result["exit_code"] != 0:
        raise BenchError(f"{command}: {result}")
    return str(result["output"])


def loop(program: str, count: int) -> str:
    """A script that executes the program so many times."""
    return f"i=0; while [ $i -lt {count} ]; do {program}; i=$((i+1)); done; :"


def judged(bench: Bench, column: str) -> Values:
    """A loop of execs that no rule matches, and the same without a server, by exec."""
    script = loop(JUDGED, _JUDGED)
    shell = bench.subjects[OURS if column == FLOOR else column].shell
    alone = 0.0

    def work() -> None:
        nonlocal alone
        alone = _milliseconds(lambda: _spawned(bench, (shell, "-c", script))) / _JUDGED

    spent = processes.processor_time_of_children(work) / _JUDGED
    if column == FLOOR:
        return {"exec-judged": alone, "exec-processor": spent}
    client = bench.server(column, READ_ONLY)
    before = processes.processor_time(client.pid)
    whole = _milliseconds(lambda: _succeeds(client, script)) / _JUDGED
    spent = (processes.processor_time(client.pid) - before) / _JUDGED
    return {"exec-added": whole - alone, "exec-judged": whole, "exec-processor": spent}


def decided(name: str, program: str, count: int, sign: str = "") -> Sample:
    """An exec that a rule decides, whole. sign: what it prints as often as it was decided."""

    def sample(bench: Bench, column: str) -> Values:
        client = bench.server(column, READ_ONLY)
        script, output = loop(program, count), ""
        if sign:
            script = f"{{ {script}; }} 2>&1 | grep -c '{sign}'"

        def work() -> None:
            nonlocal output
            output = _succeeds(client, script)

        asked = client.questions
        spent = _milliseconds(work) / count
        if sign and int(output) != count:
            raise BenchError(f"{column}: {name}: decided {output.strip()} of {count} times")
        if client.questions - asked != (count if program == ASKED else 0):
            raise BenchError(f"{column}: {name}: asked {client.questions - asked} times")
        return {name: spent}

    return sample


def at_once(name: str, command: str, count: int, policy: Json = READ_ONLY) -> Sample:
    """Calls per second."""

    def sample(bench: Bench, column: str) -> Values:
        client = bench.server(column, policy)
        spent = _milliseconds(lambda: client.shells([command] * count))
        return {name: count / spent * 1000}

    return sample


def output(bench: Bench, column: str) -> Values:
    """Megabytes per second."""
    client = bench.server(column, READ_ONLY)
    size = _OUTPUT_MIB << 20
    spent = _milliseconds(lambda: client.shell(f"yes | head -c {size}"))
    return {"output": size / 1e6 / spent * 1000}


def opens(bench: Bench, column: str) -> Values:
    """How many times as long opening files takes in a call as without a server."""
    script = loop(": < file", _OPENS)
    (bench.workspace / "file").touch()
    shell = bench.subjects[column].shell
    inside = f"cd {bench.workspace}; {script}"
    alone = _milliseconds(lambda: _spawned(bench, (shell, "-c", inside)))
    nothing = _milliseconds(lambda: _spawned(bench, (shell, "-c", ":")))
    client = bench.server(column, READ_ONLY)
    call = _milliseconds(lambda: _succeeds(client, ":"))
    whole = _milliseconds(lambda: _succeeds(client, inside))
    return {"opens": (whole - call) / (alone - nothing)}


def memory(bench: Bench, column: str) -> Values:
    """Before any call, and after many."""
    with bench.fresh(column) as client:
        idle = processes.memory(client.pid)
        if column == LAUNCHED:
            return {"memory-idle": idle.proportional, "memory-idle-resident": idle.resident}
        for _ in range(_CALLS):
            client.shell(":")
        used = processes.memory(client.pid)
    return {
        "memory-idle": idle.proportional,
        "memory-idle-resident": idle.resident,
        "memory-used": used.proportional,
        "memory-used-resident": used.resident,
    }


def helper(bench: Bench, column: str) -> Values:
    """The sandbox helper, started for one program."""
    if column == FLOOR:
        return {"sandbox-cold": _milliseconds(lambda: _spawned(bench, _BARE_PYTHON))}
    command = (
        bench.subjects[column].helper,
        "--sandbox-policy-cwd",
        str(bench.workspace),
        "--sandbox-policy",
        '{"type":"read-only"}',
        "--",
        JUDGED,
    )
    return {"sandbox-cold": _milliseconds(lambda: _spawned(bench, command))}


def exec_cold(bench: Bench, column: str) -> Values:
    """Our command line, started for one program."""
    program = Path(bench.subjects[OURS if column == FLOOR else column].helper)
    command = (str(program.with_name("codex-multitool")), "exec", "true")
    if column == FLOOR:
        command = _BARE_PYTHON
    return {"exec-cold": _milliseconds(lambda: _spawned(bench, command))}


def wrapper(bench: Bench, column: str) -> Values:
    """The wrapper in place of a program, told at once to run it."""
    if column == FLOOR:
        return {"wrapper-cold": _milliseconds(lambda: _spawned(bench, _BARE_PYTHON))}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        environment = {**bench.environment, _SOCKET_VARIABLE: str(theirs.fileno())}
        command = (bench.subjects[column].wrapper, JUDGED, JUDGED)

        def work() -> None:
            os.set_inheritable(theirs.fileno(), True)
            pid = os.posix_spawn(command[0], command, environment)
            _tell_to_run(ours)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status != 0:
                raise BenchError(f"{command[0]}: status {status}")

        return {"wrapper-cold": _milliseconds(work)}


def _tell_to_run(channel: socket.socket) -> None:
    channel.settimeout(_PATIENCE)
    _, fds, _, _ = socket.recv_fds(channel, 1, 1)
    with socket.socket(fileno=fds[0]) as stream:
        stream.setblocking(True)  # the original's wrapper makes it otherwise
        (length,) = struct.unpack("<I", stream.recv(4, socket.MSG_WAITALL))
        stream.recv(length, socket.MSG_WAITALL)
        answer = b'{"action":"Run"}'
        stream.sendall(struct.pack("<I", len(answer)) + answer)


def spawn(bench: Bench, _column: str) -> Values:
    """What starting a program costs anybody."""
    return {"spawn": _milliseconds(lambda: _spawned(bench, (JUDGED,)))}


def git(bench: Bench, column: str) -> Values:
    """git's own tests: seconds of processor time."""
    output = bench.workspace / "git"
    output.mkdir()
    script = git_tests.script(output)
    try:
        if column == FLOOR:
            command = (bench.subjects[OURS].shell, "-c", f'failed=$({script}); [ -z "$failed" ]')
            spent = processes.processor_time_of_children(lambda: _spawned(bench, command))
        else:
            client = bench.server(column, WORKSPACE_WRITE)
            before = processes.processor_time(client.pid)
            failed = _succeeds(client, script)
            spent = processes.processor_time(client.pid) - before
            if failed:
                raise BenchError(f"{column}: of git's own tests fail {' '.join(failed.split())}")
    finally:
        shutil.rmtree(output)
    return {"git": spent / 1000}
