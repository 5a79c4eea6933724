"""Execs are judged one by one in a plain loop, and nothing is left to the next command."""

from __future__ import annotations

import os
import select
import signal
import time
from errno import EIO, EPIPE
from pathlib import Path

import pytest

from codex_multitool.escalation.decide import ExecRequest, decide
from codex_multitool.escalation.decide import Verdict as Decided
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.question import Question
from codex_multitool.interception import supervisor
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.program import Known
from codex_multitool.interception.tracee import ExecSnapshot, Gone, Unreadable, read_exec
from codex_multitool.loop import Event, Task, Wait
from tests.interception.judging import Answer, Judging, no_descriptor_is_left
from tests.interception.supervise import SECONDS

FORBID = 'prefix_rule(pattern=["{}"], decision="forbidden", justification="no")\n'
PROMPT = 'prefix_rule(pattern=["{}"], decision="prompt")\n'
ALLOW = 'prefix_rule(pattern=["{}"], decision="allow")\n'


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


class Human:
    """Thinks until told the answer."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.told = Event()
        self.action = "accept"
        self.withdrawn = 0

    def ask(self, question: Question) -> Task[Answer]:
        self.questions.append(question)
        try:
            yield Wait(event=self.told)
        except GeneratorExit:
            self.withdrawn += 1
            raise
        return self.action, None

    def answer(self, action: str) -> None:
        self.action = action
        self.told.set()


def test_what_no_rule_names_runs_and_what_is_forbidden_does_not() -> None:
    with Judging(sh("uname; env true; ls /; echo $?"), FORBID.format("ls")) as judging:
        status, text = judging.run()
        assert status == 0
        assert text.startswith(f"{os.uname().sysname}\nExecution denied: ")
        assert text.endswith("\n1\n")
        assert [(it.program, it.decision) for it in judging.recorded] == [
            (os.path.realpath("/bin/ls"), "deny")
        ]
        assert judging.supervisor.watched == 3


@pytest.mark.parametrize("heard", ["", "2>&1 | cat"])
def test_what_is_forbidden_is_so_again_and_told_each_time(heard: str) -> None:
    script = f"for n in 1 2 3; do /bin/ls /; echo $?; done {heard}"
    with no_descriptor_is_left(), Judging(sh(script), FORBID.format("ls")) as judging:
        status, text = judging.run()
        assert (status, text.count("Execution denied: "), text.count("\n1\n")) == (0, 3, 3)
        denied = (os.path.realpath("/bin/ls"), ("/bin/ls", "/"), "deny")
        assert [it[:3] for it in judging.recorded] == [denied] * 3


def test_other_arguments_are_judged_without_another_look_at_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rule that is about them sees them all the same."""
    read: list[int] = []

    def counted(
        listener: Listener, notification: Notification, files: Known
    ) -> ExecSnapshot | Gone | Unreadable:
        read.append(notification.tid)
        return read_exec(listener, notification, files)

    monkeypatch.setattr(supervisor, "read_exec", counted)
    rule = 'prefix_rule(pattern=["echo", "no"], decision="forbidden", justification="no")\n'
    script = "for word in a b '' no d; do /bin/echo $word '' x$word; done; /bin/echo; echo $?"
    with Judging(sh(script), rule) as judging:
        status, text = judging.run()
        assert status == 0
        lines = text.splitlines()
        assert lines.pop(3).startswith("Execution denied: ")
        assert lines == ["a  xa", "b  xb", " x", "d  xd", "", "0"]
        assert [it.argv for it in judging.recorded] == [("/bin/echo", "no", "", "xno")]
    assert len(read) == 2  # the first, and the forbidden one


def test_it_tells_when_no_process_is_left_and_the_loop_sleeps() -> None:
    with Judging(sh(":")) as judging:
        judging.until(lambda: judging.supervisor.ended.is_set)
        # poll(2) told of the listener for ever: there would be turn after turn.
        awake = Event()
        judging.loop.at(time.monotonic() + 0.05, awake.set)
        turns = 0
        while not awake.is_set:
            judging.loop.turn()
            turns += 1
        assert turns < 10


