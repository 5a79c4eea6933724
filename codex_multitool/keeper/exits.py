"""How the processes of a command end that executed something, told to a front that traces them."""

import os
import time

from codex_multitool.keeper import pidfd, protocol
from codex_multitool.keeper.front import Front
from codex_multitool.loop import Loop, Running, Task, Wait, sleep

_MAX_WATCHED = 512  # descriptors, one per living process
_PAUSES = (0.001, 0.01, 0.1, 1.0)  # for a parent to wait for its child


class Exits:
    """Those of one command."""

    def __init__(self, loop: Loop, front: Front) -> None:
        self._loop = loop
        self._front = front
        self._followed: dict[int, tuple[int, Running]] = {}

    def follow(self, pid: int) -> None:
        """Tell when this process ends, unless that is to be told already."""
        if pid in self._followed or len(self._followed) >= _MAX_WATCHED:
            return
        descriptor = pidfd.open_process(pid)
        if descriptor is not None:
            self._followed[pid] = descriptor, self._loop.start(self._until_ended(pid, descriptor))

    def close(self) -> None:
        """Tell the last there are to be told; no process is left."""
        for pid, (descriptor, running) in list(self._followed.items()):
            running.cancel()
            self._tell(pid, descriptor)

    def _until_ended(self, pid: int, descriptor: int) -> Task[None]:
        yield Wait(readable=descriptor)
        status = pidfd.zombie_status(pid)  # all there is before Linux 6.15
        ended = time.monotonic()
        for pause in _PAUSES:
            found = pidfd.wait_status(descriptor)
            if found is not None:
                status = found
                break
            # Its parent has to reap it first.
            yield from sleep(pause)
        self._tell(pid, descriptor, status, ended)

    def _tell(
        self, pid: int, descriptor: int, status: int | None = None, ended: float | None = None
    ) -> None:
        if status is None:
            status = pidfd.wait_status(descriptor)
        os.close(descriptor)
        # The number may be another's from now on.
        del self._followed[pid]
        when = time.monotonic() if ended is None else ended
        self._front.tell(protocol.Exited(pid, status, when))
