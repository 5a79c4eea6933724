"""A caller stands in for a program run elsewhere: the test is the server, and nothing runs."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codex_multitool.interception import relay
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.redirect import Replacement, Turned
from codex_multitool.interception.stand_in import StandIn, UnavailableError, denial, stand_in
from codex_multitool.interception.tracee import ExecSnapshot
from tests.interception.supervise import Become, Decision, Run, Supervisor, handed_over, supervise

WORD = "outside"


class Server:
    """Prepares a stand-in for every exec with the argument `outside`."""

    def __init__(self, *, handing: bool = False) -> None:
        self._handing = handing
        self.prepared: list[StandIn] = []
        self.tgids: list[int] = []
        self.failed: list[Exception] = []

    def decide(self, snapshot: ExecSnapshot) -> Decision:
        return Become(self._become) if snapshot.argv[1:2] == (WORD,) else Run()

    def _become(
        self, listener: Listener, notification: Notification, snapshot: ExecSnapshot
    ) -> Replacement:
        try:
            found = stand_in(listener, notification, snapshot.tgid, handing=self._handing)
        except (UnavailableError, KernelError) as error:
            self.failed.append(error)
            raise OSError(0, "not to be prepared") from None
        self.prepared.append(found)
        self.tgids.append(snapshot.tgid)
        return found.replacement


@contextmanager
def _standing(
    command: list[str], count: int = 1, *, handing: bool = False
) -> Iterator[tuple[Supervisor, Server]]:
    """`command` run until `count` stand-ins are in place."""
    server = Server(handing=handing)
    with Supervisor(command, server.decide) as under:
        under.serve_until(lambda: len(server.prepared) == count and not under.running)
        yield under, server
        for prepared in server.prepared:
            prepared.close()


def _signals(prepared: StandIn, wanted: int) -> list[int]:
    found: list[int] = []
    while len(found) < wanted:
        while not select.select([prepared.signals], [], [], 0.1)[0]:
            os.write(prepared.status, relay.NUDGE)
        text = os.read(prepared.signals, 100)
        assert text, "it has gone"
        found += relay.relayed(text)
    return found


def _traps(pid: int) -> Callable[[], bool]:
    """Whether a stand-in has set its last trap."""

    def look() -> bool:
        fields = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        return bool(int(fields["SigCgt"], 16) >> (signal.SIGTTOU - 1) & 1)

    return look


@pytest.mark.parametrize("handing", [False, True])
def test_signals_to_the_caller_come_up_and_its_end_comes_down(
    programs: Path, handing: bool
) -> None:
    command = ["/bin/sh", "-c", f"{programs}/target_a {WORD}; echo status $?"]
    with _standing(command, handing=handing) as (under, server):
        prepared, tgid = server.prepared[0], server.tgids[0]
        if prepared.channel is not None:
            for fd in handed_over(prepared.channel).values():
                os.close(fd)
        under.serve_until(_traps(tgid))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            os.kill(tgid, number)
            assert _signals(prepared, 1) == [number]
        os.write(prepared.status, relay.ended(42, None))
        assert under.run().out == b"status 42\n"
        assert under.outcomes[-1] is Turned.DONE


def test_a_signal_to_the_group_comes_up_from_each(programs: Path) -> None:
    line = f"{programs}/target_a {WORD} & {programs}/target_a {WORD} & wait; wait; echo over"
    command = ["setsid", "-w", "/bin/bash", "-c", f"trap : TERM; {line}"]
    with _standing(command, 2) as (under, server):
        for tgid in server.tgids:
            under.serve_until(_traps(tgid))
        os.killpg(os.getpgid(server.tgids[0]), signal.SIGTERM)
        for prepared in server.prepared:
            assert _signals(prepared, 1) == [signal.SIGTERM]
            os.write(prepared.status, relay.ended(0, signal.SIGTERM))
        assert under.run().out == b"over\n"


def test_nothing_of_the_callers_is_in_its_place(programs: Path) -> None:
    """No environment and no arguments: BASH_ENV, LD_PRELOAD and the like mean nothing to it."""
    command = ["env", "LD_PRELOAD=./x.so", "BASH_ENV=./x", str(programs / "target_a"), WORD]
    with _standing(command) as (under, server):
        place = Path(f"/proc/{server.tgids[0]}")
        under.serve_until(_traps(server.tgids[0]))
        assert (place / "environ").read_bytes() == b""
        first, second, rest = (place / "cmdline").read_bytes().split(b"\0")
        assert (first, second.rpartition(b"/")[0], rest) == (b"/bin/sh", b"/dev/fd", b"")
        os.write(server.prepared[0].status, relay.ended(0, None))
        assert under.run().status == 0


def test_it_hands_over_sockets_too(programs: Path) -> None:
    """For where pidfd_getfd is refused."""
    script = (
        "import os, socket\n"
        "ours, theirs = socket.socketpair()\n"
        "os.dup2(theirs.fileno(), 70, inheritable=True)\n"
        "if os.fork() == 0:\n"
        f"    os.execv({str(programs / 'target_a')!r}, ['x', {WORD!r}])\n"
        "print(ours.recv(100).decode(), os.wait()[1], flush=True)\n"
    )
    python = shutil.which("python3") or "python3"
    with _standing([python, "-c", script], handing=True) as (under, server):
        channel = server.prepared[0].channel
        assert channel is not None
        handed = handed_over(channel)
        assert set(handed) == {0, 1, 2, 70}
        os.write(handed[70], b"hello")
        for fd in handed.values():
            os.close(fd)
        os.write(server.prepared[0].status, relay.ended(5, None))
        assert under.run().out == b"hello 1280\n"


def test_a_caller_that_has_no_descriptor_left(programs: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    script = (
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "try:\n"
        "    while True: os.dup(0)\n"
        "except OSError: pass\n"
        f"os.execv({str(programs / 'target_a')!r}, ['x', {WORD!r}])\n"
    )
    server = Server()
    python = shutil.which("python3") or "python3"
    with Supervisor([python, "-c", script], server.decide, preexec_fn=limit) as under:
        under.serve_until(lambda: bool(server.failed))
        assert "Too many open files" in str(server.failed[0])
        before = len(os.listdir("/proc/self/fd"))
        under.serve()
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_root_without_sh_or_descriptors_is_told(programs: Path, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may chroot")
    shutil.copy(programs / "target_a", tmp_path / "target")
    told: list[str] = []

    def decide(snapshot: ExecSnapshot) -> Decision:
        return Become(refuse) if snapshot.file == "/target" else Run()

    def refuse(
        listener: Listener, notification: Notification, snapshot: ExecSnapshot
    ) -> Replacement:
        for prepare in (
            lambda: stand_in(listener, notification, snapshot.tgid),
            lambda: denial(listener, notification, snapshot.tgid, "no", 1),
        ):
            with pytest.raises(UnavailableError, match="/bin/sh or /dev/fd") as caught:
                prepare()
            told.append(str(caught.value))
        listener.fail(notification, 13)
        raise OSError(0, "told")

    finished = supervise(["chroot", str(tmp_path), "/target", WORD], decide)
    assert finished.status == 126
    assert len(told) == 2
