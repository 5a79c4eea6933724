"""Tasks that say what they wait for, and one plain poll(2) loop that drives them all.

A task is a generator: it yields a `Wait` and gets back whether that came (False: its time passed).
There is one thread and no lock: between two yields nothing else happens. Closing a task is how it
is cancelled; what it has to undo then, it undoes at once.
"""

import heapq
import select
import time
from collections import deque
from collections.abc import Callable, Generator
from math import ceil, inf
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_MILLISECOND = 1000
_MANY = 64


class Event:
    """Something that happens once."""

    __slots__ = ("_wake", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._wake: list[Callable[[], None]] = []

    def set(self) -> None:
        """It has happened: whoever waits for it goes on."""
        self.is_set = True
        wake, self._wake = self._wake, []
        for call in wake:
            call()

    def on_set(self, call: Callable[[], None]) -> None:
        """Call this when it happens, which it has not; `forget` takes that back."""
        self._wake.append(call)

    def forget(self, call: Callable[[], None]) -> None:
        """Do not call this any more."""
        if call in self._wake:
            self._wake.remove(call)


class Wait(NamedTuple):
    """What a task waits for: the first of these. Descriptors as poll(2) has them ready.

    until: of time.monotonic(), in seconds.
    """

    readable: int = -1
    writable: int = -1
    event: Event | None = None
    until: float = inf


Task = Generator[Wait, bool, T]


def sleep(seconds: float) -> Task[None]:
    """Nothing, for so long."""
    yield Wait(until=time.monotonic() + seconds)


def beside(task: Task[T], work: Callable[[], None]) -> Task[T]:
    """A task, and work that is done as soon as it waits, or has come to its end without."""
    try:
        wait = next(task)
    except StopIteration as end:
        work()
        found: T = end.value
        return found
    try:
        work()
        while True:
            try:
                wait = task.send((yield wait))
            except StopIteration as end:
                found = end.value
                return found
    finally:
        task.close()


class Timer:
    """A call that is due at a time."""

    __slots__ = ("_loop", "call")

    def __init__(self, loop: "Loop", call: Callable[[], None]) -> None:
        self._loop = loop
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Call it not, if it has not been called."""
        if self.call is not None:
            self.call = None
            self._loop.timer_cancelled()


class Running:
    """A task in a loop. done: set when it has ended, by itself or cancelled."""

    def __init__(self, loop: "Loop", task: Task[None]) -> None:
        self._loop = loop
        self._task = task
        self._wait = Wait()
        self._timer: Timer | None = None
        self.done = Event()

    def cancel(self) -> None:
        """Close it, unless it has ended."""
        if not self.done.is_set:
            self._stand_down()
            self._task.close()
            self.done.set()

    def go_on(self, came: bool | None) -> None:
        """Let it run to its next wait. came: None to begin."""
        if self.done.is_set:
            return
        while True:
            try:
                # A generator that has not begun takes only None.
                wait = self._task.send(came)  # type: ignore[arg-type]
            except BaseException as end:
                self.done.set()
                if isinstance(end, StopIteration):
                    return
                raise
            if wait.event is None or not wait.event.is_set:
                break
            came = True
        self._wait = wait
        self._stand_by()

    def came(self, _: int = 0) -> None:
        """What it waits for has come."""
        self._stand_down()
        self._loop.soon(self, came=True)

    def passed(self) -> None:
        """The time for which it waits has passed."""
        self._stand_down()
        self._loop.soon(self, came=False)

    def _stand_by(self) -> None:
        wait = self._wait
        if wait.readable >= 0:
            self._loop.watch(wait.readable, self.came)
        if wait.writable >= 0:
            self._loop.watch(wait.writable, self.came, select.POLLOUT)
        if wait.event is not None:
            wait.event.on_set(self.came)
        if wait.until < inf:
            self._timer = self._loop.at(wait.until, self.passed)

    def _stand_down(self) -> None:
        wait, self._wait = self._wait, Wait()
        for descriptor in (wait.readable, wait.writable):
            if descriptor >= 0:
                self._loop.forget(descriptor)
        if wait.event is not None:
            wait.event.forget(self.came)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Loop:
    """Drives tasks, and calls who watches a descriptor, one watcher for each."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watchers: dict[int, Callable[[int], None]] = {}
        self._ready: deque[tuple[Running, bool | None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = self._cancelled = 0

    def watch(
        self, descriptor: int, call: Callable[[int], None], events: int = select.POLLIN
    ) -> None:
        """Call this, with the events, whenever poll(2) tells of the descriptor."""
        assert descriptor not in self._watchers, f"{descriptor} is watched already"
        self._watchers[descriptor] = call
        self._poll.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Watch a descriptor no longer; to be called before it is closed."""
        if self._watchers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def start(self, task: Task[None]) -> Running:
        """Run a task, from the next turn on."""
        running = Running(self, task)
        self.soon(running, came=None)
        return running

    def soon(self, running: Running, *, came: bool | None) -> None:
        """Let a task go on in the next turn."""
        self._ready.append((running, came))

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call this once, when time.monotonic() is `when`."""
        self._numbers += 1
        timer = Timer(self, call)
        heapq.heappush(self._timers, (when, self._numbers, timer))
        return timer

    def timer_cancelled(self) -> None:
        """One of the timers is; they are thrown away when they are many."""
        self._cancelled += 1
        if self._cancelled > _MANY and self._cancelled > len(self._timers) // 2:
            self._timers = [it for it in self._timers if it[2].call is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def turn(self) -> None:
        """One turn: what is ready, or what comes next if nothing is. Tasks' errors are raised."""
        for descriptor, events in self._poll.poll(self._patience()):
            watcher = self._watchers.get(descriptor)
            if watcher is not None:  # else another has just forgotten it
                watcher(events)
        if self._timers:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                timer = heapq.heappop(self._timers)[2]
                call, timer.call = timer.call, None
                if call is None:
                    self._cancelled -= 1
                else:
                    call()
        for _ in range(len(self._ready)):
            running, came = self._ready.popleft()
            running.go_on(came)

    def _patience(self) -> int | None:
        """Milliseconds until something is due; None: nothing ever is."""
        if self._ready:
            return 0
        if not self._timers:
            return None
        return max(ceil((self._timers[0][0] - time.monotonic()) * _MILLISECOND), 0)

    def run(self, until: Event) -> None:
        """Turn until this has happened."""
        while not until.is_set:
            self.turn()

    def result(self, task: Task[T]) -> T:
        """Run a task to its end, beside all others; what it returns, or raises."""
        found: list[T] = []

        def kept() -> Task[None]:
            found.append((yield from task))

        self.run(self.start(kept()).done)
        return found[0]
