"""An escalated exec in kernel mode: the server runs its snapshot, and the caller ends like it.

The program starts at once, while the caller still waits in its exec. One that ends soon needs no
stand-in: the caller is made to exit with its status. For a longer one the caller becomes a
stand-in, which can be signalled. The program is fed from the snapshot alone; nothing is read from
the caller again.
"""

import os
import select
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from errno import EACCES, ETIMEDOUT
from typing import Any

import trio

from codex_multitool.escalation import caller
from codex_multitool.escalation.child import Escalated, Outside, start_outside
from codex_multitool.escalation.context import Context
from codex_multitool.escalation.decide import ExecRequest
from codex_multitool.escalation.identity import absolute, exec_request
from codex_multitool.interception import descriptors, relay
from codex_multitool.interception.exec_stop import Steps, take_hold
from codex_multitool.interception.hold import Hold, Refused
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.redirect import Turned, end, redirect
from codex_multitool.interception.resolve import AT_FDCWD
from codex_multitool.interception.stand_in import StandIn, UnavailableError, stand_in
from codex_multitool.interception.tracee import ExecSnapshot

# How long a caller is kept in its exec. A vfork parent sleeps with it, and a signal to it waits.
_SOON_SECONDS = 0.05
_NUDGE_SECONDS = 0.25
_CHUNK = 4096
_HANDING_SECONDS = 10.0

_FAILURES = (UnavailableError, KernelError, OSError)
Drive = Callable[[Steps[Any], int], Awaitable[Any]]


async def escalate(
    context: Context,
    listener: Listener,
    notification: Notification,
    snapshot: ExecSnapshot,
    drive: Drive,
) -> None:
    """Run the snapshot outside and see the caller to its end. Always answers the notification."""
    with ExitStack() as stack:
        escalation = _Escalation(context, listener, notification, snapshot, drive, stack)
        try:
            await escalation.run()
        except _FAILURES as error:
            await escalation.give_up(error)


class _Escalation:
    """One caller and the program that runs for it. stack: closes what is opened."""

    def __init__(
        self,
        context: Context,
        listener: Listener,
        notification: Notification,
        snapshot: ExecSnapshot,
        drive: Drive,
        stack: ExitStack,
    ) -> None:
        self._context = context
        self._listener = listener
        self._notification = notification
        self._snapshot = snapshot
        self._drive = drive
        self._stack = stack
        self._hold: Hold | None = None
        self._pidfd = -1

    async def run(self) -> None:
        """Raises UnavailableError, KernelError or OSError while the caller is still unanswered."""
        snapshot = self._snapshot
        environment = _environment(snapshot)
        inherited = caller.inherited(snapshot.tgid, runtime_signals=True)
        numbers = descriptors.inheritable(snapshot.tid)
        taken = descriptors.take(snapshot.tid, numbers, reopen=False)
        self._stack.callback(taken.close)
        self._pidfd = os.pidfd_open(snapshot.tgid)
        self._stack.callback(os.close, self._pidfd)
        if not self._listener.valid(self._notification):
            return
        assert snapshot.program is not None, "an exec without a program has an errno"
        stand = None
        pairs = taken.pairs
        if taken.missing:
            stand = self._stand_in(handing=True)
            if not await self._become(stand):
                return
            pairs = await _handed(stand, self._stack)
        escalated = Escalated(
            program=snapshot.program,
            asked=asked_path(snapshot),
            argv=snapshot.argv,
            workdir=snapshot.workdir,
            environment=environment,
            descriptors=pairs,
            inherited=inherited,
            held=snapshot.tgid if self._listener.killable else None,
        )
        if stand is None and self._listener.killable:
            await self._keep()
        outside = await start_outside(self._context, escalated)
        try:
            await self._see_through(outside, stand)
        finally:
            await outside.end()

    async def give_up(self, error: Exception) -> None:
        """End the caller as one whose program could not be started, and say why."""
        if not self._listener.valid(self._notification):
            return  # it has died meanwhile
        self._context.note(f"{self._snapshot.file} could not be run outside: {error}")
        await self._end(relay.NOT_STARTED)

    async def _end(self, status: int) -> None:
        """Make the caller, still blocked in its exec, exit with `status`."""
        tgid, hold = self._snapshot.tgid, self._held()
        steps = end(self._listener, self._notification, tgid, status, hold)
        if isinstance(await self._drive(steps, self._notification.tid), Refused):
            self._listener.fail(self._notification, EACCES)

    async def _see_through(self, outside: Outside, stand: StandIn | None) -> None:
        if stand is None:
            if (status := await self._soon(outside)) is not None:
                await self._end(status)
                return
            if not self._listener.valid(self._notification):
                return  # killed; its program ends with this
            try:
                stand = self._stand_in(handing=False)
            except _FAILURES as error:
                await self.give_up(error)
                return
            if not await self._become(stand):
                return
        signals = _Signals(stand, self._pidfd)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(signals.nudge)
            result = await outside.relaying(signals.next)
            nursery.cancel_scope.cancel()
        _tell(stand.status, relay.ended(result.exit_code, result.signal))

    async def _keep(self) -> None:
        """Hold the caller, so that a signal waits for the stand-in.

        One that is deadly by default would end a caller that is not traced at once, whatever it
        waits for.
        """
        taken = take_hold(self._notification.tid, self._snapshot.tgid)
        hold = await self._drive(taken, self._notification.tid)
        if isinstance(hold, Hold):
            self._hold = hold
            self._stack.callback(self._let_go)

    async def _soon(self, outside: Outside) -> int | None:
        """The program's status, if it ends soon, and not by a signal, while the caller is held."""
        if self._hold is None:
            return None
        with trio.move_on_after(_SOON_SECONDS):
            result = await outside.result()
            return result.exit_code if result.signal is None else None
        return None

    def _let_go(self) -> None:
        if self._hold is not None:
            self._hold.abandon()

    def _held(self) -> Hold | None:
        """The held caller, from now on somebody else's to let go."""
        hold, self._hold = self._hold, None
        return hold

    def _stand_in(self, *, handing: bool) -> StandIn:
        stand = stand_in(self._listener, self._notification, self._snapshot.tgid, handing=handing)
        self._stack.callback(stand.close)
        return stand

    async def _become(self, stand: StandIn) -> bool:
        """Whether the caller has become its stand-in; if not, it is no more."""
        steps = redirect(
            self._listener, self._notification, self._snapshot, stand.replacement, self._held()
        )
        outcome = await self._drive(steps, self._notification.tid)
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
        loaded=snapshot.loaded,
    )


