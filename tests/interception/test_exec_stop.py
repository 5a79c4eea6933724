"""A resumed exec is the judged one, or it is killed before its first instruction."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from codex_multitool.interception import exec_stop
from codex_multitool.interception.exec_stop import Expected, Resumed, command_line
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.tracee import ExecSnapshot
from tests.interception.supervise import (
    Decide,
    Decision,
    Errno,
    Finished,
    Plain,
    Run,
    Supervisor,
    expected,
    supervise,
)

TRIES = 5_000
SECONDS = 25


def _by_path(snapshot: ExecSnapshot) -> Decision:
    """As a precedent has it."""
    return Run(expected(snapshot)._replace(path=os.fsencode(snapshot.file)))


def _flip(programs: Path, good: Decide, tries: int) -> tuple[int, int, int, Finished]:
    """Refuse every exec seen to be of target_f or with an f; how many ran of each, or died."""

    def decide(snapshot: ExecSnapshot) -> Decision:
        if snapshot.file == str(programs / "flip"):
            return Plain()
        if snapshot.file.endswith("_a") and snapshot.argv[1:] == ("a",):
            return good(snapshot)
        return Errno(13)

    command = [programs / "flip", str(tries), str(SECONDS), programs / "target_a"]
    finished = supervise([str(word) for word in command], decide, seconds=4 * SECONDS)
    assert finished.status == 0, finished.err
    allowed, forbidden, killed, _, _, made = map(int, finished.out.split())
    assert made >= 100, "too slow a machine to tell anything"
    return allowed, forbidden, killed, finished


@pytest.mark.parametrize("good", [lambda _: Run(), _by_path], ids=["by identity", "by path"])
def test_a_flipping_thread_never_gets_the_forbidden_program(programs: Path, good: Decide) -> None:
    allowed, forbidden, killed, finished = _flip(programs, good, TRIES)
    assert forbidden == 0
    assert allowed > 0
    assert killed == finished.outcomes.count(Resumed.KILLED)
    assert allowed == finished.outcomes.count(Resumed.EXECUTED)


def test_without_the_check_it_does(programs: Path) -> None:
    """The race is real: unchecked, some forty in a hundred of what ran was forbidden."""
    assert _flip(programs, lambda _: Plain(), 2000)[1] > 0


@pytest.mark.parametrize("path", [None, b"/bin/touch", b"/bin/tou", b"/bin/touche", b""])
@pytest.mark.parametrize("wrong", ["argument", "one more", "one less", "inode", "device"])
def test_another_program_is_killed_before_it_runs(
    tmp_path: Path, wrong: str, path: bytes | None
) -> None:
    proof = tmp_path / "proof"

    def decide(snapshot: ExecSnapshot) -> Decision:
        right = expected(snapshot)
        device, inode, argv = right.device, right.inode, snapshot.argv_executed()
        if wrong == "argument":
            argv = (*argv[:-1], argv[-1] + "x")
        elif wrong == "one more":
            argv = (*argv, "")
        elif wrong == "one less":
            argv = argv[:-1]
        elif wrong == "inode":
            inode += 1
        else:
            device += 1
        return Run(Expected(device, inode, command_line(argv), path=path))

    finished = supervise(["/bin/touch", str(proof)], decide)
    assert finished.outcomes == [Resumed.KILLED]
    assert finished.status == -signal.SIGKILL
    assert not proof.exists()


def test_a_program_by_another_path_is_another_program(programs: Path) -> None:
    """All is as expected but AT_EXECFN, by which the kernel tells what it opened."""
    judged = str(programs / "target_a")

    def decide(snapshot: ExecSnapshot) -> Decision:
        status = os.stat(judged)
        said = command_line(snapshot.argv)
        return Run(Expected(status.st_dev, status.st_ino, said, path=judged.encode()))

    finished = supervise([str(programs / "target_f")], decide)
    assert (finished.outcomes, finished.status) == ([Resumed.KILLED], -signal.SIGKILL)


@pytest.fixture
def stack_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the stack does not show is killed."""
    monkeypatch.setattr(exec_stop, "_by_identity", lambda *_: False)


ENVIRONMENTS = {"none": 0, "some": 32, "many": 1000}


