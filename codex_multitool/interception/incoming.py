"""The notifications of one listener: received at once, dealt with by turns."""

import errno
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from codex_multitool.interception.exec_stop import Steps
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Absent, Listener, Notification
from codex_multitool.interception.waiting import AT_ONCE_SECONDS, Children
from codex_multitool.loop import Event, Loop, Running, Task, Wait

_MOST_RECEIVED = 64  # before they are dealt with
_LAST_ROUNDS = 64

T = TypeVar("T")


class Incoming:
    """Hands on what comes to `deal`, which never waits for long.

    ended: set when no process is left under the filter.
    """

    def __init__(
        self,
        loop: Loop,
        listener: Listener,
        children: Children,
        deal: Callable[[Notification], None],
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._children = children
        self._deal = deal
        self._received: deque[Notification] = deque()
        self._dealing: Running | None = None
        # By thread, where the execs go that a redirection makes it do.
        self._redirected: dict[int, list[Notification]] = {}
        self.ended = Event()

    def attend(self, events: int = 0) -> None:
        """Receive what waits, and deal with the first; between the others the loop turns.

        events: as poll(2) told them of the listener, which nobody has read since; 0 asks it.
        """
        self._receive(events)
        if self._received:
            self._next()
        if self._received:
            self.later(())

    def later(self, notifications: Iterable[Notification]) -> None:
        """Deal with these, too, by turns."""
        self._received.extend(notifications)
        if self._received and (self._dealing is None or self._dealing.done.is_set):
            self._dealing = self._loop.start(self._by_turns())

    def redirect(self, steps: Steps[T], tid: int) -> Task[T]:
        """Drive steps that want the next notifications of their thread."""
        second: list[Notification] = []
        self._redirected[tid] = second
        try:
            return (yield from self._children.drive(steps, second, at_once=AT_ONCE_SECONDS))
        finally:
            del self._redirected[tid]
            self.later(second)  # by another thread, to which the number has gone since

    def close(self) -> None:
        """Fail whatever has come, as a listener that has gone would; the listener stays."""
        if self._dealing is not None:
            self._dealing.cancel()
        for _ in range(_LAST_ROUNDS):
            self._receive(0)
            if not self._received:
                break
            while self._received:
                fail(self._listener, self._received.popleft(), errno.ENOSYS)
        self._deal = _nobody  # who knows us; a ring would stay in memory

    def _receive(self, events: int) -> None:
        """A handler that runs before makes the caller's execve fail with EINTR, after it waits."""
        while len(self._received) < _MOST_RECEIVED:
            found = self._listener.receive(events)
            events = 0
            if found is Absent.NOTHING:
                return
            if found is Absent.ENDED:
                self._loop.forget(self._listener.fd)  # poll(2) would tell of it for ever
                self.ended.set()
                return
            if not isinstance(found, Notification):
                continue
            if found.tid in self._redirected:
                self._redirected[found.tid].append(found)
                self._children.wake()
            else:
                self._received.append(found)

    def _by_turns(self) -> Task[None]:
        while self._received:
            self._next()
            yield Wait(until=0.0)

    def _next(self) -> None:
        notification = self._received.popleft()
        try:
            self._deal(notification)
        except BaseException:
            fail(self._listener, notification)  # nobody else will answer it
            raise


def _nobody(_: Notification) -> None:
    raise AssertionError("nobody deals with what comes any more")


def fail(listener: Listener, notification: Notification, number: int = errno.EACCES) -> None:
    """Answer with this errno, unless there is an answer on its way already (EINPROGRESS)."""
    with suppress(KernelError):
        listener.fail(notification, number)
