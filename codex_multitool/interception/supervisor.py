"""One command's execs in kernel mode: notification, snapshot, verdict, answer.

All of it happens in the event loop's thread, the only one that may use ptrace here. What takes
time — a question, an escalated program, a caller slow to stop — goes on in a task of its own, and
other execs do not wait for it. If this ends, every exec still to come fails with ENOSYS.
"""

import errno
import os
import time
from collections import deque
from functools import partial
from typing import TypeVar

import trio

from codex_multitool.escalation.context import Context, Settled, Verdict, conclude, settle
from codex_multitool.escalation.decide import (
    Deny,
    Escalate,
    ExecRequest,
    Run,
    decide,
    leaves_untrusted,
    unfixed,
)
from codex_multitool.escalation.decide import Verdict as Decided
from codex_multitool.interception.descriptors import say
from codex_multitool.interception.escalate import escalate, request_of
from codex_multitool.interception.exec_stop import (
    Awaited,
    Resumed,
    Steps,
    resume_checked,
)
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Absent, Listener, Notification
from codex_multitool.interception.precedents import Precedents, facts_of
from codex_multitool.interception.redirect import Turned, end, redirect, refused
from codex_multitool.interception.sealed import sealed
from codex_multitool.interception.stand_in import UnavailableError, denial
from codex_multitool.interception.tracee import (
    AT_EXECVE_CHECK,
    ExecSnapshot,
    Gone,
    Repeated,
    Unreadable,
    read_unknown,
)
from codex_multitool.interception.waiting import (
    AT_ONCE_SECONDS,
    PAUSE_SECONDS,
    advance,
    await_child,
    see_buried,
    wake_no_more,
    wake_on_children,
)

_DENIED_STATUS = 1
_STDERR = 2
_PATIENT_TURNS = 20
_MAX_HELD = 256  # each takes a dozen descriptors of ours, and up to 6 MiB

_RUN = Run()

Outcome = Resumed | Turned | Refused
T = TypeVar("T")


