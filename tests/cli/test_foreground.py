"""What `exec` makes of what its keeper says: a keeper that is played says it."""

import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_multitool.cli.exec_record import Record
from codex_multitool.cli.exec_start import NotRunError
from codex_multitool.cli.foreground import Command, Foreground
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.execpolicy.rules import Policy
from codex_multitool.interception.rights import receive
from codex_multitool.keeper import frames, protocol
from codex_multitool.keeper.outcome import Decision, Outcome
from codex_multitool.keeper.output import Output
from codex_multitool.loop import Event, Task, Wait
from codex_multitool.running.settings import Environments, Settings
from codex_multitool.sandbox.policy import SandboxPolicy

QUESTION = Question("/bin/rm", ("rm", "x"), "/", "a rule", outside=True)
ENDED = Outcome(7 << 8, timed_out=False, duration_ns=1, output=Output(""))


class Human:
    """Answers nothing, and knows what became of the question."""

    def __init__(self) -> None:
        self.given_up = False
        self.interrupted = Event()

    def ask(self, question: Question) -> Task[tuple[str, str | None]]:
        try:
            yield Wait(event=self.interrupted)
        except GeneratorExit:
            self.given_up = True
            raise
        return "cancel", str(question.because)

    def interrupt(self) -> None:
        self.interrupted.set()


def front(
    keeper: socket.socket,
    human: Human | None = None,
    record: Record | None = None,
    *,
    cwd: str = "/",
    traced: bool = False,
) -> Foreground:
    """One that has `:` run by this keeper."""
    command = Command(
        words=("/bin/sh", "-c", ":"),
        cwd=cwd,
        workspace="",
        policy=SandboxPolicy("read-only"),
        timeout=math.inf,
        ignored=(),
        traced=traced,
    )
    settings = Settings("/bin/sh", None, Judgement(Policy()), Environments({}, {}))
    asked: Any = human or Human()
    return Foreground(keeper, settings, command, asked, record or Record(every=traced))


class Played:
    """A keeper. played: says and hears what it likes, with the order, in a thread of its own."""

    def __init__(self, played: Callable[["Played"], None], *, traced: bool = False) -> None:
        self._ours, self._socket = socket.socketpair()
        self._decoder = frames.Decoder()
        self._heard: list[Any] = []
        self._played = played
        self.descriptors: list[int] = []
        self.failure: BaseException | None = None
        self.human, self.record = Human(), Record(every=traced)
        self._front = front(self._ours, self.human, self.record, traced=traced)

    def run(self) -> Outcome:
        """What the front makes of it."""
        thread = threading.Thread(target=self._play)
        thread.start()
        try:
            with self._ours:
                return self._front.run()
        finally:
            thread.join()
            if self.failure is not None:
                raise self.failure

    def _play(self) -> None:
        try:
            with self._socket:
                self.say(protocol.Hello(os.getpid()))
                self.order = self.hear()
                self._played(self)
        except BaseException as error:  # noqa: BLE001 — raised where the test is
            self.failure = error
        finally:
            for descriptor in self.descriptors:
                os.close(descriptor)

    def say(self, *messages: protocol.Message) -> None:
        self._socket.sendall(b"".join(map(frames.encode, messages)))

    def hear(self) -> Any:
        """The next message."""
        while not self._heard:
            data, descriptors = receive(self._socket, 1 << 16, 8)
            assert data, "the front has gone"
            self.descriptors += descriptors
            self._heard += self._decoder.feed(data)
        return self._heard.pop(0)


def test_the_order_has_our_own_descriptors() -> None:
    def played(keeper: Played) -> None:
        assert isinstance(keeper.order, protocol.Order)
        assert (keeper.order.argv, keeper.order.size) == (("/bin/sh", "-c", ":"), None)
        assert [os.fstat(fd).st_ino for fd in keeper.descriptors] == [
            os.fstat(fd).st_ino for fd in range(3)
        ]
        keeper.say(protocol.Done(ENDED, over=True))

    assert Played(played).run() == ENDED


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ((protocol.Refused("why not", 5),), "why not"),
        ((), "the keeper was killed"),
        ((protocol.Began(1, (), 0.0),), "the keeper was killed"),
    ],
)
def test_what_cannot_be_run_is_told(last: Sequence[protocol.Message], told: str) -> None:
    with pytest.raises(NotRunError, match=f"^{told}$"):
        Played(lambda keeper: keeper.say(*last)).run()


def test_what_is_left_is_ended() -> None:
    def played(keeper: Played) -> None:
        keeper.say(protocol.Done(ENDED, over=False))
        assert keeper.hear() == protocol.End()
        keeper.say(protocol.Over())

    assert Played(played).run() == ENDED


