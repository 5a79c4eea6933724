"""An escalated exec in kernel mode: the server runs its snapshot, and the caller ends like it.

The program starts at once, while the caller still waits in its exec. One that ends soon needs no
stand-in: the caller is made to exit with its status. For a longer one the caller becomes a
stand-in, which can be signalled. The program is fed from the snapshot alone; nothing is read from
the caller again.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from errno import EACCES, ETIMEDOUT
from functools import lru_cache
from typing import Any, NamedTuple, Self

from codex_multitool.escalation import caller
from codex_multitool.escalation.child import Escalated, Outside, start_outside
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.decide import ExecRequest
from codex_multitool.escalation.identity import absolute, exec_request
from codex_multitool.escalation.watch import Absence, Finding
from codex_multitool.escalation.wire import SuperExecResult
from codex_multitool.escalation.workdir import above
from codex_multitool.interception import descriptors, relay
from codex_multitool.interception.exec_stop import Steps, take_hold
from codex_multitool.interception.hold import Hold, Refused
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.redirect import Turned, end, redirect
from codex_multitool.interception.resolve import AT_FDCWD
from codex_multitool.interception.stand_in import StandIn, UnavailableError, stand_in
from codex_multitool.interception.tracee import ExecSnapshot
from codex_multitool.loop import Task, Wait, beside

# How long a caller is kept in its exec. A vfork parent sleeps with it, and a signal to it waits.
_SOON_SECONDS = 0.05
_NUDGE_SECONDS = 0.25
_CHUNK = 4096
_HANDING_SECONDS = 10.0

_FAILURES = (UnavailableError, KernelError, OSError)
Drive = Callable[[Steps[Any], int], Task[Any]]


class _Prepared(NamedTuple):
    """What the program takes over from its caller, read once."""

    environment: Mapping[str, str]
    inherited: caller.Inherited
    taken: descriptors.Taken


class Escalation:
    """One caller and the program that runs for it; `with` closes what is opened."""

    def __init__(
        self,
        context: Context,
        listener: Listener,
        notification: Notification,
        snapshot: ExecSnapshot,
        drive: Drive,
    ) -> None:
        self._context = context
        self._listener = listener
        self._notification = notification
        self._snapshot = snapshot
        self._drive = drive
        self._stack = ExitStack()
        self._prepared: _Prepared | Exception | None = None
        self._hold: Hold | None = None
        self._pidfd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def leaving(self, request: ExecRequest) -> Task[Absence | Finding]:
        """See Watch.leaving_unchanged. Whoever watches may be asked while the caller is read."""
        held = self._snapshot.tgid if self._listener.killable else None
        words = request.argv[1:]
        standing = above(self._snapshot.workdir, self._context.roots)
        leaving = self._context.watch.leaving_unchanged(request.workdir, words, held, standing)
        return beside(leaving, self._prepare)

    def run(self, argv: tuple[str, ...], absence: Absence | None) -> Task[None]:
        """Run the snapshot outside, and see the caller to its end; always answers it.

        argv: with which the program is called. absence: its own, if that has begun.
        """
        if absence is not None:
            self._stack.callback(absence.lost)
        try:
            yield from self._run(argv, absence)
        except _FAILURES as error:
            yield from self._give_up(error)

    def _prepare(self) -> None:
        if self._prepared is None:
            try:
                self._prepared = self._read()
            except _FAILURES as error:
                self._prepared = error

    def _read(self) -> _Prepared:
        snapshot = self._snapshot
        environment = _environment(snapshot.envp())
        inherited = caller.inherited(snapshot.tgid, runtime_signals=True)
        numbers = descriptors.inheritable(snapshot.tid)
        taken = descriptors.take(snapshot.tid, numbers, reopen=False)
        self._stack.callback(taken.close)
        return _Prepared(environment, inherited, taken)

    def _run(self, argv: tuple[str, ...], absence: Absence | None) -> Task[None]:
        """Raises UnavailableError, KernelError or OSError while the caller is still unanswered."""
        self._prepare()
        prepared, snapshot = self._prepared, self._snapshot
        if not self._listener.valid(self._notification):
            return
        if isinstance(prepared, Exception):
            raise prepared
        assert prepared is not None, "it has just been made"
        assert snapshot.program is not None, "an exec without a program has an errno"
        stand = None
        pairs = prepared.taken.pairs
        if prepared.taken.missing:
            stand = self._stand_in(handing=True)
            if not (yield from self._become(stand)):
                return
            pairs = yield from _handed(stand, self._stack)
        escalated = Escalated(
            program=snapshot.program,
            asked=asked_path(snapshot),
            argv=argv,
            workdir=snapshot.workdir,
            cwd=snapshot.cwd,
            environment=prepared.environment,
            descriptors=pairs,
            inherited=prepared.inherited,
        )
        if stand is None and self._listener.killable:
            yield from self._keep()
        outside = yield from start_outside(self._context, escalated, absence)
        try:
            yield from self._see_through(outside, stand)
        finally:
            outside.end()

    def _give_up(self, error: Exception) -> Task[None]:
        """End the caller as one whose program could not be started, and say why."""
        if not self._listener.valid(self._notification):
            return  # it has died meanwhile
        self._context.note(f"{self._snapshot.file} could not be run outside: {error}")
        yield from self._end(relay.NOT_STARTED)

    def _end(self, status: int) -> Task[None]:
        """Make the caller, still blocked in its exec, exit with `status`."""
        tgid, hold = self._snapshot.tgid, self._held()
        steps = end(self._listener, self._notification, tgid, status, hold)
        if isinstance((yield from self._drive(steps, self._notification.tid)), Refused):
            self._listener.fail(self._notification, EACCES)

    def _see_through(self, outside: Outside, stand: StandIn | None) -> Task[None]:
        result = None
        if stand is None:
            result = yield from self._soon(outside)
            if result is not None and result.signal is None:
                yield from self._end(result.exit_code)
                return
            if not self._listener.valid(self._notification):
                return  # killed; its program ends with this
            try:
                stand = self._stand_in(handing=False)
            except _FAILURES as error:
                yield from self._give_up(error)
                return
            if not (yield from self._become(stand)):
                return
        if result is None:
            yield from _relay(outside, stand, self._pidfd)
            result = yield from outside.result()
        _tell(stand.status, relay.ended(result.exit_code, result.signal))

    def _keep(self) -> Task[None]:
        """Hold the caller, so that a signal waits for the stand-in.

        One that is deadly by default would end a caller that is not traced at once, whatever it
        waits for.
        """
        taken = take_hold(self._notification.tid, self._snapshot.tgid)
        hold = yield from self._drive(taken, self._notification.tid)
        if isinstance(hold, Hold):
            self._hold = hold
            self._stack.callback(self._let_go)

    def _soon(self, outside: Outside) -> Task[SuperExecResult | None]:
        """How the program ended, if it does soon, while the caller is held."""
        if self._hold is None:
            return None
        until = time.monotonic() + _SOON_SECONDS
        ended = yield Wait(event=outside.ended, until=until)
        return (yield from outside.result()) if ended else None

    def _let_go(self) -> None:
        if self._hold is not None:
            self._hold.abandon()

    def _held(self) -> Hold | None:
        """The held caller, from now on somebody else's to let go."""
        hold, self._hold = self._hold, None
        return hold

    def _stand_in(self, *, handing: bool) -> StandIn:
        # The caller's: it still waits when it is given something.
        self._pidfd = os.pidfd_open(self._snapshot.tgid)
        self._stack.callback(os.close, self._pidfd)
        stand = stand_in(self._listener, self._notification, self._snapshot.tgid, handing=handing)
        self._stack.callback(stand.close)
        return stand

    def _become(self, stand: StandIn) -> Task[bool]:
        """Whether the caller has become its stand-in; if not, it is no more."""
        steps = redirect(
            self._listener, self._notification, self._snapshot, stand.replacement, self._held()
        )
        outcome = yield from self._drive(steps, self._notification.tid)
        if isinstance(outcome, Refused):
            self._listener.fail(self._notification, EACCES)
        return outcome is Turned.DONE


