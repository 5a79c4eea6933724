"""What one sample of each row is. A measure may fill several rows, each by its name."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench import memory
from bench.client import BenchError, Client, Json
from bench.subjects import (
    ASKED,
    DENIED,
    ESCALATED,
    FLOOR,
    FULL_ACCESS,
    JUDGED,
    LAUNCHED,
    ORIGINAL,
    OURS,
    READ_ONLY,
    SERVERS,
    WORKSPACE_WRITE,
    WRAPPED,
    Bench,
)

Values = dict[str, float]
Sample = Callable[[Bench, str], Values]

_OPENS = 20_000
_OUTPUT_MIB = 64
_AT_ONCE = 16
_CALLS = 1000
_JUDGED = 500
_JUDGED_WRAPPED = 50  # each starts an interpreter
_PATIENCE = 20.0  # seconds for a wrapper to ask
_SOCKET_VARIABLE = "CODEX_ESCALATE_SOCKET"
_BARE_PYTHON = (sys.executable, "-ISc", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. higher: whether more is better.

    target, wrapped_target: of our ratio to `base`. limit: of our value itself.
    """

    name: str
    unit: str
    what: str
    target: float | None = None
    wrapped_target: float | None = None
    limit: float | None = None
    higher: bool = False
    base: str = ORIGINAL


@dataclass(frozen=True, slots=True)
class Measure:
    """What is sampled together: its rows, the columns it has, and its share of the time.

    most: samples of each column, however much time there is.
    """

    rows: tuple[Row, ...]
    sample: Sample
    columns: tuple[str, ...] = SERVERS
    share: float = 1.0
    most: int = 200


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def _spawned(bench: Bench, command: tuple[str, ...]) -> None:
    pid = os.posix_spawn(command[0], command, bench.environment)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise BenchError(f"{' '.join(command)}: status {status}")


def _start(bench: Bench, column: str) -> Values:
    if column == FLOOR:
        return {"start": _milliseconds(lambda: _spawned(bench, _BARE_PYTHON))}
    begun = time.perf_counter()
    with bench.start(column) as client:
        client.initialize()
        initialized = time.perf_counter()
        client.request("tools/list", {})
        listed = time.perf_counter()
    return {"start": (initialized - begun) * 1000, "start-tools": (listed - begun) * 1000}


def _call(name: str, policy: Json) -> Sample:
    def sample(bench: Bench, column: str) -> Values:
        if column == FLOOR:
            shell = bench.subjects[OURS].shell
            return {name: _milliseconds(lambda: _spawned(bench, (shell, "-c", ":")))}
        client = bench.server(column, policy)
        return {name: _milliseconds(lambda: _succeeds(client, ":"))}

    return sample


def _succeeds(client: Client, command: str) -> str:
    result = client.shell(command)
    if result["exit_code"] != 0:
        raise BenchError(f"{command}: {result}")
    return str(result["output"])


def _loop(program: str, count: int) -> str:
    return f"i=0; while [ $i -lt {count} ]; do {program}; i=$((i+1)); done; :"


def _judged(bench: Bench, column: str) -> Values:
    count = _JUDGED_WRAPPED if column == WRAPPED else _JUDGED
    script = _loop(JUDGED, count)
    shell = bench.subjects[OURS if column == FLOOR else column].shell
    alone = _milliseconds(lambda: _spawned(bench, (shell, "-c", script))) / count
    if column == FLOOR:
        return {"exec-judged": alone}
    client = bench.server(column, READ_ONLY)
    whole = _milliseconds(lambda: _succeeds(client, script)) / count
    return {"exec-added": whole - alone, "exec-judged": whole}


def _decided(name: str, program: str, count: int, sign: str = "") -> Sample:
    """An exec that a rule decides, whole. sign: what it prints as often as it was decided."""

    def sample(bench: Bench, column: str) -> Values:
        client = bench.server(column, READ_ONLY)
        script, output = _loop(program, count), ""
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


def _at_once(name: str, command: str) -> Sample:
    def sample(bench: Bench, column: str) -> Values:
        client = bench.server(column, READ_ONLY)
        spent = _milliseconds(lambda: client.shells([command] * _AT_ONCE))
        return {name: _AT_ONCE / spent * 1000}

    return sample


def _output(bench: Bench, column: str) -> Values:
    client = bench.server(column, READ_ONLY)
    size = _OUTPUT_MIB << 20
    spent = _milliseconds(lambda: client.shell(f"yes | head -c {size}"))
    return {"output": size / 1e6 / spent * 1000}


def _opens(bench: Bench, column: str) -> Values:
    script = _loop(": < file", _OPENS)
    (bench.workspace / "file").touch()
    shell = bench.subjects[column].shell
    inside = f"cd {bench.workspace}; {script}"
    alone = _milliseconds(lambda: _spawned(bench, (shell, "-c", inside)))
    nothing = _milliseconds(lambda: _spawned(bench, (shell, "-c", ":")))
    client = bench.server(column, READ_ONLY)
    call = _milliseconds(lambda: _succeeds(client, ":"))
    whole = _milliseconds(lambda: _succeeds(client, inside))
    return {"opens": (whole - call) / (alone - nothing)}