def test_others_go_on_while_a_human_thinks() -> None:
    human = Human()
    script = "ls / >/dev/null & for n in 1 2 3; do uname; done; echo over; wait $!; echo $?"
    with Judging(sh(script), PROMPT.format("ls"), ask=human.ask) as judging:
        judging.until(lambda: "over" in judging.text())
        assert [question.argv for question in human.questions] == [("ls", "/")]
        human.answer("decline")
        assert judging.run()[1].endswith("\n1\n")
        assert "User declined execution" in judging.text()


@pytest.mark.parametrize("status", [0, 5])
def test_a_program_outside_that_ends_soon_gives_its_status_to_its_caller(status: int) -> None:
    with no_descriptor_is_left():
        allow = ALLOW.format("bash")
        with Judging(sh(f"bash -c 'echo $0; exit {status}' out; echo $?"), allow) as judging:
            assert judging.run() == (0, f"out\n{status}\n")
            assert len(judging.outside) == 1
            assert judging.recorded[0].decision == "escalate"


def test_a_longer_one_gets_the_signals_of_its_stand_in_and_its_end_is_the_stand_ins(
    tmp_path: Path,
) -> None:
    up = tmp_path / "up"
    outside = f"trap 'echo asked; exit 7' TERM; : >{up}; while :; do sleep 0.05; done"
    script = f'bash -c "{outside}" & wait $!; echo $?'
    rules = ALLOW.format("bash")
    with no_descriptor_is_left(), Judging(sh(script), rules) as judging:
        judging.until(up.exists)
        child = stand_in(judging)
        os.kill(child, signal.SIGTERM)
        assert judging.run()[1].endswith("asked\n7\n")


def test_a_program_whose_stand_in_is_killed_is_killed(tmp_path: Path) -> None:
    up = tmp_path / "up"
    script = f"bash -c ': >{up}; exec sleep 600' & wait $!; echo $?"
    with Judging(sh(script), ALLOW.format("bash")) as judging:
        judging.until(up.exists)
        os.kill(stand_in(judging), signal.SIGKILL)
        assert judging.run()[1].endswith("137\n")
        judging.until(lambda: judging.outside[0].ended.is_set)
        assert judging.outside[0].status == signal.SIGKILL


def test_only_the_commands_own_shell_executes_first() -> None:
    """What executes before is refused and told, however often it tries: here, once a folder."""
    seen: list[Notification] = []

    def first(notification: Notification) -> bool:
        seen.append(notification)
        return len(seen) == 3

    path = {"PATH": "/bin:/usr/bin:/bin"}
    with Judging(["sh", "-c", "echo on; ls /"], FORBID.format("ls"), first=first, env=path) as it:
        status, text = it.run()
        assert status == 1
        assert text.startswith("on\nExecution denied: ")
        assert [(verdict.program, verdict.reason) for verdict in it.recorded[:2]] == [
            ("?", "it came before the command's shell")
        ] * 2
        assert it.recorded[2].program == os.path.realpath("/bin/ls")
        assert len(seen) == 3


