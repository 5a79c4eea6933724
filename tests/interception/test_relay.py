"""A stand-in's lines under every sh there is: signals go up, the exact end comes down."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool.interception import relay
from tests.interception.supervise import handed_over

SHELLS = {
    "dash": ["dash"],
    "bash": ["bash", "--posix"],
    "busybox": ["busybox", "sh"],
}
ALL = [*SHELLS, "python"]


class Started:
    """A stand-in run by hand, with the server's ends of its pipes."""

    def __init__(self, name: str, ignoring: int | None = None, stdout: int | None = None) -> None:
        self.name = name
        command = SHELLS.get(name, [sys.executable, "-IS"])
        if shutil.which(command[0]) is None:
            pytest.skip(f"no {command[0]}")
        status, self.status = os.pipe()
        self.signals, signals = os.pipe()
        script = os.memfd_create("script")
        self.channel, theirs = socket.socketpair()
        given = [status, signals, script, theirs.fileno()]
        if name == "python":
            text = relay.handing_script(sys.executable, script, status, signals, given[3])
        else:
            text = relay.relay_script(status, signals)
        os.write(script, text)
        self.process = subprocess.Popen(
            [*command, f"/dev/fd/{script}"],
            pass_fds=given,
            stdout=stdout,
            preexec_fn=lambda: self._ignore(ignoring),  # noqa: PLW1509 — no threads here
        )
        for fd in given[:3]:
            os.close(fd)
        theirs.close()
        if name == "python":
            self._handed()
        self._until_trapping()

    @staticmethod
    def _ignore(number: int | None) -> None:
        if number is not None:
            signal.signal(number, signal.SIG_IGN)

    def _handed(self) -> None:
        self.handed = {}
        for number, ours in handed_over(self.channel).items():
            self.handed[number] = os.readlink(f"/proc/self/fd/{ours}")
            os.close(ours)

    def _until_trapping(self) -> None:
        """Its last trap is set, and it waits."""
        status = Path(f"/proc/{self.process.pid}/status")
        limit = time.monotonic() + 20
        while time.monotonic() < limit:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
            caught = int(fields["SigCgt"], 16) | int(fields["SigIgn"], 16)
            if caught >> (signal.SIGTTOU - 1) & 1 and fields["State"].startswith("S"):
                return
            time.sleep(0.005)
        raise AssertionError("it sets no traps")

    def relayed(self) -> list[int]:
        """The next signals that come up, with a nudge now and then, as the server gives."""
        for _ in range(200):
            if select.select([self.signals], [], [], 0.1)[0]:
                break
            os.write(self.status, relay.NUDGE)
        return relay.relayed(os.read(self.signals, 100))

    def ends(self) -> int:
        """What its parent learns."""
        return self.process.wait(20)

    def close(self) -> None:
        for fd in (self.status, self.signals):
            if fd >= 0:
                os.close(fd)
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(params=ALL)
def started(request: pytest.FixtureRequest) -> Iterator[Started]:
    stand_in = Started(request.param)
    yield stand_in
    stand_in.close()


@pytest.mark.parametrize("code", [0, 1, 126, 255])
def test_an_exit_code(started: Started, code: int) -> None:
    os.write(started.status, relay.ended(code, None))
    assert started.ends() == code


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 14, 15, 31])
def test_death_by_a_signal_is_death_by_that_signal(started: Started, number: int) -> None:
    os.write(started.status, relay.ended(0, number))
    # bash and busybox ignore SIGQUIT themselves, bash(1) SIGNALS: there a shell's way to tell it.
    expected = 131 if number == signal.SIGQUIT and started.name in ("bash", "busybox") else -number
    assert started.ends() == expected


def test_signals_go_up_and_do_not_end_it(started: Started) -> None:
    numbers = [1, 2, 3, 10, 12, 14, 15, 28]
    for number in numbers:
        os.kill(started.process.pid, number)
        # bash may run a trap twice when the next signal comes within it.
        *again, last = started.relayed()
        assert (last, set(again) <= set(numbers)) == (number, True)
    os.write(started.status, relay.ended(7, None))
    assert started.ends() == 7


