"""Commands that want to bloat the server, wear it out, or keep it from serving others."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.attacks.attack import Sandbox
from tests.attacks.catalogue.forged import PREPARED
from tests.attacks.conftest import MODES, Serve
from tests.attacks.target import Served
from tests.end_to_end.processes import wait_until
from tests.executables import loader

over_modes = pytest.mark.parametrize("mode", MODES)


def _memory(server: Served) -> int:
    """The server's own, in bytes; what a keeper keeps goes with its command."""
    pages = Path(f"/proc/{server.client.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _descriptors(server: Served) -> int:
    try:
        return len(os.listdir(f"/proc/{server.client.process.pid}/fd"))
    except PermissionError:
        pytest.skip("the server is closed to its user (not dumpable): only root counts descriptors")


def _shell(server: Served, script: str, **more: object) -> str:
    more = {"workdir": str(server.root / "ws"), "timeout_ms": 60_000, **more}
    return server.client.shell(script, **more).output


@pytest.mark.parametrize("mode", ["kernel"])
def test_denied_execs_take_no_memory(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    flood = "$PROGRAMS/flood forbidden {} 2>/dev/null"
    _shell(server, flood.format(200))
    before = _memory(server)
    result = server.client.shell(
        flood.format(1500), workdir=str(server.root / "ws"), timeout_ms=120_000
    )
    assert result.output == "1500 refused\n"
    assert _memory(server) - before < 8 << 20
    assert result.structured is not None
    (told,) = result.structured["decisions"]
    assert (told["decision"], told["times"]) == ("deny", 1500)


@pytest.mark.parametrize("mode", ["kernel"])
def test_execs_that_cannot_be_read_leave_no_descriptors(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    _shell(server, ":")
    before = _descriptors(server)
    assert _shell(server, f"LOADER={loader()} $PROGRAMS/flood blind 200") == "200 refused\n"
    wait_until(lambda: _descriptors(server) <= before, "descriptors closed")


@over_modes
def test_output_without_end_takes_no_memory(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    _shell(server, "yes | head -c 9000000")
    before = _memory(server)
    output = _shell(server, "cat /dev/zero & cat /dev/zero >&2", timeout_ms=1500)
    assert len(output) < 2 << 20
    # Three texts of 1 MiB, each NUL six bytes of JSON, and that as text once more.
    assert _memory(server) - before < 96 << 20


FLOODS: dict[str, str] = {
    "descriptors": "for n in range(300):\n    knock(*[0] * 253)",
    "connections": "some = [connect() for n in range(500)]\nimport time\ntime.sleep(30)",
    "cut-off requests": """
some = [connect() for n in range(60)]
for s in some:
    s.sendmsg([struct.pack("<I", 9 << 20) + b"x"])
import time
time.sleep(30)
""",
    "large requests that never end": """
import threading, time
def send(stream):
    left = 15 << 20
    while left > 10:
        left -= os.write(stream.fileno(), b"x" * min(left - 10, 1 << 16))
for n in range(50):
    s = connect()
    s.settimeout(None)
    s.sendmsg([struct.pack("<I", 15 << 20)])
    threading.Thread(target=send, args=[s]).start()
time.sleep(30)
""",
    "huge requests": """
for n in range(20):
    s = connect()
    s.setblocking(True)
    s.sendmsg([frame(request("/usr/bin/ls", *["x" * 100000] * 20))])
    print(hear(s))
    s.close()
""",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flooded_socket_is_the_commands_own_trouble(flood: str, serve: Serve) -> None:
    server = serve("wrapper")
    server.enforce(Sandbox.WORKSPACE)
    (server.root / "ws/a.py").write_text(PREPARED + flood)
    _shell(server, "true")
    descriptors, memory = _descriptors(server), _memory(server)
    call = server.client.begin_shell(
        "export OUT=x; $PYTHON -IS a.py", workdir=str(server.root / "ws"), timeout_ms=2000
    )
    time.sleep(0.5)
    assert _shell(server, "git --version | cut -c 1-3") == "git\n"
    assert _memory(server) - memory < 64 << 20
    call.shell_result()
    wait_until(lambda: _descriptors(server) <= descriptors + 4, "descriptors closed")


@over_modes
def test_a_denial_that_nobody_reads_holds_up_no_other(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    call = server.client.begin_shell(
        "mkfifo p; exec 8<>p; dd if=/dev/zero bs=64k count=1 status=none >&8;"
        " for i in $(seq 20); do git push 2>&8 & done; wait",
        workdir=str(server.root / "ws"),
        timeout_ms=1500,
    )
    wait_until((server.root / "ws/p").exists, "the pipe")
    assert _shell(server, "git --version | cut -c 1-3") == "git\n"
    assert call.shell_result().timed_out


@over_modes
def test_more_calls_than_are_served(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    ws = str(server.root / "ws")
    calls = [server.client.begin_shell("sleep 717", workdir=ws) for _ in range(260)]
    refused = [call.message.result(20)["error"]["message"] for call in calls[256:]]
    assert all("256 calls are running" in text for text in refused)
    for call in calls[:256]:
        server.client.notify("notifications/cancelled", {"requestId": call.id})
    wait_until(lambda: "done" in _ping(server, ws), "a call that is served")


def _ping(server: Served, ws: str) -> str:
    answer = server.client.begin_shell("echo done", workdir=ws).message.result(20)
    return str(answer)
