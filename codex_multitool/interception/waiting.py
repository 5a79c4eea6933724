"""How held threads are waited for: a moment in place, longer as a task beside others."""

import os
import signal
import time
from collections.abc import Callable
from typing import TypeVar

from codex_multitool.interception.exec_stop import Awaited, Steps
from codex_multitool.interception.hold import bury
from codex_multitool.interception.listener import Notification
from codex_multitool.loop import Event, Loop, Running, Task, Timer, Wait

# A caller stops, or executes, within some hundred microseconds: waiting for that costs less than
# doing something else meanwhile. One that takes longer is waited for in a task of its own.
AT_ONCE_SECONDS = 0.003
_AGAIN_SECONDS = 0.005  # until a task looks again though nothing was told
_REAP_SECONDS = 0.01  # until it is looked whether a child ended just when a thread stopped
_CHILD = frozenset({signal.SIGCHLD})  # tells a tracer of a stop: ptrace(2)
# Of what did not end: an exec stop, and one that was asked for by PTRACE_INTERRUPT.
STOPS = frozenset({os.CLD_TRAPPED, os.CLD_STOPPED})

T = TypeVar("T")


class Children:
    """Whoever waits for children or held threads hears here that something happened to one.

    This process has SIGCHLD blocked; who takes one, its loop or `wait`, calls `tell`. reap: looks
    which children have ended; called amid the judging, so it sets events and does no more.
    """

    def __init__(self, loop: Loop, reap: Callable[[], None]) -> None:
        self._loop = loop
        self._reap = reap
        self._news = Event()
        self._reaping: Timer | None = None
        self._burying: Running | None = None

    def tell(self) -> None:
        """A SIGCHLD was taken, or something may have happened to a child all the same."""
        if self._reaping is not None:
            self._reaping.cancel()
            self._reaping = None
        self._reap()
        self.wake()

    def wake(self) -> None:
        """Let the tasks that wait look again."""
        news, self._news = self._news, Event()
        news.set()

    def wait(self, seconds: float) -> None:
        """Do nothing until a SIGCHLD comes, for no longer than `seconds`."""
        found = signal.sigtimedwait(_CHILD, seconds)
        if found is None:
            return
        if found.si_code in STOPS:
            self.stopped()
        else:
            self.tell()

    def stopped(self) -> None:
        """A SIGCHLD was taken that tells of a stop.

        One may stand for many, signal(7), but hardly ever does; every exec comes by here.
        """
        self.wake()
        self.again()

    def again(self) -> None:
        """See to it that `tell` is called soon."""
        if self._reaping is None:
            self._reaping = self._loop.at(time.monotonic() + _REAP_SECONDS, self.tell)

    def news(self) -> Wait:
        """For a task to wait for, before it looks again."""
        return Wait(event=self._news, until=time.monotonic() + _AGAIN_SECONDS)

    def advance(self, steps: Steps[T]) -> T | None:
        """Drive for as long as waiting in place is worth it; None if it is not through by then."""
        limit = time.monotonic() + AT_ONCE_SECONDS
        while True:
            try:
                steps.send(None)
            except StopIteration as stop:
                outcome: T = stop.value
                return outcome
            left = limit - time.monotonic()
            if left <= 0:
                return None
            self.wait(left)

    def drive(
        self, steps: Steps[T], second: list[Notification] | None = None, *, at_once: float = 0.0
    ) -> Task[T]:
        """Drive to the end. second: where the thread's next notifications are put, before `wake`.

        at_once: seconds for which nothing else is done while a held thread is waited for.
        """
        limit = time.monotonic() + at_once
        sent: Notification | None = None
        try:
            while True:
                try:
                    awaited = steps.send(sent)
                except StopIteration as stop:
                    outcome: T = stop.value
                    return outcome
                sent = None
                if awaited is Awaited.STOP and (left := limit - time.monotonic()) > 0:
                    self.wait(left)
                    continue
                wanted = second if awaited is Awaited.NOTIFICATION else None
                if not wanted:
                    yield self.news()
                if wanted:
                    sent = wanted.pop(0)
        finally:
            steps.close()

    def see_buried(self) -> None:
        """See to the zombies of what was killed in passing, whether or not anything executes again.

        Their parents, and the end of their command, wait for that.
        """
        if bury() and (self._burying is None or self._burying.done.is_set):
            self._burying = self._loop.start(self._until_buried())

    def _until_buried(self) -> Task[None]:
        while bury():
            yield self.news()
