"""A blocked caller is ended or becomes another program, whatever happens to it meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from errno import ENOENT, ESRCH
from pathlib import Path

import pytest

from codex_multitool.interception import stand_in
from codex_multitool.interception.exec_stop import Expected, Resumed
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.redirect import Replacement, Turned
from codex_multitool.interception.tracee import ExecSnapshot, Gone
from tests.interception.decisions import supervise_by_word
from tests.interception.supervise import Become, Decision, End, Errno, Run, Supervisor, supervise

KILLABLE = pytest.mark.parametrize("killable", [True, False], ids=["killable", "not killable"])


def _at(
    word: str, decision: Decision, first: Callable[[ExecSnapshot], None] = lambda _: None
) -> Callable[[ExecSnapshot], Decision]:
    """Decide so for execs with that first argument, having done something to the caller before."""

    def decide(snapshot: ExecSnapshot) -> Decision:
        if snapshot.argv[1:2] != (word,):
            return Run()
        first(snapshot)
        return decision

    return decide


def _signal(number: int) -> Callable[[ExecSnapshot], None]:
    return lambda snapshot: os.kill(snapshot.tgid, number)


def _denial(listener: Listener, notification: Notification, snapshot: ExecSnapshot) -> Replacement:
    return stand_in.denial(listener, notification, snapshot.tgid, "denied", 1)


@KILLABLE
@pytest.mark.parametrize(("decision", "status"), [(End(7), 7), (Become(_denial), 1)])
def test_a_stopped_caller_is_turned_and_stays_stopped(
    programs: Path, decision: Decision, status: int, killable: bool
) -> None:
    command = [str(programs / "caller"), "exec", str(programs / "target_a"), "word"]
    decide = _at("word", decision, _signal(signal.SIGSTOP))
    with Supervisor(command, decide, killable=killable) as under:
        under.serve_until(lambda: _state(under.process.pid) == "T")
        for _ in range(20):
            under.serve()
        os.kill(under.process.pid, signal.SIGCONT)
        # Where waits are not killable, the stop breaks the first one off.
        under.decide = _at("word", decision)
        assert under.run().status == status
        assert under.outcomes[-1] is Turned.DONE


@KILLABLE
@pytest.mark.parametrize("decision", [End(7), Become(_denial)], ids=["end", "become"])
def test_a_caller_that_dies_meanwhile_is_gone(
    programs: Path, decision: Decision, killable: bool
) -> None:
    for way in ("fork", "vfork", "goroutine"):
        command = [str(programs / "caller"), way, "2", str(programs / "target_a"), "word"]
        decide = _at("word", decision, _signal(signal.SIGKILL))
        finished = supervise(command, decide, killable=killable)
        assert finished.out == b"9 9 intact\n"
        # ENOENT, ESRCH: it had gone when it was to get its descriptors.
        gone = (Turned.GONE, ENOENT, ESRCH)
        for outcome in finished.outcomes[1:]:
            assert outcome in gone or isinstance(outcome, Gone)


def test_a_signal_that_kills_is_delivered_before_the_end(programs: Path) -> None:
    """It was pending while the caller waited: it comes first, as it would have."""
    command = [str(programs / "caller"), "fork", "1", str(programs / "target_a"), "word"]
    for decision in (End(7), Become(_denial)):
        finished = supervise(command, _at("word", decision, _signal(signal.SIGTERM)))
        assert finished.out == b"15 intact\n"


def test_a_handler_may_do_something_else_and_that_is_notified_anew(programs: Path) -> None:
    """The handler of a signal runs before the redirected call, and executes another program."""
    command = [str(programs / "caller"), "handler", str(programs / "target_a"), "word"]
    decide = _at("word", Become(_denial), _signal(signal.SIGUSR1))
    with Supervisor(command, decide) as under:
        if not under.listener.killable:
            pytest.skip("here a signal ends the wait itself (before Linux 5.19)")
        finished = under.run()
    assert finished.outcomes == [Resumed.EXECUTED, Turned.STRAYED, Resumed.EXECUTED]
    assert finished.asked[-1] == (str(programs / "target_a"), ("handled",)) or (
        finished.asked[-1][1] == (str(programs / "target_a"), "handled")
    )
    assert finished.status == 3


def test_a_flipped_terminator_never_gets_another_program_executed(programs: Path) -> None:
    """The redirected call's path is the NUL behind the caller's: others may make it a path."""

    def decide(snapshot: ExecSnapshot) -> Decision:
        if snapshot.file == str(programs / "flip"):
            return Run()
        return Become(_denial) if snapshot.errno is None else Errno(snapshot.errno)

    command = ["flip", "1500", "10", "target_a", "target_f"]
    words = [word if word.isdigit() else str(programs / word) for word in command]
    finished = supervise(words, decide, seconds=80)
    _, forbidden, killed, denied, refused, tries = map(int, finished.out.split())
    assert tries >= 100
    assert forbidden == 0
    assert denied > 0
    assert refused > 0
    # It did try: what was about to run at the exec stop, or was asked for, was not the denial.
    assert killed == finished.outcomes.count(Turned.KILLED)
    turned = {Turned.DONE, Turned.KILLED, Turned.FAILED, Resumed.EXECUTED}
    assert set(finished.outcomes) <= turned
    assert {Turned.KILLED, Turned.FAILED} & set(finished.outcomes)


def test_what_cannot_be_executed_ends_the_caller(programs: Path, tmp_path: Path) -> None:
    """A caller that lives on would find its exec failed for a reason it cannot have."""
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")

    def unexecutable(
        listener: Listener, notification: Notification, snapshot: ExecSnapshot
    ) -> Replacement:
        del snapshot
        with plain.open() as file:
            number = listener.add_descriptor(notification, file.fileno(), close_on_exec=False)
        assert number is not None
        return Replacement(number, Expected(0, 0, b""), 42)

    command = [str(programs / "caller"), "vfork", "2", str(programs / "target_a"), "word"]
    finished = supervise(command, _at("word", Become(unexecutable)))
    assert finished.outcomes[1:] == [Turned.FAILED] * 2
    assert finished.out == f"{42 << 8} {42 << 8} intact\n".encode()


def test_another_replacement_than_the_given_one_is_killed(programs: Path) -> None:
    def mistaken(
        listener: Listener, notification: Notification, snapshot: ExecSnapshot
    ) -> Replacement:
        right = _denial(listener, notification, snapshot)
        wrong = right.expected._replace(inode=right.expected.inode + 1)
        return Replacement(right.descriptor, wrong, 1)

    command = [str(programs / "caller"), "spawn", "2", str(programs / "target_a"), "word"]
    finished = supervise(command, _at("word", Become(mistaken)))
    assert finished.outcomes[1:] == [Turned.KILLED] * 2
    assert finished.out == b"9 9 intact\n"
    assert finished.err == b""


def test_a_caller_under_another_tracer_is_refused() -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace")
    command = [strace, "-f", "-o", "/dev/null", "/bin/echo"]
    for word in ("end", "deny"):
        finished = supervise_by_word([*command, word])
        assert finished.outcomes == [Resumed.EXECUTED, Refused(1)]
        assert b"Permission denied" in finished.err


def test_descriptors_meant_to_be_closed_are_closed_at_once() -> None:
    """subprocess.Popen waits for such a pipe: it returns while the stand-in still lives."""
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['/bin/true', 'pending'])\n"
        "print('started', flush=True)\n"
        "print(child.wait())\n"
    )
    prepared: list[stand_in.StandIn] = []

    def pending(
        listener: Listener, notification: Notification, snapshot: ExecSnapshot
    ) -> Replacement:
        prepared.append(stand_in.stand_in(listener, notification, snapshot.tgid))
        return prepared[0].replacement

    python = shutil.which("python3") or "python3"
    reader, writer = os.pipe()
    command = [python, "-c", script]
    with (
        os.fdopen(reader, "rb", buffering=0) as out,
        Supervisor(command, _at("pending", Become(pending)), stdout=writer) as under,
    ):
        os.close(writer)
        under.serve_until(lambda: bool(prepared) and not under.running)
        assert out.readline() == b"started\n"
        assert under.process.poll() is None
        prepared[0].close()
        assert under.run().status == 0
        assert out.readline() == b"126\n"


def test_an_errno_for_each_way_of_starting(programs: Path) -> None:
    """posix_spawn tells its caller, the others exit with it; nothing was executed."""
    for way, told in (("fork", 13 << 8), ("vfork", 13 << 8), ("spawn", 13_000)):
        command = [str(programs / "caller"), way, "1", str(programs / "target_a"), "word"]
        finished = supervise(command, _at("word", Errno(13)))
        assert finished.out == f"{told} intact\n".encode()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