def test_notes_and_what_is_lacking_are_remembered() -> None:
    kept = Decision("/x", ("x",), "run", "allowed, but it stays in the sandbox: why")
    outcome = ENDED._replace(notes=("a note", "a note"), decisions=(kept,))

    def played(keeper: Played) -> None:
        keeper.say(protocol.Began(1, ("/gone: no such",), 0.0), protocol.Done(outcome, over=True))

    keeper = Played(played)
    keeper.run()
    assert keeper.record.notes == ["not writable: /gone: no such", "a note", kept.reason]


def test_execs_have_their_callers_and_their_ends() -> None:
    def traced(pid: int, parents: tuple[int, ...], when: float, **more: Any) -> protocol.Traced:
        plain = protocol.Traced(
            *(pid, parents, "/bin/x", ("x",), "run", ""),
            because=None,
            outside=False,
            trusted=True,
            when=when,
        )
        return plain._replace(**more)

    def played(keeper: Played) -> None:
        keeper.say(
            protocol.Began(10, (), 1.0),
            traced(11, (10,), 2.0),
            traced(12, (13, 11, 10), 3.0),
            traced(12, (13, 11, 10), 4.0),
            protocol.Exited(12, 1 << 8, 5.0),
            traced(12, (10,), 6.0),  # another of that number
            protocol.Recorded(Verdict("/bin/x", ("x",), "deny", "why")),
            protocol.Done(ENDED, over=True),
        )

    keeper = Played(played, traced=True)
    keeper.run()
    execs = keeper.record.execs
    assert [found.caller for found in execs] == [None, 0, 1, 2, 0]
    assert [found.replaced for found in execs] == [False, False, True, False, False]
    assert [found.status for found in execs] == [None, None, None, 1 << 8, None]
    assert execs[3].ended is not None
    assert execs[3].ended - execs[3].started == 1.0
    assert [verdict.decision for verdict in keeper.record.verdicts] == ["deny"]


def test_a_question_that_nobody_asks_any_more_is_given_up() -> None:
    def played(keeper: Played) -> None:
        keeper.say(protocol.Ask(3, QUESTION), protocol.Look(4, "/"))
        answer = keeper.hear()
        assert (answer.number, answer.value) == (4, ((), 4, False))
        assert not keeper.human.given_up
        keeper.say(protocol.Withdrawn(3), protocol.Withdrawn(99), protocol.Look(5, "/"))
        assert keeper.hear().number == 5
        assert keeper.human.given_up
        keeper.say(protocol.Done(ENDED, over=True))

    Played(played).run()


def test_one_that_stands_when_all_is_over_is_given_up() -> None:
    def played(keeper: Played) -> None:
        keeper.say(protocol.Ask(3, QUESTION), protocol.Look(4, "/"))
        keeper.hear()
        keeper.say(protocol.Done(ENDED, over=True))

    keeper = Played(played)
    keeper.run()
    assert keeper.human.given_up


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_us_ends_the_command(number: int) -> None:
    def played(keeper: Played) -> None:
        os.kill(os.getpid(), number)
        assert keeper.hear() == protocol.Signal(number)
        assert keeper.hear() == protocol.End()
        keeper.say(protocol.Done(ENDED, over=True))

    before = signal.getsignal(number)
    assert Played(played).run() == ENDED
    assert signal.getsignal(number) is before


def test_so_it_does_before_the_command_has_begun() -> None:
    def played(keeper: Played) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        keeper.hear()
        keeper.say(protocol.Refused("it was ended before it had begun"))

    assert Played(played).run().status == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1])
def test_others_are_the_commands_to_act_on(number: int) -> None:
    def played(keeper: Played) -> None:
        keeper.say(protocol.Ask(3, QUESTION), protocol.Look(4, "/"))
        keeper.hear()
        os.kill(os.getpid(), number)
        assert keeper.hear() == protocol.Signal(number)
        if number == signal.SIGINT:
            assert keeper.hear() == protocol.Answer(3, ("cancel", "a rule"))
        assert keeper.human.interrupted.is_set == (number == signal.SIGINT)
        keeper.say(protocol.Done(ENDED, over=True))

    Played(played).run()


def test_a_keeper_that_could_not_be_had_is_heard_before_it_is_asked() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(frames.encode(protocol.Refused("no process can be started")))
    with ours, pytest.raises(NotRunError, match="no process can be started"):
        front(ours).run()


def test_without_its_directory_nothing_is_ordered(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(FileNotFoundError):
        front(ours, cwd=str(tmp_path / "none")).run()
