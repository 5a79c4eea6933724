"""One command on the caller's own descriptors: the front of the keeper that runs it."""

import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from codex_multitool.cli.exec_record import Record
from codex_multitool.cli.exec_start import NotRunError
from codex_multitool.cli.terminal import UNAVAILABLE, Human
from codex_multitool.escalation.guard import Guard
from codex_multitool.escalation.local_watch import LocalWatch
from codex_multitool.escalation.question import Verdict
from codex_multitool.interception.rights import send
from codex_multitool.keeper import frames, protocol
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.keeper.output import Output
from codex_multitool.keeper.watch_service import WatchService
from codex_multitool.loop import Event, Loop, Running, Task
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots

TIMED_OUT = 124  # as timeout(1)
_DEVICES = "/dev"  # shared memory and terminals: writable in most sandboxes, home of no program
_CHUNK = 1 << 16
# The command has a session of its own, so nothing of this reaches it from the terminal.
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Command(NamedTuple):
    """What is to be run. words: argv of the shell. workspace: what workspace-write opens, or empty.

    timeout: seconds, perhaps inf. ignored: signals that it is to ignore. traced: whether each of
    its execs is recorded.
    """

    words: tuple[str, ...]
    cwd: str
    workspace: str
    policy: SandboxPolicy
    timeout: float
    ignored: tuple[int, ...]
    traced: bool