def _environment(snapshot: ExecSnapshot) -> dict[str, str]:
    pairs = (variable.partition("=") for variable in snapshot.envp())
    return {name: value for name, equals, value in pairs if equals and name}


async def _handed(stand: StandIn, stack: ExitStack) -> tuple[tuple[int, int], ...]:
    """The descriptors the stand-in itself sends, where they cannot be taken from outside."""
    handing = descriptors.Handing()
    stack.callback(handing.close)
    assert stand.channel is not None
    stand.channel.setblocking(False)
    with trio.move_on_after(_HANDING_SECONDS):
        while handing.receive(stand.channel):
            await trio.lowlevel.wait_readable(stand.channel)
        return handing.pairs
    raise OSError(ETIMEDOUT, "its descriptors did not come in time")


class _Signals:
    """What the stand-in relays. It may be gone while others keep its pipe open."""

    def __init__(self, stand: StandIn, pidfd: int) -> None:
        self._stand = stand
        self._ended = select.poll()
        self._ended.register(pidfd, select.POLLIN)
        self._waiting = trio.CancelScope()
        self._gone = False
        self._pending = list(stand.replacement.meanwhile or ())
        os.set_blocking(stand.signals, False)
        os.set_blocking(stand.status, False)

    async def next(self) -> int | None:
        """The next signal; None once the stand-in has gone."""
        while not self._pending:
            try:
                text = os.read(self._stand.signals, _CHUNK)
            except BlockingIOError:
                if self._gone:
                    return None
                self._waiting = trio.CancelScope()
                with self._waiting:
                    await trio.lowlevel.wait_readable(self._stand.signals)
                continue
            if not text:
                return None
            self._pending = relay.relayed(text)
        return self._pending.pop(0)

    async def nudge(self) -> None:
        """Wake the stand-in now and then (see `relay.NUDGE`), and see whether it is there."""
        while not self._ended.poll(0):
            await trio.sleep(_NUDGE_SECONDS)
            _tell(self._stand.status, relay.NUDGE)
        self._gone = True
        self._waiting.cancel()


def _tell(fd: int, text: bytes) -> None:
    try:
        os.write(fd, text)
    except OSError:
        pass  # the stand-in has gone, or sleeps on a full pipe: it needs no telling
