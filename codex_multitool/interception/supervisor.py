"""One command's execs in kernel mode: notification, snapshot, verdict, answer.

All of it happens in one thread, the only one that may use ptrace here. What takes time — a
question, an escalated program, a caller slow to stop — goes on as a task of the loop, and other
execs do not wait for it.
"""

import errno
import os
from collections.abc import Callable
from functools import partial

from codex_multitool.escalation.context import Context, Settled, conclude, settle
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
from codex_multitool.escalation.question import Verdict
from codex_multitool.interception.descriptors import say
from codex_multitool.interception.escalate import Escalation, request_of
from codex_multitool.interception.exec_stop import Expected, Resumed, Steps, resume_checked
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.incoming import Incoming, fail
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Listener, Notification
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
    read_exec,
    read_known,
)
from codex_multitool.interception.waiting import Children
from codex_multitool.loop import Event, Running, Task

_DENIED_STATUS = 1
_STDERR = 2
_RUN = Run()
_MAX_HELD = 256  # each takes a dozen descriptors of ours, and up to 6 MiB


Outcome = Resumed | Turned | Refused


class _Held:
    """A process with an exec under way, one at a time (see `hold`).

    steps, task: what goes on. waiting: the execs of its other threads.
    """

    __slots__ = ("notification", "snapshot", "steps", "task", "waiting")

    def __init__(self, notification: Notification, snapshot: ExecSnapshot | Repeated) -> None:
        self.notification = notification
        self.snapshot = snapshot
        self.steps: Steps[Outcome] | None = None
        self.task: Running | None = None
        self.waiting: list[Notification] = []


