"""Whoever speaks to the server may be hostile: each bound is reached, and it answers on.

Bounds of the wrapper's socket, of output and of concurrent calls: tests/attacks/test_limits.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.client import Client, RpcError, ToolError
from tests.end_to_end.processes import running, wait_until
from tests.end_to_end.rig import (
    KERNEL,
    ONLY_WORKSPACE,
    Box,
    Pairing,
    Start,
    over,
    server_command,
)

MIB = 1 << 20
MODES = [KERNEL, Pairing()]


def memory(pid: int) -> int:
    """A process's resident set, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def not_larger(client: Client, bytes_: int) -> Iterator[None]:
    """What happens inside leaves the server answering, and not much larger."""
    client.shell(":")
    before = memory(client.process.pid)
    yield
    assert client.shell("echo on").output == "on\n"
    assert memory(client.process.pid) - before < bytes_


LARGE_ARGUMENTS = """
import subprocess
for n in range(120):
    words = ["%d-%d-" % (n, i) + "x" * 100_000 for i in range(10)]
    subprocess.run(["/bin/true", *words], check=True)
print("done")
"""


@over(MODES)
def test_large_arguments_are_not_remembered(pairing: Pairing, start: Start, box: Box) -> None:
    (box.ws / "fill.py").write_text(LARGE_ARGUMENTS)
    client = start(pairing)
    with not_larger(client, 40 * MIB):
        call = client.begin_shell("python3 -IS fill.py", timeout_ms=120_000)
        assert call.shell_result(120).output == "done\n"


MANY_DESCRIPTORS = """
import os
for n in range(300):
    os.set_inheritable(os.dup(0), True)
os.execvp("sh", ["sh", "-c", "echo ran"])
"""


@over(MODES)
def test_more_descriptors_than_one_message_carries(
    pairing: Pairing, start: Start, box: Box
) -> None:
    (box.ws / "many.py").write_text(MANY_DESCRIPTORS)
    # Started by the shell itself, so that the wrapper sees it too.
    script = "".join(f"exec {n}</dev/null; " for n in range(400, 700))
    client = start(pairing, rules='prefix_rule(pattern=["sh"])\n')
    command = f"{script} sh -c 'echo ran'; echo rc=$?"
    if pairing.wrapper is None:
        command = "python3 -IS many.py; echo rc=$?"
    with not_larger(client, 20 * MIB):
        result = client.shell(command)
    # A wrapper has to send them, which the kernel's way does without.
    handed_on = pairing.wrapper is None
    assert ("ran" in result.lines) is handed_on
    assert (result.lines[-1] == "rc=0") is handed_on


MANY_VARIABLES = """
import os
os.execve("/bin/sh", ["sh", "-c", "echo ran"], {f"LD_{n}_" + "X" * 500: "" for n in range(2000)})
"""


def test_what_was_kept_from_a_program_is_told_in_short(start: Start, box: Box) -> None:
    (box.ws / "many.py").write_text(MANY_VARIABLES)
    client = start(KERNEL, rules='prefix_rule(pattern=["sh"])\n')
    result = client.shell("python3 -IS many.py")
    assert result.lines == ["ran"]
    assert result.structured is not None
    (note,) = [note for note in result.structured["notes"] if "LD_" in note]
    assert len(note) < 1000
    assert "and 1995 more" in note


def test_a_message_without_end_is_not_kept(start: Start) -> None:
    client = start(KERNEL)
    with not_larger(client, 16 * MIB):
        for _ in range(64):
            client.send_raw(b"x" * MIB)
        client.send_raw(b"\n")
    refused = [it for it in client.received if "longer than" in str(it.get("error"))]
    assert len(refused) == 1


def test_a_message_may_nest_no_deeper_than_can_be_read(start: Start) -> None:
    client = start(KERNEL)
    with not_larger(client, 40 * MIB):
        client.send_raw(
            b'{"jsonrpc":"2.0","id":"deep","method":' + b"[" * MIB + b"]" * MIB + b"}\n"
        )
    assert any(it.get("error") for it in client.received)


def test_a_call_keeps_nothing_of_its_message_but_its_arguments(start: Start, box: Box) -> None:
    client = start(KERNEL)
    arguments = {"command": "sleep 761", "workdir": str(box.ws), "timeout_ms": 600_000}
    params = json.dumps({"name": "shell", "arguments": arguments})[:-1]
    # Decoded it takes some 20 MiB.
    junk = b', "junk": [' + b"[]," * (MIB // 3) + b"[]]}"
    with not_larger(client, 90 * MIB):
        for n in range(8):
            head = f'{{"jsonrpc": "2.0", "id": "call-{n}", "method": "tools/call", "params": '
            client.send_raw(head.encode() + params.encode() + junk + b"}\n")
        client.request("ping")
    wait_until(lambda: running(box.mark, "sleep 761"), "the calls")
    for n in range(8):
        client.notify("notifications/cancelled", {"requestId": f"call-{n}"})


def test_ids_commands_and_states_have_their_bounds(start: Start, box: Box) -> None:
    client = start(KERNEL, policy=ONLY_WORKSPACE)
    with not_larger(client, 40 * MIB):
        client.send({"jsonrpc": "2.0", "id": "x" * MIB, "method": "ping"})
        with pytest.raises(ToolError, match="longer than an argument can be"):
            client.shell(": " + "x" * 131_072)
        many = {**ONLY_WORKSPACE, "writable_roots": [f"/none/{n}" for n in range(257)]}
        with pytest.raises(RpcError, match="257 writable roots, at most 256"):
            client.request("codex/sandbox-state/update", box.state(many))
    assert any("1024 characters" in str(it.get("error")) for it in client.received)
    most = {**ONLY_WORKSPACE, "writable_roots": [f"/none/{n}" for n in range(256)]}
    assert client.request("codex/sandbox-state/update", box.state(most)) == {}
    # The longest command there can be, less the `-c` in front of it.
    assert client.shell(": " + "x" * 131_000 + "; echo ran").output == "ran\n"


NULS = "head -c 2000000 /dev/zero; touch done.$$"
CALLS = 14


def test_answers_wait_for_a_client_that_does_not_read(box: Box) -> None:
    def line(method: str, number: int, params: object) -> bytes:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return json.dumps(message).encode() + b"\n"

    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
    state = box.state(ONLY_WORKSPACE)
    arguments = {"command": NULS, "workdir": str(box.ws), "login": False, "timeout_ms": 90_000}
    calls = [line("tools/call", n, {"name": "shell", "arguments": arguments}) for n in range(CALLS)]
    with (
        (box.root / "stderr").open("wb") as errors,
        subprocess.Popen(
            server_command(KERNEL), env=box.environment(), cwd=box.ws,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        ) as server,
    ):  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(line("initialize", 1000, hello))
        server.stdin.write(line("codex/sandbox-state/update", 1001, state) + b"".join(calls))
        server.stdin.flush()
        wait_until(lambda: len(list(box.ws.glob("done.*"))) == CALLS, "the commands", 60)
        # An answer is some 19 MiB: 1 MiB of output, twice, at six bytes each and once more quoted.
        assert memory(server.pid) < 200 * MIB
        answered = set[int]()
        while len(answered) < CALLS + 2:
            answered.add(json.loads(server.stdout.readline())["id"])
        server.stdin.write(line("ping", 1002, {}))
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1002
        server.stdin.close()
        assert server.wait(20) == 0
