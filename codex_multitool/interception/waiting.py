"""How an event loop waits for held threads: a moment in place, longer beside other work."""

import signal
import time
from typing import TypeVar

import trio

from codex_multitool.interception.exec_stop import Steps
from codex_multitool.interception.hold import bury

# A caller stops, or executes, within some hundred microseconds: waiting for that costs less than
# doing something else meanwhile. One that takes longer is waited for in a task of its own.
AT_ONCE_SECONDS = 0.003
PAUSE_SECONDS = 0.0005
_CHILD = frozenset({signal.SIGCHLD})  # tells a tracer of a stop: ptrace(2)

T = TypeVar("T")

_at_work: set[int] = set()


def wake_on_children(user: object) -> None:
    """Block SIGCHLD in this thread, which `await_child` waits for, until `wake_no_more`."""
    _at_work.add(id(user))
    signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD)


def wake_no_more(user: object) -> None:
    """Unblock it, unless others still wait."""
    _at_work.discard(id(user))
    if not _at_work:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CHILD)


def await_child(seconds: float) -> None:
    """Do nothing until a held thread stops or ends, for no longer than `seconds`."""
    signal.sigtimedwait(_CHILD, seconds)


def advance(steps: Steps[T]) -> T | None:
    """Drive for as long as waiting is worth it; None if it is not through by then."""
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
        await_child(left)


def see_buried() -> None:
    """See to the zombies of what was killed in passing, whether or not anything executes again.

    Their parents, and the end of their command, wait for that. It may come after the command's
    supervisor has ended: the loop does it.
    """
    if bury():
        trio.lowlevel.spawn_system_task(_until_buried)


async def _until_buried() -> None:
    while bury():  # noqa: ASYNC110 - no event tells of the end of another's child
        await trio.sleep(PAUSE_SECONDS)
