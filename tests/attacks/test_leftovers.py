"""Processes that want to outlive the command, or the server, that started them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.attacks.attack import Sandbox
from tests.attacks.conftest import MODES, Serve
from tests.attacks.target import Served
from tests.end_to_end.client import Call, ServerGoneError
from tests.end_to_end.processes import marked, wait_until

# In a session of its own; with a parent that has gone; deaf to SIGTERM; stopped; always forking
# anew; always executing anew; escalated, and the same from there.
HYDRA = """
setsid sleep 711 &
(setsid setsid sleep 712 &)
(trap '' TERM HUP INT; while :; do sleep 1; done) &
sleep 713 & kill -STOP $!
$PYTHON -IS a.py &
(while :; do /bin/true; done) &
daemon
: >ready
sleep 714
"""
FORKING = """
import os, signal, time
for number in range(1, 65):
    if number not in (9, 19, 32, 33):
        signal.signal(number, signal.SIG_IGN)
# Longer than any test waits; should it get away, it is not for ever.
end = time.monotonic() + 120
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.001)
"""
DAEMON = "#!/bin/sh\nsetsid sh -c 'trap \"\" TERM; sleep 715; sleep 716' &\n"
RULES = 'prefix_rule(pattern=["daemon"])\n'


def _begin(server: Served) -> tuple[Call, Path]:
    server.enforce(Sandbox.WORKSPACE)
    ws = server.root / "ws"
    (ws / "a.py").write_text(FORKING)
    (server.root / "bin/daemon").write_text(DAEMON)
    (server.root / "bin/daemon").chmod(0o755)
    call = server.client.begin_shell(HYDRA, workdir=str(ws), timeout_ms=3000)
    wait_until((ws / "ready").exists, "the processes")
    return call, ws


def _none_left(server: Served) -> None:
    wait_until(lambda: not marked(server.mark), f"no process left: {marked(server.mark)}")


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.parametrize("mode", MODES)
class TestNoProcessIsLeft:
    def test_when_the_time_is_up(self, mode: str, serve: Serve) -> None:
        server = serve(mode, rules=RULES)
        call, _ = _begin(server)
        assert call.shell_result().timed_out
        left = [process for process in marked(server.mark) if process.pid not in server.own()]
        assert left == []

    def test_when_the_call_is_cancelled(self, mode: str, serve: Serve) -> None:
        server = serve(mode, rules=RULES)
        call, _ = _begin(server)
        server.client.notify("notifications/cancelled", {"requestId": call.id})
        wait_until(
            lambda: {process.pid for process in marked(server.mark)} <= server.own(),
            "the end of all processes of the call",
        )
        assert server.client.answers_to(call) == []

    def test_when_the_client_goes(self, mode: str, serve: Serve) -> None:
        server = serve(mode, rules=RULES)
        _begin(server)
        server.client.end_input()
        _none_left(server)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
    def test_when_the_server_is_killed(
        self, mode: str, number: signal.Signals, serve: Serve
    ) -> None:
        server = serve(mode, rules=RULES)
        call, _ = _begin(server)
        os.kill(server.client.process.pid, number)
        with pytest.raises(ServerGoneError):
            call.shell_result()
        _none_left(server)

    @pytest.mark.skipif(os.geteuid() != 0, reason="keepers are closed to their user: not found")
    def test_when_its_keeper_is_killed(self, mode: str, serve: Serve) -> None:
        server = serve(mode, rules=RULES)
        call, _ = _begin(server)
        keeper = next(
            process.pid
            for process in marked(server.mark)
            if Path(f"/proc/{process.pid}/comm").read_text() == "codex-keeper\n"
            and any(_children(spawner) for spawner in _children(process.pid))
        )
        os.kill(keeper, signal.SIGKILL)
        with pytest.raises(Exception, match="the process that ran this command was killed"):
            call.shell_result()
        wait_until(
            lambda: {process.pid for process in marked(server.mark)} <= server.own(),
            "the end of all processes of the call",
        )
        assert server.client.request("ping") == {}
