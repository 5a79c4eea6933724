"""`codex-multitool exec` at a terminal: questions and their answers, signals."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.exec_ground import QUESTION, Ground
from tests.cli.terminal import END, INTERRUPT, QUIT, SUSPEND
from tests.end_to_end.processes import marked, wait_until


class TestQuestions:
    RULES = 'prefix_rule(pattern=["touch"], decision="prompt")'

    def test_without_a_terminal_it_is_refused_and_says_how_to_allow(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        done = ground.run("touch x; rm -rf /nowhere")
        assert "no terminal to ask at" in done.stderr
        assert 'give it decision="allow"' in done.stderr
        assert f"an allow rule in {ground.home}/rules/default.rules" in done.stderr
        assert not (ground.workspace / "x").exists()

    @pytest.mark.parametrize(("answer", "made"), [(b"y\n", True), (b"n\n", False), (END, False)])
    def test_the_answer_decides(self, ground: Ground, answer: bytes, made: bool) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x") as terminal:
            terminal.until("touch x")
            terminal.until(f"in {ground.workspace}, outside the sandbox?")
            terminal.until("asked by: rule `touch`")
            terminal.until(QUESTION)
            terminal.type(answer)
            assert terminal.status() == (0 if made else 1)
            assert ("Execution denied: User " in terminal.seen) == (not made)
        assert (ground.workspace / "x").exists() == made

    @pytest.mark.parametrize(("answer", "questions"), [(b"y\n", 2), (b"s\n", 1)])
    def test_once_and_for_this_run(self, ground: Ground, answer: bytes, questions: int) -> None:
        ground.rules(self.RULES)
        script = "touch x; touch x; test -e x; echo result $?"
        with ground.terminal(script) as terminal:
            for _ in range(questions):
                terminal.until(QUESTION)
                terminal.type(answer)
            terminal.until("result 0")
            assert terminal.status() == 0
            assert terminal.seen.count(QUESTION) == questions

    def test_nothing_is_offered_that_leads_outside_from_then_on(self, ground: Ground) -> None:
        # There is no rule by which a program would run inside unasked.
        target = ground.workspace / "junk"
        target.mkdir()
        with ground.terminal(
            "--sandbox=workspace-write", "rm -rf junk; echo result $?"
        ) as terminal:
            terminal.until("rm deletes whole directories")
            for keys in (b"a\n", b"always\n", b"y\n"):
                terminal.until(QUESTION)
                terminal.type(keys)
            terminal.until("result 0")
            assert terminal.status() == 0
            assert "unasked" not in terminal.seen
        assert not target.exists()
        assert not (ground.home / "rules").exists()

    def test_enter_alone_is_the_no_that_is_shown(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x") as terminal:
            terminal.until("[y/s/N] > ")
            terminal.type(b"\n")
            terminal.until("Execution denied: User declined")
            assert terminal.status() == 1
        assert not (ground.workspace / "x").exists()

    def test_what_the_sandbox_changed_is_told_and_asked_about_each_time(
        self, ground: Ground
    ) -> None:
        ground.rules('prefix_rule(pattern=["touch"], decision="allow")\n')
        outside = ground.folder / "outside"
        script = f"echo >.envrc; touch {outside}; echo result $?"
        told = f"a sandboxed command wrote {ground.workspace}/.envrc"
        done = ground.run("--sandbox=workspace-write", script)
        assert done.stdout == "result 1\n"
        assert "there is no terminal to ask at; undo that" in done.stderr
        assert f"exec: {told}: until a human has agreed to it" in done.stderr
        assert not outside.exists()
        (ground.workspace / ".envrc").unlink()
        with ground.terminal("--sandbox=workspace-write", script) as terminal:
            terminal.until(f"beware: {told}")
            for keys in (b"s\n", b"a\n", b"y\n"):
                terminal.until(QUESTION)
                terminal.type(keys)
            terminal.until("result 0")
            assert terminal.status() == 0
        assert outside.exists()

    def test_what_is_no_answer_is_asked_again(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x") as terminal:
            for keys in (b"perhaps\n", b"a\n", b"yes\n"):
                terminal.until(QUESTION)
                terminal.type(keys)
            assert terminal.status() == 0
            assert "always" not in terminal.seen

    def test_what_was_typed_before_the_question_is_no_answer(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("echo up; sleep 1; touch x") as terminal:
            terminal.until("up")
            terminal.type(b"y\n")
            terminal.until(QUESTION)
            terminal.type(b"n\n")
            assert terminal.status() == 1
        assert not (ground.workspace / "x").exists()

    def test_arguments_cannot_paint_the_question(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x\x1b[2J\ny", NO_COLOR="1") as terminal:
            terminal.until(QUESTION)
            assert "\x1b" not in terminal.seen
            terminal.type(b"n\n")
            assert terminal.status() == 1

    def test_clock_stands_still_meanwhile(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--timeout", "1.5", "touch x; echo result $?") as terminal:
            terminal.until(QUESTION)
            subprocess.run(["sleep", "2"], check=True)
            terminal.type(b"y\n")
            terminal.until("result 0")
            assert terminal.status() == 0

    def test_interrupted_question_is_a_no(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x") as terminal:
            terminal.until(QUESTION)
            terminal.type(INTERRUPT)
            assert terminal.status() != 0
        assert not (ground.workspace / "x").exists()

    def test_nobody_at_the_terminal_is_a_no_after_the_configured_time(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        setting = ("-c", "codex_multitool.approval_timeout=0.5")
        with ground.terminal(*setting, "--", "touch", "x") as terminal:
            terminal.until(QUESTION)
            terminal.until("nobody answered within 0.5 seconds")
            assert terminal.status() == 1
        assert not (ground.workspace / "x").exists()

    def test_suspended_at_a_question_it_still_stands_afterwards(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x") as terminal:
            terminal.until(QUESTION)
            terminal.type(SUSPEND)
            terminal.stopped()
            os.kill(terminal.pid, signal.SIGCONT)
            terminal.type(b"y\n")
            assert terminal.status() == 0
        assert (ground.workspace / "x").exists()

    @pytest.mark.parametrize(("no_color", "bold"), [("", True), ("1", False)])
    def test_question_is_bold_unless_unwanted(
        self, ground: Ground, no_color: str, bold: bool
    ) -> None:
        ground.rules(self.RULES)
        with ground.terminal("--", "touch", "x", NO_COLOR=no_color) as terminal:
            terminal.until(QUESTION)
            assert ("\x1b[1mRun " in terminal.seen) == bold
            assert ("\x1b" in terminal.seen) == bold
            terminal.type(b"n\n")
            assert terminal.status() == 1


class TestSignalsOfTheTerminal:
    def test_window_has_its_size_and_changes_of_it_are_told(self, ground: Ground) -> None:
        script = "trap 'stty size; exit 5' WINCH; stty size; echo up; while :; do sleep 0.1; done"
        with ground.terminal(script) as terminal:
            terminal.until("up")
            terminal.resize(33, 77)
            terminal.until("33 77")
            assert terminal.status() == 5

    @pytest.mark.parametrize(
        ("key", "number"), [(INTERRUPT, signal.SIGINT), (QUIT, signal.SIGQUIT)]
    )
    def test_keys_reach_the_command(self, ground: Ground, key: bytes, number: int) -> None:
        with ground.terminal("--", "sh", "-c", "ulimit -c 0; echo up; exec sleep 1000") as terminal:
            terminal.until("up")
            wait_until(
                lambda: any(p.command == "sleep 1000" for p in marked(ground.mark)), "it sleeps"
            )
            terminal.type(key)
            assert terminal.status() == 128 + number
        assert marked(ground.mark) == []

    def test_command_may_catch_them_and_go_on(self, ground: Ground) -> None:
        script = "trap 'echo caught' INT; echo up; read line; echo got $line"
        with ground.terminal(f'while :; do {script}; [ "$line" ] && exit 5; done') as terminal:
            terminal.until("up")
            terminal.type(INTERRUPT)
            terminal.until("caught")
            terminal.type(b"word\n")
            terminal.until("got word")
            assert terminal.status() == 5

    def test_suspended_and_continued(self, ground: Ground) -> None:
        with ground.terminal("--", "sleep", "2") as terminal:
            wait_until(
                lambda: any(p.command == "sleep 2" for p in marked(ground.mark)), "it sleeps"
            )
            (sleep,) = (p for p in marked(ground.mark) if p.command == "sleep 2")
            terminal.type(SUSPEND)
            terminal.stopped()
            wait_until(lambda: _state(sleep.pid) == "T", "the command is stopped too")
            os.kill(terminal.pid, signal.SIGCONT)
            assert terminal.status() == 0


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