def test_a_signal_does_not_lose_the_status_that_comes_with_it(started: Started) -> None:
    for _ in range(50):
        os.kill(started.process.pid, signal.SIGUSR1)
    os.write(started.status, relay.NUDGE * 5 + relay.ended(9, None))
    for _ in range(50):
        os.kill(started.process.pid, signal.SIGTERM)
    assert started.ends() == 9


def test_stop_and_continue_are_passed_on_and_obeyed(started: Started) -> None:
    pid = started.process.pid
    os.kill(pid, signal.SIGTSTP)
    assert started.relayed() == [signal.SIGTSTP]
    assert os.waitid(os.P_PID, pid, os.WSTOPPED) is not None
    os.kill(pid, signal.SIGCONT)
    assert started.relayed() == [signal.SIGCONT]
    os.write(started.status, relay.ended(0, None))
    assert started.ends() == 0


def test_a_server_that_goes_is_noticed(started: Started) -> None:
    os.close(started.status)
    started.status = -1
    assert started.ends() == relay.NOT_STARTED


def test_nudges_change_nothing(started: Started) -> None:
    for _ in range(20):
        os.write(started.status, relay.NUDGE)
        time.sleep(0.002)
    os.kill(started.process.pid, signal.SIGTERM)
    assert started.relayed() == [signal.SIGTERM]
    os.write(started.status, relay.ended(3, None))
    assert started.ends() == 3


@pytest.mark.parametrize("name", ALL)
def test_an_ignored_signal_stays_ignored(name: str) -> None:
    """A program started so would ignore it; and death by it is then told by 128 + n."""
    stand_in = Started(name, ignoring=signal.SIGINT)
    try:
        os.kill(stand_in.process.pid, signal.SIGINT)
        os.kill(stand_in.process.pid, signal.SIGTERM)
        assert stand_in.relayed() == [signal.SIGTERM]
        os.write(stand_in.status, relay.ended(0, signal.SIGINT))
        assert stand_in.ends() in (130, -signal.SIGINT)
    finally:
        stand_in.close()


def test_a_stand_in_in_sh_keeps_no_descriptor_of_its_caller() -> None:
    """Who reads the caller's output must see its end when the program closes it."""
    reader, writer = os.pipe()
    stand_in = Started("dash", stdout=writer)
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
    stand_in.close()


def test_a_stand_in_in_python_hands_over_all_it_has() -> None:
    stand_in = Started("python")
    assert {0, 1, 2} <= set(stand_in.handed)
    assert stand_in.handed[2] == os.readlink("/proc/self/fd/2")
    stand_in.close()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b"15\n2\n", [15, 2]),
        (b"9\n19\n0\n-1\n64\n99\n", []),
        (b"15", [15]),
        (b"x15\n 15\n15 2\n\xff\n1500000000000\n\n", []),
    ],
)
def test_only_signals_are_taken_from_a_stand_in(text: bytes, numbers: list[int]) -> None:
    assert relay.relayed(text) == numbers


@pytest.mark.parametrize("numbers", [(3, 4), (4, 3), (8, 9), (9, 8), (12, 9), (9, 12), (12, 13)])
def test_descriptors_of_two_digits_and_of_one(numbers: tuple[int, int]) -> None:
    """sh redirects single digits only; the two never get in each other's way."""
    reader, writer = os.pipe()
    up, signals = os.pipe()
    status, channel = numbers
    script = relay.relay_script(status, channel)

    def place() -> None:
        os.dup2(reader, 30)
        os.dup2(signals, 31)
        os.dup2(30, status)
        os.dup2(31, channel)

    os.write(writer, relay.ended(5, None))
    command = ["/bin/sh", "-c", script.decode()]
    ran = subprocess.run(
        command,
        close_fds=False,
        preexec_fn=place,
        check=False,
    )
    assert ran.returncode == 5
    for fd in (reader, writer, up, signals):
        os.close(fd)


@pytest.mark.parametrize(
    "text", ['it\'s `x` $(y) \\n %s "z"', "two\nlines", "\udcff", "", "-n", "'; exit 0; '"]
)
@pytest.mark.parametrize("name", SHELLS)
def test_a_denial_says_its_text_as_it_is(name: str, text: str) -> None:
    command = SHELLS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    script = relay.denial_script(text, 1)
    ran = subprocess.run([*command, "-c", script], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr == os.fsencode(text) + b"\n"
