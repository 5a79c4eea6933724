"""The first process of a command: asked of a spawner, and followed to its end.

What matters of it is the kernel's to tell: which process it is, that it has ended, and, where its
spawner says nothing, how. A spawner is in the sandbox's domain, and may be killed or stopped.
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Sequence

from codex_multitool.interception.listener import Notification
from codex_multitool.keeper import pidfd
from codex_multitool.keeper.spawners import LostError, Spawner
from codex_multitool.launcher import spawner as words
from codex_multitool.launcher import tree
from codex_multitool.launcher.spawn import NotStartedError, not_started
from codex_multitool.loop import Event, Loop, Timer

_BEGIN_SECONDS = 10.0  # until a command has been begun
_DOUBT_SECONDS = 1.0  # until the kernel is asked for its end
_SILENCE_SECONDS = 0.5  # until a spawner has told of an end that the kernel told
_MOST = 0xFFFF  # of a wait status


class Shell:
    """pid: 0 before it has begun. status: as wait(2) has it, once `ended` is set.

    lost: its spawner went before, and nothing was executed. failure: why it could not be. began:
    called once. reap: looks which children have ended. limits: its own, as prlimit(2) takes them,
    for when the kernel holds its exec.
    """

    def __init__(
        self,
        loop: Loop,
        spawner: Spawner,
        began: Callable[[], None],
        reap: Callable[[], None],
        limits: Callable[[], Sequence[tuple[int, int, int]]],
    ) -> None:
        self._loop = loop
        self._spawner = spawner
        self._began = began
        self._reap = reap
        self._limits = limits
        self._pidfd = -1
        self._timer: Timer | None = None
        self._signals: list[int] = []  # that came too soon
        self._here = False
        self.pid = 0
        self.status = 0
        self.lost = False
        self.failure: NotStartedError | None = None
        self.ended = Event()

    def start(self, request: bytes, fds: Sequence[int]) -> None:
        """Have it started."""
        try:
            self._spawner.tell(request, fds)
        except LostError:
            self._lost()
            return
        self._loop.watch(self._spawner.number, self._heard)
        self._set_timer(_BEGIN_SECONDS, self.lose)

    def first(self, notification: Notification) -> bool:
        """Whether an exec is the one by which it starts: its spawner's only child does it."""
        if self.pid or not self._spawner.has_only(notification.tid):
            return False
        # Each command has its own, and its spawner could not lift what it had set for another.
        for kind, _, most in self._limits():
            _limit(notification.tid, kind, most)
        self._begin(notification.tid)
        return True

    def reaped(self, pid: int, status: int) -> None:
        """A child was waited for: its spawner, or this one, whose spawner has gone, then."""
        if pid == self.pid:
            self._end(status)
        elif pid == self._spawner.pid and not self.ended.is_set:
            self._orphaned()

    def signal(self, number: int) -> None:
        """Send its process group a signal, as soon as there is one, until it has ended."""
        if not self.pid:
            self._signals.append(number)
        elif self._here and not self.ended.is_set:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                pass  # it has just ended, or is a setuid program that is not ours to signal

    def close(self) -> None:
        """Follow it no longer."""
        self._unwatch()
        self._set_timer(0, None)
        if self._pidfd >= 0:
            self._loop.forget(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _set_timer(self, seconds: float, call: Callable[[], None] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if call is None else self._loop.at(time.monotonic() + seconds, call)

    def _begin(self, pid: int, *, here: bool = True) -> None:
        """here: it has not ended, or nobody has waited for it."""
        self.pid = pid
        self._here = here
        try:
            if here:
                self._pidfd = os.pidfd_open(pid)
        except OSError:
            pass  # no descriptor is to be had
        # Most end before anybody needs to doubt that their spawner will say so.
        self._set_timer(_DOUBT_SECONDS, self._follow)
        self._began()
        for number in self._signals:
            self.signal(number)

    def _heard(self, _: int) -> None:
        match self._spawner.hear():
            case (words.ENDED, status, _) if self._may_have_ended(status):
                self._end(status)
            case (words.NOT_STARTED, number, name):
                self.failure = not_started(number, name)
                self._end(0)
            case (words.STARTED, pid, _) if self._may_be(pid):
                # One that has ended may be another by now: then only its end is left to be told.
                self._begin(pid, here=tree.parent(pid) == self._spawner.pid)
            case _:
                self.lose()

    def _may_be(self, pid: int) -> bool:
        """Whether this may have been started by a spawner that has no listener to tell of it."""
        if self.pid or self._spawner.listener is not None or pid <= 1:
            return False
        return tree.parent(pid) != os.getpid()  # whose children are not a spawner's that is there

    def _may_have_ended(self, status: int) -> bool:
        return (
            self.pid > 0
            and 0 <= status <= _MOST
            and (os.WIFEXITED(status) or os.WIFSIGNALED(status))
            and self._is_waited_for()
        )

    def _is_waited_for(self) -> bool:
        if not self._here:
            return True
        return pidfd.is_waited_for(self._pidfd) if self._pidfd >= 0 else not _exists(self.pid)

    def _orphaned(self) -> None:
        """What a spawner leaves is our child, unless that has waited for it, and died upon it."""
        if not self.pid:
            self.lose()
            return
        if self._is_waited_for():
            status = None if self._pidfd < 0 else pidfd.wait_status(self._pidfd)
            self._end(signal.SIGKILL if status is None else status)

    def lose(self) -> None:
        """Its spawner is gone, or not to be trusted."""
        self._unwatch()
        self._spawner.give_up()
        if self.pid:
            self._reap()  # it is our child from now on
        elif self._spawner.listener is not None:
            self._lost()  # nothing was executed, or we would know
        else:
            self.failure = NotStartedError("the process that starts commands was ended meanwhile")
            self._end(signal.SIGKILL)

    def _lost(self) -> None:
        self.lost = True
        self._end(signal.SIGKILL)

    def _follow(self) -> None:
        """From here on the kernel tells of its end, too."""
        if self._pidfd < 0:
            self._has_gone()
        else:
            self._loop.watch(self._pidfd, self._has_gone)

    def _has_gone(self, _: int = 0) -> None:
        if self._pidfd >= 0:
            self._loop.forget(self._pidfd)
        self._set_timer(_SILENCE_SECONDS, self.lose)

    def _end(self, status: int) -> None:
        if not self.ended.is_set:
            self.status = status
            self._spawner.disown()
            self.ended.set()
            self.close()

    def _unwatch(self) -> None:
        self._loop.forget(self._spawner.number)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # a setuid program
    return True


def _limit(pid: int, kind: int, most: int) -> None:
    """Set both limits of a process; a hard limit is not raised: prlimit(2). Raises OSError."""
    before = resource.prlimit(pid, kind)[1]
    if before != resource.RLIM_INFINITY:
        most = min(most, before)
    resource.prlimit(pid, kind, (most, most))