class Supervisor:
    """Judges one command's execs under a listener that serves others before and after.

    confined: whether the tree is in a sandbox; outside one, an exec that cannot be watched (its
    process is being debugged, say) is let through. first: whether an exec is the one by which the
    command's shell starts; until it was, there is no other. watched: execs seen through to their
    exec stop.
    """

    def __init__(
        self,
        context: Context,
        listener: Listener,
        children: Children,
        *,
        confined: bool,
        precedents: Precedents,
        first: Callable[[Notification], bool],
    ) -> None:
        self._context = context
        self._listener = listener
        self._children = children
        self._confined = confined
        self._precedents = precedents
        self._first = first
        self._started = False
        self._held: dict[int, _Held] = {}  # by process
        self._incoming = Incoming(context.loop, listener, children, self._notified)
        self.watched = 0

    @property
    def ended(self) -> Event:
        """Set when no process is left under the filter."""
        return self._incoming.ended

    def attend(self, events: int = 0) -> None:
        """Judge what waits. events: as poll(2) told them of the listener in this turn."""
        # Before the first exec, what it told may have been taken by the `close` of another.
        self._incoming.attend(events if self._started else 0)

    def close(self) -> None:
        """Fail whatever is held or waits, as if the listener had gone. Not amid the judging."""
        while self._held:
            self._drop(self._held.popitem()[1])
        self._incoming.close()
        self._children.see_buried()

    def _notified(self, notification: Notification) -> None:
        try:
            if self._started:
                self._read(notification)
            else:
                self._begin(notification)
        except (KernelError, OSError) as error:
            self._lost(self._holding(notification), notification, error)

    def _begin(self, notification: Notification) -> None:
        if self._first(notification):
            self._started = True
            self._listener.resume(notification)
        else:
            self._context.record(Verdict("?", (), "deny", "it came before the command's shell"))
            fail(self._listener, notification)

    def _read(self, notification: Notification) -> None:
        if len(self._held) >= _MAX_HELD:
            self._context.note(f"execs failed: {_MAX_HELD} of this command were held already")
            fail(self._listener, notification, errno.EAGAIN)
            return
        precedents = self._precedents
        architecture = self._listener.architecture
        snapshot = read_known(architecture, notification, self._known) or read_exec(
            self._listener, notification, precedents.known
        )
        if isinstance(snapshot, Gone):
            return
        if isinstance(snapshot, Unreadable):
            self._unread(notification, snapshot)
        elif snapshot.tgid in self._held:
            snapshot.close()
            self._held[snapshot.tgid].waiting.append(notification)
        elif isinstance(snapshot, Repeated):
            held = self._held[snapshot.tgid] = _Held(notification, snapshot)
            self._again(held, snapshot)
        elif snapshot.errno is not None:
            snapshot.close()
            fail(self._listener, notification, snapshot.errno)
        else:
            held = self._held[snapshot.tgid] = _Held(notification, snapshot)
            self._judge(held, snapshot)

    def _known(self, path: bytes, said: bytes) -> Expected | None:
        """What an execve(2) is of, by what was judged before; None: all of it has to be read."""
        known = self._precedents.knows(path, said)
        if known is not None:
            return known
        request = self._precedents.like(path, said)
        if request is None or decide(self._context.judgement, request) != _RUN:
            return None
        return self._precedents.learn_like(path, said)

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
        fail(self._listener, notification)

    def _again(self, held: _Held, repeated: Repeated) -> None:
        """The verdict of an exec like one before."""
        denied = self._precedents.denied(*repeated.said)
        if denied is None:
            self._resume(held)
        elif not self._listener.valid(held.notification):
            self._finish(held, Turned.GONE)
        else:
            request, verdict = denied
            conclude(self._context, request, verdict)
            self._deny(held, repeated, verdict.reason)

    def _judge(self, held: _Held, snapshot: ExecSnapshot) -> None:
        try:
            request, verdict = self._decide(snapshot)
        except (KernelError, OSError) as error:
            # It costs this exec, and no other: files may go, or none be to be had, at any moment.
            self._record(snapshot, f"this exec could not be judged: {error}")
            fail(self._listener, held.notification)
            self._finish(held, Turned.GONE)
            return
        if snapshot.flags & AT_EXECVE_CHECK:
            self._check_only(held, verdict)
            return
        if self._confined and isinstance(verdict, Run) and snapshot.expected.unseen:
            # What such a program is could not be seen at its exec stop either.
            verdict = Deny(f"{snapshot.file} cannot be read, so it cannot be judged")
        if isinstance(verdict, Deny):
            conclude(self._context, request, verdict)
            self._traced(snapshot, request, verdict, verdict)
            self._deny(held, snapshot, verdict.reason)
        elif isinstance(verdict, Run) and verdict.note is None:
            self._traced(snapshot, request, verdict, verdict)
            self._resume(held)
        else:
            self._start(held, self._answer(held, snapshot, request, verdict))

    def _decide(self, snapshot: ExecSnapshot) -> tuple[ExecRequest, Decided]:
        facts = facts_of(snapshot)
        before = self._precedents.judged(facts)
        if before is not None:
            return before
        request = request_of(snapshot, self._context)
        verdict = self._precedents.decided(request)
        if verdict is not None:
            return request, verdict
        verdict = decide(self._context.judgement, request)
        self._precedents.learn(facts, snapshot, request, verdict)
        return request, verdict

    def _traced(
        self, snapshot: ExecSnapshot, request: ExecRequest, decided: Decided, settled: Settled
    ) -> None:
        if self._context.trace is not None:
            self._context.trace(snapshot.tgid, request, decided, settled)

    def _check_only(self, held: _Held, verdict: Decided) -> None:
        """Answer an execveat(2) that only asks whether it might: nothing runs by it."""
        if isinstance(verdict, Deny):
            fail(self._listener, held.notification)
        else:
            self._listener.resume(held.notification)
        self._finish(held, Resumed.RETURNED)

    def _resume(self, held: _Held) -> None:
        snapshot = held.snapshot
        steps = resume_checked(self._listener, held.notification, snapshot.tgid, snapshot.expected)
        self._follow(held, steps)

    def _follow(self, held: _Held, steps: Steps[Outcome]) -> None:
        """See an answer through: in place if that takes but a moment."""
        try:
            outcome = self._children.advance(steps)
        except (KernelError, OSError) as error:
            self._lost(held, held.notification, error)
            return
        if outcome is None:
            held.steps = steps
            self._start(held, self._see_through(held, steps))
        else:
            self._finish(held, outcome)

    def _start(self, held: _Held, task: Task[None]) -> None:
        held.task = self._context.loop.start(self._guarded(held, task))

    def _guarded(self, held: _Held, task: Task[None]) -> Task[None]:
        try:
            yield from task
        except (KernelError, OSError) as error:
            self._lost(held, held.notification, error)

    def _see_through(self, held: _Held, steps: Steps[Outcome]) -> Task[None]:
        self._finish(held, (yield from self._children.drive(steps)))

    def _answer(
        self, held: _Held, snapshot: ExecSnapshot, request: ExecRequest, verdict: Decided
    ) -> Task[None]:
        if leaves_untrusted(request, verdict):
            assert snapshot.program is not None, "what is judged has a program"
            try:
                snapshot = snapshot._replace(program=sealed(snapshot.program))
                held.snapshot = snapshot
            except OSError as error:
                verdict = unfixed(request, error)
        program = snapshot.program
        notification, drive = held.notification, self._incoming.redirect
        with Escalation(self._context, self._listener, notification, snapshot, drive) as escalation:
            settled, absence = yield from settle(
                self._context,
                request,
                verdict,
                of_own_shell=lambda shell: shell.includes(snapshot.tgid),
                unchanged=lambda: program is not None and program.unchanged(),
                workdir=snapshot.workdir,
                leaving=lambda: escalation.leaving(request),
            )
            self._traced(snapshot, request, verdict, settled)
            if isinstance(settled, Escalate):
                yield from escalation.run(settled.called(snapshot.argv), absence)
        match settled:
            case Run():
                self._resume(held)
            case Deny(reason=reason):
                self._deny(held, snapshot, reason)
            case Escalate():
                self._finish(held, Turned.DONE)

    def _deny(self, held: _Held, snapshot: ExecSnapshot | Repeated, reason: str) -> None:
        notification = held.notification
        text = os.fsencode(f"Execution denied: {reason}\n")
        valid = partial(self._listener.valid, notification)
        said = say(notification.tid, _STDERR, text, valid=valid)
        if said == len(text):
            steps = refused(self._listener, notification, snapshot.tgid, _DENIED_STATUS)
            self._follow(held, steps)
        else:
            rest = os.fsdecode(text[said:-1])
            self._start(held, self._deny_by_script(held, snapshot, rest))

    def _deny_by_script(
        self, held: _Held, snapshot: ExecSnapshot | Repeated, text: str
    ) -> Task[None]:
        """Let the caller itself say it: it can wait until its stderr takes it."""
        notification = held.notification
        steps: Steps[Outcome]
        try:
            told = denial(self._listener, notification, snapshot.tgid, text, _DENIED_STATUS)
            steps = redirect(self._listener, notification, snapshot, told)
        except (UnavailableError, KernelError, OSError):
            # No sh to say it in: the status alone, then; the result has the reason.
            steps = end(self._listener, notification, snapshot.tgid, _DENIED_STATUS)
        outcome = yield from self._incoming.redirect(steps, notification.tid)
        if isinstance(outcome, Refused):
            fail(self._listener, notification)
        self._finish(held, Turned.DONE)

    def _finish(self, held: _Held, outcome: Outcome) -> None:
        snapshot = held.snapshot
        match outcome:
            case Resumed.EXECUTED:
                self.watched += 1
            case Refused(errno.ESRCH):
                pass  # it died before it could be watched
            case Refused() if not self._confined:
                self._listener.resume(held.notification)
            case Refused(number):
                reason = f"ptrace refuses to watch it: {os.strerror(number)}"
                self._record(snapshot, reason)
                fail(self._listener, held.notification)
            case Resumed.KILLED | Turned.KILLED:
                self._record(snapshot, "it executed something else than was judged: killed")
            case _:
                pass
        del self._held[snapshot.tgid]
        snapshot.close()
        self._children.see_buried()
        if held.waiting:
            self._incoming.later(held.waiting)

    def _holding(self, notification: Notification) -> _Held | None:
        held = (held for held in self._held.values() if held.notification is notification)
        return next(held, None)

    def _lost(
        self, held: _Held | None, notification: Notification, error: KernelError | OSError
    ) -> None:
        """A step failed as none should: what it held has been killed, and it costs no other."""
        reason = f"this exec could not be watched: {error}"
        fail(self._listener, notification)
        if held is None:
            self._context.record(Verdict("?", (), "deny", reason))
        elif self._held.get(held.snapshot.tgid) is held:  # else it is dropped
            self._record(held.snapshot, reason)
            self._finish(held, Turned.GONE)

    def _drop(self, held: _Held) -> None:
        """Leave off. What has not begun cannot clean up itself."""
        if held.task is not None:
            held.task.cancel()
        if held.steps is not None:
            held.steps.close()
        for notification in (held.notification, *held.waiting):
            fail(self._listener, notification, errno.ENOSYS)
        held.snapshot.close()

    def _record(self, snapshot: ExecSnapshot | Repeated, reason: str) -> None:
        self._context.record(Verdict(snapshot.file, snapshot.argv, "deny", reason))
