"""The end of one command's processes: when none is left, and how all are made to end."""

import signal
import time

from codex_multitool.interception.waiting import Children
from codex_multitool.keeper.processes import Processes
from codex_multitool.keeper.shell import Shell
from codex_multitool.loop import Event, Loop, Running, Task, Wait

_GRACE_SECONDS = 0.5  # between SIGTERM and SIGKILL
_KILL_ROUND_SECONDS = 0.002  # between two rounds of killing: time for exits to be reaped
_LOOK_SECONDS = 0.2  # between looks at what is left, should no signal tell of its end


class Ending:
    """over: set when the shell has ended and no process of the command is left."""

    def __init__(self, loop: Loop, children: Children, processes: Processes, shell: Shell) -> None:
        self._loop = loop
        self._children = children
        self._processes = processes
        self._shell = shell
        self._at_work: Running | None = None
        self.over = Event()

    def look(self, *, left: bool) -> None:
        """Children were looked at. left: whether any is left but the spawner's."""
        if self._shell.ended.is_set and not left and not self.over.is_set:
            self.over.set()

    def begin(self, *, gently: bool = True) -> None:
        """End all of it. gently: by SIGTERM, and not at once by SIGKILL."""
        if self.over.is_set:
            return
        if self._at_work is not None:
            if gently:
                return
            self._at_work.cancel()
        self._at_work = self._loop.start(self._end(gently=gently))

    def close(self) -> None:
        """Nothing more is to be done."""
        if self._at_work is not None:
            self._at_work.cancel()

    def awaited(self) -> Task[None]:
        """Wait until it is over."""
        while not self.over.is_set:
            yield Wait(event=self.over, until=time.monotonic() + _LOOK_SECONDS)
            self._children.tell()

    def _end(self, *, gently: bool) -> Task[None]:
        if gently and self._processes.signal(signal.SIGTERM):
            yield Wait(event=self.over, until=time.monotonic() + _GRACE_SECONDS)
        killed: set[int] = set()
        while not self.over.is_set:
            before, killed = killed, self._processes.kill()
            self._children.tell()
            # Those that are new have not gone far.
            pause = 0.0 if killed - before else _KILL_ROUND_SECONDS
            yield Wait(event=self.over, until=time.monotonic() + pause)
            self._children.tell()