@pytest.mark.usefixtures("stack_alone")
@pytest.mark.parametrize("words", [[], ["one"], ["", "", "two", ""], ["x" * 5000] * 8])
@pytest.mark.parametrize("variables", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_stack_shows_the_usual_exec(programs: Path, variables: int, words: list[str]) -> None:
    """A static program, and one with a loader."""
    names = [f"V{number}=" for number in range(variables)]
    for program in (str(programs / "target_a"), "/bin/echo"):
        finished = supervise(["/usr/bin/env", "-i", *names, program, *words], _by_path)
        assert finished.outcomes == [Resumed.EXECUTED] * 2, program
        assert finished.status in (0, 3)


@pytest.mark.usefixtures("stack_alone")
def test_the_stack_shows_the_word_that_the_kernel_adds(programs: Path) -> None:
    call = "import ctypes, sys; ctypes.CDLL(None).execve(sys.argv[1].encode(), None, None)"
    command = [sys.executable, "-IS", "-c", call, str(programs / "target_a")]
    finished = supervise(command, _by_path)
    assert finished.asked[-1][1] == ()
    assert (finished.outcomes, finished.status) == ([Resumed.EXECUTED] * 2, 3)


UNSEEN = {
    "script": "open('s', 'w').write('#!/bin/true'); os.chmod('s', 0o755); os.execv('s', ['s'])",
    "descriptor": "os.execve(os.open('/bin/true', os.O_RDONLY), ['true'], {})",
    "long": "os.execv('/bin/true', ['x' * 131_000] * 15)",
    "environment": "os.execve('/bin/true', ['true'], {str(n): '' for n in range(9_000)})",
}


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("call", UNSEEN.values(), ids=UNSEEN)
def test_what_the_stack_does_not_show_is_known_by_identity(
    call: str, alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if alone:
        monkeypatch.setattr(exec_stop, "_by_identity", lambda *_: False)
    seen = []

    def decide(snapshot: ExecSnapshot) -> Decision:
        seen.append(snapshot)
        if len(seen) == 1:
            return Plain()
        return Run(expected(snapshot)._replace(path=os.path.realpath("/bin/true").encode()))

    command = [sys.executable, "-IS", "-c", f"import os; {call}"]
    finished = supervise(command, decide, cwd=tmp_path)
    assert finished.outcomes == [Resumed.KILLED if alone else Resumed.EXECUTED]


def test_an_exec_that_fails_leaves_no_tracer_behind() -> None:
    """The kernel itself finds that it has no room for the arguments."""
    room = "x=$(printf %0100000d 0); ulimit -s 100"  # ARG_MAX is left then, execve(2)
    command = f"{room}; /bin/true $x $x 2>&-; echo $?; exec cat /proc/self/status"
    finished = supervise(["/bin/sh", "-c", command], lambda _: Run())
    assert finished.outcomes == [Resumed.EXECUTED, Resumed.RETURNED, Resumed.EXECUTED]
    assert finished.out.startswith(b"126\n")
    assert b"\nTracerPid:\t0\n" in finished.out


def test_a_megabyte_of_arguments_and_bytes_that_are_no_text() -> None:
    script = (
        "import os; words = [b'x' * 100_000] * 10 + [b'\\xff\\xfe', b'']\n"
        "os.execv('/bin/sh', [b'sh', b'-c', b'echo $#', *words])\n"
    )
    python = shutil.which("python3") or "python3"
    finished = supervise([python, "-c", script], lambda _: Run())
    assert (finished.status, finished.out) == (0, b"11\n")
    assert set(finished.outcomes) == {Resumed.EXECUTED}
    assert finished.asked[-1][1][-2:] == ("\udcff\udcfe", "")


@pytest.mark.parametrize("killable", [True, False])
def test_eight_threads_at_once(programs: Path, killable: bool) -> None:
    command = [str(programs / "caller"), "rivals", str(programs / "target_a"), "x"]
    for _ in range(20):
        assert supervise(command, lambda _: Run(), killable=killable).status == 3


def test_a_stopped_caller_executes_when_it_is_continued(programs: Path) -> None:
    def decide(snapshot: ExecSnapshot) -> Decision:
        if snapshot.file.endswith("target_a"):
            os.kill(snapshot.tgid, signal.SIGSTOP)
        return Run()

    command = [str(programs / "caller"), "exec", str(programs / "target_a")]
    with Supervisor(command, decide) as under:
        under.serve_until(lambda: len(under.outcomes) == 2)
        assert under.outcomes == [Resumed.EXECUTED] * 2
        under.serve_until(lambda: _state(under.process.pid) == "T")
        os.kill(under.process.pid, signal.SIGCONT)
        assert under.run().status == 3


def test_a_caller_killed_before_its_answer_hangs_nobody(programs: Path) -> None:
    def decide(snapshot: ExecSnapshot) -> Decision:
        if snapshot.file.endswith("target_a"):
            os.kill(snapshot.tgid, signal.SIGKILL)
        return Run()

    for way in ("fork", "vfork", "thread"):
        words = [way, *(["3"] if way != "thread" else []), str(programs / "target_a")]
        finished = supervise([str(programs / "caller"), *words], decide)
        assert Resumed.EXECUTED not in finished.outcomes[1:]
        if way == "thread":
            assert finished.status == -signal.SIGKILL
        else:
            assert finished.out == b"9 9 9 intact\n"


def test_a_caller_under_another_tracer_is_refused() -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace")
    command = [strace, "-f", "-o", "/dev/null", "/bin/true"]
    finished = supervise(command, lambda _: Run())
    assert finished.outcomes == [Resumed.EXECUTED, Refused(1)]
    assert finished.status == 1


def test_many_execs_side_by_side_lose_none(programs: Path) -> None:
    xargs = f"seq 400 | xargs -n1 -P8 {programs}/target_a"
    finished = supervise(["/bin/sh", "-c", xargs], lambda _: Run())
    assert sum(file.endswith("target_a") for file, _ in finished.asked) == 400
    assert set(finished.outcomes) == {Resumed.EXECUTED}


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