def _memory(bench: Bench, column: str) -> Values:
    with bench.fresh(column) as client:
        idle = memory.of_tree(client.pid)
        if column == LAUNCHED:
            return {"memory-idle": idle.proportional, "memory-idle-resident": idle.resident}
        for _ in range(_CALLS):
            client.shell(":")
        used = memory.of_tree(client.pid)
    return {
        "memory-idle": idle.proportional,
        "memory-idle-resident": idle.resident,
        "memory-used": used.proportional,
        "memory-used-resident": used.resident,
    }


def _helper(bench: Bench, column: str) -> Values:
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


def _wrapper(bench: Bench, column: str) -> Values:
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


def _spawn(bench: Bench, _column: str) -> Values:
    return {"spawn": _milliseconds(lambda: _spawned(bench, (JUDGED,)))}


_WITH_FLOOR = (*SERVERS, FLOOR)
_PROGRAMS = (ORIGINAL, OURS, FLOOR)
_RUNS = 50

MEASURES: tuple[Measure, ...] = (
    Measure(
        (
            Row("start", "ms", "start to `initialize` answered", target=2.5, base=LAUNCHED),
            Row("start-tools", "ms", "start to `tools/list` answered", base=LAUNCHED),
        ),
        _start,
        (LAUNCHED, *_WITH_FLOOR),
        share=2,
    ),
    Measure(
        (Row("call-read-only", "ms", "`shell` call of `:`, read-only", target=0.7),),
        _call("call-read-only", READ_ONLY),
        _WITH_FLOOR,
    ),
    Measure(
        (Row("call-workspace-write", "ms", "`shell` call of `:`, workspace-write", target=0.7),),
        _call("call-workspace-write", WORKSPACE_WRITE),
        _WITH_FLOOR,
    ),
    Measure(
        (Row("call-full-access", "ms", "`shell` call of `:`, danger-full-access", target=1.2),),
        _call("call-full-access", FULL_ACCESS),
        _WITH_FLOOR,
    ),
    Measure(
        (
            Row("exec-added", "ms", "what judging adds to an exec, no rule matching", target=0.2),
            Row("exec-judged", "ms", "judged exec, whole", wrapped_target=7),
        ),
        _judged,
        _WITH_FLOOR,
        share=4,
    ),
    Measure(
        (Row("exec-escalated", "ms", "exec an allow rule takes outside, whole", target=0.9),),
        _decided("exec-escalated", ESCALATED, _RUNS),
        share=1.5,
    ),
    Measure(
        (Row("exec-denied", "ms", "exec a rule forbids, whole", target=0.6),),
        _decided("exec-denied", DENIED, _RUNS, "Execution denied"),
        share=1.5,
    ),
    Measure(
        (Row("exec-asked", "ms", "exec asked about and accepted, whole"),),
        _decided("exec-asked", ASKED, _RUNS),
        share=1.5,
    ),
    Measure(
        (Row("at-once", "calls/s", "16 calls of `:` at once", target=1.2, higher=True),),
        _at_once("at-once", ":"),
    ),
    Measure(
        (
            Row(
                "at-once-execs",
                "calls/s",
                "16 calls at once, each 10 times `/bin/true`",
                target=1.5,
                higher=True,
            ),
        ),
        _at_once("at-once-execs", _loop(JUDGED, 10)),
        share=2,
    ),
    Measure(
        (Row("output", "MB/s", "64 MiB of output", target=1.0, higher=True),), _output, share=1.5
    ),
    Measure(
        (Row("opens", "times", "slowdown of 20,000 opens by the shell", limit=1.22),),
        _opens,
        share=2,
    ),
    Measure(
        (
            Row("memory-idle", "MiB", "proportional memory, idle, all processes", limit=45),
            Row("memory-idle-resident", "MiB", "resident memory, idle"),
            Row("memory-used", "MiB", "proportional memory after 1000 calls"),
            Row("memory-used-resident", "MiB", "resident memory after 1000 calls"),
        ),
        _memory,
        (LAUNCHED, *SERVERS),
        share=2,
        most=1,
    ),
    Measure(
        (Row("sandbox-cold", "ms", "`codex-linux-sandbox -- /bin/true`", target=7),),
        _helper,
        _PROGRAMS,
    ),
    Measure(
        (Row("wrapper-cold", "ms", "`codex-execve-wrapper /bin/true`, told to run it"),),
        _wrapper,
        _PROGRAMS,
    ),
    Measure((Row("spawn", "ms", "`posix_spawn` of `/bin/true`"),), _spawn, (FLOOR,), share=0.5),
)