class Supervisor:
    """Judges every exec under one listener, which it owns.

    confined: whether the tree is in a sandbox; outside one, an exec that cannot be watched (its
    process is being debugged, say) is let through.
    """

    def __init__(self, context: Context, listener: Listener, *, confined: bool) -> None:
        self._context = context
        self._listener = listener
        self._confined = confined
        self._started = False  # the first exec is the launcher's own, of the shell
        # By process, one exec is answered at a time (see `hold`); those of other threads wait.
        self._waiting: dict[int, deque[Notification]] = {}
        # By thread, the exec that a redirection makes it do.
        self._redirected: dict[int, Notification | None] = {}
        # Who traces wants to know of each exec all there is to know.
        self._precedents = Precedents(our_view=confined and context.trace is None)
        self.watched = 0  # execs seen through to their exec stop

    async def serve(self) -> None:
        """Judge until no process is left under the filter, or until cancelled.

        Meanwhile SIGCHLD is blocked in this thread, to be able to wait for it.
        """
        wake_on_children(self)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                received: deque[Notification] = deque()
                while True:
                    if received:
                        await trio.lowlevel.checkpoint()
                    else:
                        await trio.lowlevel.wait_readable(self._listener.fd)
                    if not self._receive(received):
                        break
                    if received:
                        self._notified(received.popleft())
        finally:
            self._listener.close()
            wake_no_more(self)
            see_buried()

    def _receive(self, received: deque[Notification]) -> bool:
        """Take all that wait; False: no process is left.

        A handler that runs before makes the caller's execve fail with EINTR, after it waits.
        """
        while (found := self._listener.receive()) is not Absent.NOTHING:
            if found is Absent.ENDED:
                return False
            if not isinstance(found, Notification):
                continue
            if found.tid in self._redirected:
                self._redirected[found.tid] = found
            else:
                received.append(found)
        return True

    def _notified(self, notification: Notification) -> None:
        if not self._started:
            self._started = True
            self._listener.resume(notification)
        else:
            self._read(notification)

    def _read(self, notification: Notification) -> None:
        if len(self._waiting) >= _MAX_HELD:
            self._context.note(f"execs failed: {_MAX_HELD} of this command were held already")
            self._listener.fail(notification, errno.EAGAIN)
            return
        precedents = self._precedents
        snapshot = read_unknown(self._listener, notification, precedents.files, precedents.knows)
        if isinstance(snapshot, Gone):
            return
        if isinstance(snapshot, Unreadable):
            self._unread(notification, snapshot)
        elif snapshot.tgid in self._waiting:
            snapshot.close()
            self._waiting[snapshot.tgid].append(notification)
        elif isinstance(snapshot, Repeated):
            self._waiting[snapshot.tgid] = deque()
            self._follow(notification, snapshot, self._resume(notification, snapshot))
        elif snapshot.errno is not None:
            snapshot.close()
            self._listener.fail(notification, snapshot.errno)
        else:
            self._waiting[snapshot.tgid] = deque()
            self._judge(notification, snapshot)

    def _unread(self, notification: Notification, found: Unreadable) -> None:
        """What is not known cannot be judged; it matters not where nothing is kept from anybody."""
        if not self._confined and not self._context.judgement.restricts:
            self._listener.resume(notification)
            return
        reason = f"this exec could not be read: {os.strerror(found.errno)}"
        self._context.record(Verdict("?", (), "deny", reason))
        if found.errno in (errno.EACCES, errno.EPERM):
            self._context.note(
                "a program was not executed, since its caller is not dumpable (PR_SET_DUMPABLE, "
                "prctl(2)), as ssh-agent is: rules cannot judge what nobody may look at"
            )
        self._listener.fail(notification, errno.EACCES)

    def _judge(self, notification: Notification, snapshot: ExecSnapshot) -> None:
        try:
            request, verdict = self._decide(snapshot)
        except (KernelError, OSError) as error:
            # It costs this exec, and no other: files may go, or none be to be had, at any moment.
            self._record(snapshot, f"this exec could not be judged: {error}")
            self._listener.fail(notification, errno.EACCES)
            self._finish(notification, snapshot, Turned.GONE)
            return
        if snapshot.flags & AT_EXECVE_CHECK:
            self._check_only(notification, snapshot, verdict)
            return
        if self._confined and isinstance(verdict, Run) and snapshot.expected.unseen:
            # What such a program is could not be seen at its exec stop either.
            verdict = Deny(f"{snapshot.file} cannot be read, so it cannot be judged")
        if isinstance(verdict, Deny):
            conclude(self._context, request, verdict)
            self._traced(snapshot, request, verdict, verdict)
            self._deny(notification, snapshot, verdict.reason)
        elif verdict == _RUN:
            self._traced(snapshot, request, verdict, verdict)
            self._follow(notification, snapshot, self._resume(notification, snapshot))
        else:
            self._nursery.start_soon(self._answer, notification, snapshot, request, verdict)

    def _traced(
        self, snapshot: ExecSnapshot, request: ExecRequest, decided: Decided, settled: Settled
    ) -> None:
        if self._context.trace is not None:
            self._context.trace(snapshot.tgid, request, decided, settled)

    def _follow(
        self, notification: Notification, snapshot: ExecSnapshot | Repeated, steps: Steps[Outcome]
    ) -> None:
        try:
            outcome = advance(steps)
        except (KernelError, OSError) as error:
            outcome = self._lost(notification, snapshot, error)
        if outcome is None:
            self._nursery.start_soon(self._see_through, notification, snapshot, steps)
        else:
            self._finish(notification, snapshot, outcome)

    def _decide(self, snapshot: ExecSnapshot) -> tuple[ExecRequest, Decided]:
        facts = facts_of(snapshot)
        before = self._precedents.judged(facts)
        if before is not None:
            return before
        request = request_of(snapshot, self._context)
        verdict = decide(self._context.judgement, request)
        self._precedents.learn(facts, snapshot, request, verdict)
        return request, verdict

    def _check_only(
        self, notification: Notification, snapshot: ExecSnapshot, verdict: Decided
    ) -> None:
        """Answer an execveat(2) that only asks whether it might: nothing runs by it."""
        if isinstance(verdict, Deny):
            self._listener.fail(notification, errno.EACCES)
        else:
            self._listener.resume(notification)
        self._finish(notification, snapshot, Resumed.RETURNED)

    async def _answer(
        self,
        notification: Notification,
        snapshot: ExecSnapshot,
        request: ExecRequest,
        verdict: Decided,
    ) -> None:
        if leaves_untrusted(request, verdict):
            assert snapshot.program is not None, "what is judged has a program"
            try:
                snapshot = snapshot._replace(program=sealed(snapshot.program))
            except OSError as error:
                verdict = unfixed(request, error)
        program = snapshot.program
        settled = await settle(
            self._context,
            request,
            verdict,
            of_own_shell=lambda shell: shell.includes(snapshot.tgid),
            unchanged=lambda: program is not None and program.unchanged(),
        )
        self._traced(snapshot, request, verdict, settled)
        match settled:
            case Run():
                self._follow(notification, snapshot, self._resume(notification, snapshot))
            case Deny(reason=reason):
                self._deny(notification, snapshot, reason)
            case Escalate():
                called = snapshot._replace(argv=settled.called(snapshot.argv))
                await self._escalate(notification, called)

    def _resume(
        self, notification: Notification, snapshot: ExecSnapshot | Repeated
    ) -> Steps[Outcome]:
        return resume_checked(self._listener, notification, snapshot.tgid, snapshot.expected)

    async def _see_through(
        self, notification: Notification, snapshot: ExecSnapshot | Repeated, steps: Steps[Outcome]
    ) -> None:
        try:
            outcome = await self._drive(steps, notification.tid)
        except (KernelError, OSError) as error:
            outcome = self._lost(notification, snapshot, error)
        self._finish(notification, snapshot, outcome)

    def _lost(
        self,
        notification: Notification,
        snapshot: ExecSnapshot | Repeated,
        error: KernelError | OSError,
    ) -> Outcome:
        """A step failed as none should: what it held has been killed, and it costs no other."""
        self._record(snapshot, f"this exec could not be watched: {error}")
        self._listener.fail(notification, errno.EACCES)
        return Turned.GONE

    def _deny(self, notification: Notification, snapshot: ExecSnapshot, reason: str) -> None:
        text = os.fsencode(f"Execution denied: {reason}\n")
        valid = partial(self._listener.valid, notification)
        said = say(notification.tid, _STDERR, text, valid=valid)
        if said == len(text):
            steps = refused(self._listener, notification, snapshot.tgid, _DENIED_STATUS)
            self._follow(notification, snapshot, steps)
        else:
            rest = os.fsdecode(text[said:-1])
            self._nursery.start_soon(self._deny_by_script, notification, snapshot, rest)

    async def _deny_by_script(
        self, notification: Notification, snapshot: ExecSnapshot, text: str
    ) -> None:
        """Let the caller itself say it: it can wait until its stderr takes it."""
        steps: Steps[Outcome]
        try:
            told = denial(self._listener, notification, snapshot.tgid, text, _DENIED_STATUS)
            steps = redirect(self._listener, notification, snapshot, told)
        except (UnavailableError, KernelError, OSError):
            # No sh to say it in: the status alone, then; the result has the reason.
            steps = end(self._listener, notification, snapshot.tgid, _DENIED_STATUS)
        outcome = await self._drive_redirection(steps, notification.tid)
        if isinstance(outcome, Refused):
            self._listener.fail(notification, errno.EACCES)
        self._finish(notification, snapshot, Turned.DONE)

    async def _escalate(self, notification: Notification, snapshot: ExecSnapshot) -> None:
        await escalate(
            self._context, self._listener, notification, snapshot, self._drive_redirection
        )
        self._finish(notification, snapshot, Turned.DONE)

    async def _drive_redirection(self, steps: Steps[T], tid: int) -> T:
        self._redirected[tid] = None
        try:
            return await self._drive(steps, tid, at_once=AT_ONCE_SECONDS)
        finally:
            del self._redirected[tid]

    async def _drive(self, steps: Steps[T], tid: int, *, at_once: float = 0.0) -> T:
        """Drive to the end. at_once: seconds for which nothing else is done while it waits."""
        limit = time.monotonic() + at_once
        turns = 0
        try:
            while True:
                second = self._redirected.get(tid)
                if second is not None:
                    self._redirected[tid] = None
                try:
                    awaited = steps.send(second if turns else None)
                except StopIteration as stop:
                    outcome: T = stop.value
                    return outcome
                turns += 1
                if awaited is Awaited.STOP and (left := limit - time.monotonic()) > 0:
                    await_child(left)
                elif awaited is Awaited.NOTIFICATION and turns < _PATIENT_TURNS:
                    await trio.lowlevel.checkpoint()  # for `serve` to receive it
                else:
                    await trio.sleep(PAUSE_SECONDS)
        finally:
            steps.close()

    def _finish(
        self, notification: Notification, snapshot: ExecSnapshot | Repeated, outcome: Outcome
    ) -> None:
        match outcome:
            case Refused(errno.ESRCH):
                pass  # it died before it could be watched
            case Refused() if not self._confined:
                self._listener.resume(notification)
            case Refused(number):
                reason = f"ptrace refuses to watch it: {os.strerror(number)}"
                self._record(snapshot, reason)
                self._listener.fail(notification, errno.EACCES)
            case Resumed.KILLED | Turned.KILLED:
                self._record(snapshot, "it executed something else than was judged: killed")
            case Resumed.EXECUTED:
                self.watched += 1
            case _:
                pass
        snapshot.close()
        see_buried()
        for waiting in self._waiting.pop(snapshot.tgid):
            self._read(waiting)

    def _record(self, snapshot: ExecSnapshot | Repeated, reason: str) -> None:
        self._context.record(Verdict(snapshot.file, snapshot.argv, "deny", reason))
