"""Tasks of the plain loop, see `loop`, driven by the server's own."""

import time
from typing import TypeVar

import trio

from codex_multitool.loop import Event, Task, Wait

T = TypeVar("T")


async def drive(task: Task[T]) -> T:
    """Run a task to its end; it may wait for events and times, and for no descriptor."""
    came: bool | None = None
    try:
        while True:
            # A generator that has not begun takes only None.
            wait = task.send(came)  # type: ignore[arg-type]
            came = await _over(wait)
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        task.close()


async def _over(wait: Wait) -> bool:
    """Whether it came, once it has or its time has passed."""
    assert wait.readable == wait.writable == -1, "descriptors are for the plain loop"
    event = wait.event or Event()
    if event.is_set:
        return True
    came = trio.Event()
    event.on_set(came.set)
    try:
        with trio.move_on_after(max(wait.until - time.monotonic(), 0.0)):
            await came.wait()
    finally:
        event.forget(came.set)
    return event.is_set