def hired(zygote: socket.socket, settings: Settings) -> socket.socket:
    """A keeper. Raises NotRunError, or OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        try:
            zygote.sendall(frames.encode(protocol.Begin(settings)))
            _send(zygote, protocol.Grow(), theirs.fileno())
        except OSError as error:
            ours.close()
            raise NotRunError(f"no process to start CMD from: {error.strerror}") from None
    return ours


def _send(connection: socket.socket, message: protocol.Message, *descriptors: int) -> None:
    data = frames.encode(message)
    connection.sendall(memoryview(data)[send(connection, data, descriptors) :])


class Foreground:
    """Runs one command, once, by a keeper that serves nothing else."""

    def __init__(
        self,
        keeper: socket.socket,
        settings: Settings,
        command: Command,
        human: Human,
        record: Record,
    ) -> None:
        self._keeper = keeper
        self._command = command
        self._human = human
        self._record = record
        self._loop = Loop()
        self._decoder = frames.Decoder()
        self._tasks: dict[int, Running] = {}  # by the number of what is to be answered
        self._over = Event()
        self._refusal: str | None = None
        self._outcome: Outcome | None = None
        self._ended_by = 0  # the signal by which we were told to end
        self._own_mounts = settings.own_mounts
        self._roots = writable_roots(command.policy, command.workspace, settings.environment)
        self._watch = LocalWatch(Guard(), self._roots, command.cwd)
        self._service = WatchService(self._watch, self._answer)
        service, attend = self._service, self._attend
        self._takers: dict[type, Callable[[Any], None]] = {
            protocol.Hello: lambda it: self._watch.runs_below(it.pid),
            protocol.Refused: self._refused,
            protocol.Began: self._began,
            protocol.Ask: lambda it: attend(it.number, self._ask(it)),
            protocol.Look: lambda it: attend(it.number, service.look(it)),
            protocol.Agree: service.agree,
            protocol.Leaving: lambda it: attend(it.number, service.leaving(it)),
            protocol.Handed: lambda it: attend(it.number, service.handed(it)),
            protocol.Returned: self._returned,
            protocol.Withdrawn: self._withdrawn,
            protocol.Recorded: lambda it: record.verdict(it.verdict),
            protocol.Traced: record.traced,
            protocol.Exited: record.exited,
            protocol.Done: self._done,
            protocol.Over: lambda _: self._over.set(),
        }

    def run(self) -> Outcome:
        """Run it to its end, and end what it leaves behind.

        Raises NotRunError when it cannot be started, and OSError.
        """
        numbers = {*_PASSED_ON, *_ENDING, signal.SIGTSTP}.difference(self._command.ignored)
        with closing(self._keeper):
            os.close(os.open(self._command.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
            with self._hearing(), _signals(numbers, self._loop, self._pass_on):
                # One that has gone is heard all the same: it may have said why.
                with suppress(BrokenPipeError, ConnectionResetError):
                    _send(self._keeper, self._order(), 0, 1, 2)
                self._loop.run(self._over)
        for note in self._watch.notes(ended=True):
            self._record.note(note)
        if self._outcome is not None:
            return self._outcome
        if self._ended_by:  # before it had begun
            return Outcome(self._ended_by, timed_out=False, duration_ns=0, output=Output(""))
        raise NotRunError(self._refusal or "the keeper was killed")

    def _order(self) -> protocol.Order:
        command = self._command
        mounts = tuple(self._watch.standing()) if self._own_mounts else ()
        return protocol.Order(
            argv=command.words,
            workdir=command.cwd,
            sandbox=protocol.Sandbox(command.policy, tuple(self._roots), mounts),
            writable=(_DEVICES, *map(os.path.realpath, self._roots)),
            timeout=command.timeout,
            environment={"PWD": command.cwd},
            ignored=command.ignored,
            watched=bool(self._roots),
            traced=command.traced,
        )

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        attending = self._loop.start(self._watch.attend())
        self._loop.watch(self._keeper.fileno(), self._hear)
        try:
            yield
        finally:
            self._loop.forget(self._keeper.fileno())
            for running in (attending, *self._tasks.values()):
                running.cancel()

    def _hear(self, _: int) -> None:
        try:
            data = self._keeper.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        for message in self._decoder.feed(data):
            self._takers[type(message)](message)
        if not data:
            self._over.set()

    def _began(self, message: protocol.Began) -> None:
        for root in message.lacking:
            self._record.note(f"not writable: {root}")
        self._record.root(message.pid, self._command.words, message.when)

    def _refused(self, message: protocol.Refused) -> None:
        self._refusal = message.text
        self._over.set()

    def _done(self, message: protocol.Done) -> None:
        outcome = self._outcome = message.outcome
        for note in outcome.notes:
            self._record.note(note)
        if not self._command.traced:
            for found in outcome.decisions:
                self._record.verdict(Verdict(*found[:4]))
        if message.over:
            self._over.set()
        else:
            self._say(protocol.End())

    # What it asks

    def _attend(self, number: int, task: Task[None]) -> None:
        running = self._tasks[number] = self._loop.start(task)
        running.done.on_set(lambda: self._forget(number))

    def _forget(self, number: int) -> None:
        del self._tasks[number]

    def _ask(self, message: protocol.Ask) -> Task[None]:
        action, reason = yield from self._human.ask(message.question)
        if action != UNAVAILABLE:
            self._record.answered(message.question)
        self._answer(message.number, (action, reason))

    def _withdrawn(self, message: protocol.Withdrawn) -> None:
        if message.number in self._tasks:
            self._tasks[message.number].cancel()
        self._service.lost(message.number)

    def _returned(self, message: protocol.Returned) -> None:
        if message.number:
            self._attend(message.number, self._service.returned(message))
        else:
            self._service.lost(message.absence)

    def _answer(self, number: int, value: Any) -> None:
        self._say(protocol.Answer(number, value))

    # What it is told

    def _say(self, message: protocol.Message) -> None:
        try:
            self._keeper.sendall(frames.encode(message))
        except OSError:
            pass  # it has gone; the loop sees that too

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGTSTP:
            # Its group is orphaned, so that only SIGSTOP stops it: setpgid(2).
            self._say(protocol.Signal(signal.SIGSTOP))
            os.kill(os.getpid(), signal.SIGSTOP)
            self._say(protocol.Signal(signal.SIGCONT))
            return
        if number in (signal.SIGINT, *_ENDING):
            self._human.interrupt()
        self._say(protocol.Signal(number))
        if number in _ENDING:
            self._ended_by = number
            self._say(protocol.End())


@contextmanager
def _signals(numbers: Iterable[int], loop: Loop, take: Callable[[int], None]) -> Iterator[None]:
    """Hear of signals in the loop."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def hear(_: int) -> None:
        for number in os.read(reader, _CHUNK):
            take(number)

    loop.watch(reader, hear)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        loop.forget(reader)
        os.close(reader)
        os.close(writer)