def asked_path(snapshot: ExecSnapshot) -> str:
    """The absolute path by which the caller called the program, by its text alone."""
    assert snapshot.program is not None, "an exec without a program has an errno"
    if snapshot.directory == AT_FDCWD or snapshot.file.startswith("/"):
        return absolute(snapshot.file, snapshot.cwd)
    return snapshot.program.path or snapshot.filename


def request_of(snapshot: ExecSnapshot, context: Context) -> ExecRequest:
    """The exec as `decide` wants it."""
    program = snapshot.program
    assert program is not None, "an exec without a program has an errno"
    asked = asked_path(snapshot)
    return exec_request(
        program,
        asked,
        snapshot.argv,
        snapshot.cwd,
        context.writable,
        executed=snapshot.argv_executed(),
        interpreters=snapshot.interpreters,
        linker=snapshot.linker,
        loaded=snapshot.loaded,
    )


@lru_cache(maxsize=1)
def _environment(envp: tuple[str, ...]) -> Mapping[str, str]:
    """By names; the next caller's is mostly the same, and what it came to is known by that."""
    pairs = (variable.partition("=") for variable in envp)
    return {name: value for name, equals, value in pairs if equals and name}


def _handed(stand: StandIn, stack: ExitStack) -> Task[tuple[tuple[int, int], ...]]:
    """The descriptors the stand-in itself sends, where they cannot be taken from outside."""
    handing = descriptors.Handing()
    stack.callback(handing.close)
    assert stand.channel is not None
    stand.channel.setblocking(False)
    until = time.monotonic() + _HANDING_SECONDS
    while handing.receive(stand.channel):
        yield Wait(readable=stand.channel.fileno(), until=until)
        if time.monotonic() >= until:
            raise OSError(ETIMEDOUT, "its descriptors did not come in time")
    return handing.pairs


def _relay(outside: Outside, stand: StandIn, pidfd: int) -> Task[None]:
    """Pass on to the program what its stand-in relays, and kill it if that has gone.

    The stand-in may be gone while others keep its pipe open, and is woken now and then: see
    `relay.NUDGE`.
    """
    os.set_blocking(stand.signals, False)
    os.set_blocking(stand.status, False)
    for number in stand.replacement.meanwhile or ():
        outside.signal(number)
    gone = False
    nudge = time.monotonic() + _NUDGE_SECONDS
    while not (gone or outside.ended.is_set):
        yield Wait(readable=stand.signals, event=outside.ended, until=nudge)
        if time.monotonic() >= nudge:
            gone = _has_ended(pidfd)
            nudge = time.monotonic() + _NUDGE_SECONDS
            _tell(stand.status, relay.NUDGE)
        try:
            text = os.read(stand.signals, _CHUNK)
        except BlockingIOError:
            continue
        gone = gone or not text
        for number in relay.relayed(text):
            outside.signal(number)
    if gone:
        outside.signal(signal.SIGKILL)  # nobody is left to hear how it ends


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _tell(fd: int, text: bytes) -> None:
    try:
        os.write(fd, text)
    except OSError:
        pass  # the stand-in has gone, or sleeps on a full pipe: it needs no telling
