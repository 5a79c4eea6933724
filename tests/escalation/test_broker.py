"""Wrapper mode, from the handshake to the status; the wrapper's part is played by the test."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EACCES, EAGAIN, ENOENT
from pathlib import Path

import pytest

from codex_multitool.escalation import broker as module
from codex_multitool.escalation import wire
from codex_multitool.escalation.broker import Broker, Slots
from codex_multitool.execpolicy.rules import Decision
from codex_multitool.interception import rights
from codex_multitool.json_text import decode
from codex_multitool.launcher.spawn import NotStartedError
from codex_multitool.loop import Running, Task, Wait, sleep
from tests.escalation.conftest import House

ALLOW, PROMPT, FORBIDDEN = Decision.ALLOW, Decision.PROMPT, Decision.FORBIDDEN


@dataclass
class Desk:
    """A broker at work, and how to ask it."""

    house: House
    broker: Broker
    serving: Running
    theirs: socket.socket

    def connect(self) -> socket.socket:
        ours, stream = socket.socketpair()
        rights.send(self.theirs, wire.HANDSHAKE, [stream.fileno()])
        stream.close()
        ours.setblocking(False)
        return ours

    def ask(self, *argv: str, extended: bool = True) -> socket.socket:
        request = wire.EscalateRequest(argv[0], list(argv), "/", dict(os.environ), extended)
        stream = self.connect()
        stream.sendall(wire.frame(wire.encode_request(request)))
        return stream

    def said(self, stream: socket.socket) -> dict[str, object] | None:
        """The next message; None: the connection was closed."""
        header = self._exactly(stream, wire.HEADER_SIZE)
        if not header:
            return None
        found = decode(self._exactly(stream, wire.payload_length(header)).decode())
        assert isinstance(found, dict)
        return found

    def _exactly(self, stream: socket.socket, length: int) -> bytes:
        data = b""

        def wait() -> Task[None]:
            nonlocal data
            while len(data) < length:
                try:
                    more = stream.recv(length - len(data))
                except BlockingIOError:
                    yield Wait(readable=stream.fileno())
                    continue
                except ConnectionResetError:  # closed with something unread
                    break
                if not more:
                    break
                data += more

        self.house.until(self.house.loop.start(wait()).done)
        return data

    def lend(self, stream: socket.socket, **fds: int) -> None:
        """fds: by number in the program, as `_1`."""
        message = wire.frame(wire.encode_descriptors([int(name[1:]) for name in fds]))
        rights.send(stream, message, list(fds.values()))


@pytest.fixture
def desk(house: House) -> Iterator[Desk]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    broker = Broker(house.context(sh=ALLOW, true=FORBIDDEN, cat=PROMPT), ours)
    serving = house.loop.start(broker.serve())
    before = len(os.listdir("/proc/self/fd"))
    yield Desk(house, broker, serving, theirs)
    serving.cancel()
    broker.close()
    theirs.close()
    for pid in house.starter.running():
        os.killpg(pid, signal.SIGKILL)
    while house.starter.running():
        house.loop.turn()
    assert len(os.listdir("/proc/self/fd")) == before - 2


RUN = {"action": "Run", "codex_multitool": 1}


def test_run_and_deny_and_a_program_that_is_not_there(desk: Desk) -> None:
    for program in ("/bin/ls", "/bin/none"):
        with desk.ask(program) as stream:
            assert desk.said(stream) == RUN
            assert desk.said(stream) is None
    with desk.ask("/bin/true") as stream:
        answer = desk.said(stream)
    assert answer is not None
    assert "Deny" in str(answer["action"])
    assert [it.decision for it in desk.house.verdicts] == ["deny"]
    assert desk.house.started == []


def escalated(desk: Desk, script: str, **fds: int) -> socket.socket:
    stream = desk.ask("/bin/sh", "-c", script)
    assert desk.said(stream) == {"action": "Escalate", "codex_multitool": 1}
    desk.lend(stream, **fds)
    return stream


def test_an_escalated_program_writes_where_its_caller_would_and_tells_its_status(
    desk: Desk, tmp_path: Path
) -> None:
    with (
        open(tmp_path / "out", "wb") as file,
        escalated(desk, "pwd; exit 3", _1=file.fileno()) as stream,
    ):
        assert desk.said(stream) == {"exit_code": 3}
        assert desk.said(stream) is None
    assert (tmp_path / "out").read_bytes() == b"/\n"


def test_signals_are_relayed_until_the_program_ends(desk: Desk) -> None:
    reader, writer = os.pipe()
    with escalated(desk, "echo; exec sleep 1000", _1=writer) as stream:
        os.close(writer)
        while not desk.house.started:
            desk.house.loop.turn()
        assert os.read(reader, 1) == b"\n"
        stream.sendall(wire.frame(wire.encode_signal(signal.SIGWINCH)))
        stream.sendall(wire.frame(wire.encode_signal(signal.SIGTERM)))
        assert desk.said(stream) == {"exit_code": 143, "signal": 15}
    os.close(reader)


@pytest.mark.parametrize("how", ["close", "garbage"])
def test_a_program_ends_with_the_wrapper_that_speaks_for_it(desk: Desk, how: str) -> None:
    stream = escalated(desk, "exec sleep 1000")
    while not desk.house.started:
        desk.house.loop.turn()
    if how == "close":
        stream.close()
    else:
        stream.sendall(wire.frame({"signal": 0}))
    while desk.house.starter.running():
        desk.house.loop.turn()
    stream.close()


def test_closing_ends_the_programs_and_answers_nobody(desk: Desk) -> None:
    stream = escalated(desk, "exec sleep 1000")
    desk.house.answer = None
    waiting = desk.ask("/bin/cat")
    while not (desk.house.started and desk.house.questions):
        desk.house.loop.turn()
    late = desk.ask("/bin/ls")
    desk.serving.cancel()
    desk.broker.close()
    for each in (stream, waiting, late):
        assert desk.said(each) is None
        each.close()
    while desk.house.starter.running():
        desk.house.loop.turn()


@pytest.mark.parametrize(("number", "status"), [(ENOENT, 127), (EACCES, 126), (EAGAIN, 126)])
def test_a_program_that_does_not_start_is_told_on_the_callers_stderr(
    desk: Desk, number: int, status: int
) -> None:
    desk.house.refusal = NotStartedError("execve: no", number)
    reader, writer = os.pipe()
    with escalated(desk, ":", _2=writer) as stream:
        assert desk.said(stream) == {"exit_code": status}
    os.close(writer)
    assert os.read(reader, 100).endswith(b"sh: execve: no\n")
    os.close(reader)


def test_a_peer_of_the_first_protocol_hears_of_a_signal_as_a_status(desk: Desk) -> None:
    with desk.ask("/bin/sh", "-c", "kill -9 $$", extended=False) as stream:
        assert desk.said(stream) == {"action": "Escalate"}
        desk.lend(stream)
        assert desk.said(stream) == {"exit_code": 137}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\1\0",
        b"\2\0\0\0{}",
        b"\xff\xff\xff\xff",
        b"\x01\0\0\0[",
    ],
)
def test_what_is_no_request_is_dropped_and_hurts_no_other(desk: Desk, text: bytes) -> None:
    with desk.connect() as stream:
        stream.sendall(text)
        stream.shutdown(socket.SHUT_WR)
        assert desk.said(stream) is None
    with desk.ask("/bin/ls") as stream:
        assert desk.said(stream) == RUN


def test_handshakes_that_are_none(desk: Desk) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for data, fds in ((b"", []), (b"\0", []), (b"\0", [null]), (b"\0", [null] * 3)):
        rights.send(desk.theirs, data, fds)
    os.close(null)
    with desk.ask("/bin/ls") as stream:
        assert desk.said(stream) == RUN
    assert not desk.serving.done.is_set


def test_more_descriptors_than_said_start_nothing(desk: Desk) -> None:
    with desk.ask("/bin/sh", "-c", ":") as stream:
        desk.said(stream)
        message = wire.frame(wire.encode_descriptors([0]))
        rights.send(stream, message[:1], [0, 1])
        stream.sendall(message[1:])
        assert desk.said(stream) is None
    assert desk.house.started == []


def test_it_ends_when_nobody_can_ask_any_more(desk: Desk) -> None:
    desk.theirs.close()
    desk.house.until(desk.serving.done)


def test_a_request_that_does_not_come_in_time_is_dropped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.01)
    with desk.connect() as stream:
        assert desk.said(stream) is None


def test_so_many_are_judged_at_a_time_and_the_others_after_them(desk: Desk) -> None:
    desk.house.answer = None
    streams = [desk.ask("/bin/cat") for _ in range(70)]
    while len(desk.house.questions) < 64:
        desk.house.loop.turn()
    desk.house.loop.result(sleep(0))
    assert len(desk.house.questions) == 64
    desk.house.thought.set()
    for stream in streams:
        assert "Deny" in str(desk.said(stream))
        stream.close()
    assert len(desk.house.questions) == 70


def test_of_large_requests_few_are_dealt_with_at_a_time(desk: Desk) -> None:
    length = (1 << 20).to_bytes(wire.HEADER_SIZE, "little")
    streams = [desk.connect() for _ in range(3)]
    for stream in streams:
        stream.sendall(length)
    small = desk.ask("/bin/ls")
    assert desk.said(small) == RUN
    small.close()
    taken = [_fill(stream) for stream in streams]
    desk.house.loop.result(sleep(0))
    again = [_fill(stream) for stream in streams]
    assert all(it > 0 for it in taken)
    assert sorted(map(bool, again)) == [False, True, True]
    for stream in streams:
        stream.close()


def _fill(stream: socket.socket) -> int:
    """How much goes into the connection before it is full."""
    sent = 0
    try:
        while sent < 1 << 19:
            sent += stream.send(bytes(1 << 12))
    except BlockingIOError:
        pass
    return sent


def test_slots(house: House) -> None:
    slots, log = Slots(1), list[str]()

    def user(name: str) -> Task[None]:
        assert (yield from slots.acquire())
        log.append(name)

    def late() -> Task[None]:
        log.append(f"late {(yield from slots.acquire(0.0))}")

    assert house.loop.result(slots.acquire())
    first = house.loop.start(user("first"))
    second = house.loop.start(user("second"))
    house.until(house.loop.start(late()).done)
    assert log == ["late False"]
    slots.release()
    house.until(first.done)
    slots.release()
    house.until(second.done)
    assert log == ["late False", "first", "second"]