def test_nothing_that_was_refused_has_run(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    with Judging(["/bin/touch", str(proof)], first=lambda _: False) as judging:
        status, text = judging.run()
        assert status == 1
        assert "PermissionError" in text
        assert not proof.exists()


def test_who_cannot_tell_whether_it_is_the_first_costs_one_exec() -> None:
    told = iter([OSError(EIO, "told so"), None])

    def first(_: Notification) -> bool:
        if (error := next(told)) is not None:
            raise error
        return True

    path = {"PATH": "/bin:/usr/bin"}
    with Judging(["sh", "-c", "echo on"], first=first, env=path) as judging:
        assert judging.run() == (0, "on\n")
        assert ["told so" in verdict.reason for verdict in judging.recorded] == [True]


def test_what_is_held_at_the_end_is_answered_and_the_next_command_has_its_own(
    tmp_path: Path,
) -> None:
    """A question, a program outside with its stand-in, and an exec that nobody has received."""
    human = Human()
    up, left, more = tmp_path / "up", tmp_path / "left", tmp_path / "more"
    script = (
        f"/bin/cat /dev/null & asked=$!; /bin/bash -c ': >{up}; exec sleep 600' & outside=$!;"
        "wait $asked; echo asked $?; wait $outside; echo outside $?;"
        f"while [ ! -e {left} ]; do :; done; /bin/uname;"
        f"while [ ! -e {more} ]; do :; done; /bin/uname"
    )
    rules = PROMPT.format("cat") + ALLOW.format("bash")
    with no_descriptor_is_left(), Judging(sh(script), rules, ask=human.ask) as judging:
        judging.until(lambda: bool(human.questions) and up.exists())
        stand_in(judging)
        before = judging.supervisor
        judging.loop.forget(judging.listener.fd)
        before.close()
        assert human.withdrawn == 1
        judging.until(lambda: judging.outside[0].ended.is_set)
        left.touch()
        assert select.select([judging.listener.fd], [], [], SECONDS)[0]
        before.close()
        tried: list[Notification] = []

        def first(notification: Notification) -> bool:
            tried.append(notification)
            return True

        after = judging.supervisor = judging.supervised(first=first)
        more.touch()
        status, text = judging.run()
        assert status == 0
        lines = text.splitlines()
        assert lines[-1] == os.uname().sysname
        # ENOSYS, and its stand-in's NOT_STARTED: told no end.
        assert "asked 126" in lines
        assert "outside 126" in lines
        assert text.count(os.uname().sysname) == 1
        assert len(tried) == 1
        assert after.watched == 0


def test_an_error_costs_one_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(judgement: Judgement, request: ExecRequest) -> Decided:
        if request.argv[0] == "/bin/uname":
            raise OSError(EIO, "told so")
        return decide(judgement, request)

    def disconnected(_: Question) -> Task[Answer]:
        yield Wait(until=0.0)
        raise BrokenPipeError(EPIPE, "no server")

    monkeypatch.setattr(supervisor, "decide", failing)
    script = "/bin/uname; echo $?; /bin/cat /dev/null; echo $?; env echo on"
    rules = PROMPT.format("cat")
    with no_descriptor_is_left(), Judging(sh(script), rules, ask=disconnected) as judging:
        assert judging.run()[1].splitlines()[1::2] == ["126", "126"]
        assert judging.text().endswith("\non\n")
        assert [verdict.argv[0] for verdict in judging.recorded] == ["/bin/uname", "/bin/cat"]


def test_no_more_execs_are_held_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_MAX_HELD", 3)
    human = Human()
    script = "for n in 1 2 3 4; do cat /dev/null & done; wait -n; echo $?; wait"
    with Judging(["/bin/bash", "-c", script], PROMPT.format("cat"), ask=human.ask) as judging:
        judging.until(lambda: "126\n" in judging.text())
        assert judging.notes == ["execs failed: 3 of this command were held already"]
        assert len(human.questions) == 3
        human.answer("accept")
        assert judging.run()[0] == 0


def test_rivals_of_one_process_are_judged_in_turn(programs: Path) -> None:
    """Each thread wants to be another program; all wait for the one that a human thinks about."""
    human = Human()
    command = [str(programs / "caller"), "rivals", str(programs / "target_a"), "word"]
    with Judging(command, PROMPT.format("target_a"), ask=human.ask) as judging:
        judging.until(lambda: bool(human.questions))
        human.answer("decline")
        assert judging.run()[0] == 1
        assert "Execution denied" in judging.text()


def stand_in(judging: Judging) -> int:
    """The stand-in among the command's children, once it relays."""
    found: list[int] = []

    def look() -> bool:
        pid = judging.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found[:] = [int(child) for child in children if _relays(int(child))]
        return bool(found)

    judging.until(look)
    return found[0]


def _relays(pid: int) -> bool:
    """Whether a stand-in has set its last trap."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    return bool(int(fields["SigCgt"], 16) >> (signal.SIGTTOU - 1) & 1)
