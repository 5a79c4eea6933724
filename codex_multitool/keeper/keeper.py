"""A keeper: a single thread and one loop, which runs one command at a time for its front.

It starts a command through a spawner, judges its execs, reads its output, keeps its time, starts
what leaves its sandbox, and sees to the end of its tree, whose subreaper it is.
"""

import gc
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from codex_multitool.interception.waiting import STOPS, Children
from codex_multitool.keeper import protocol
from codex_multitool.keeper.command import Command
from codex_multitool.keeper.front import Front
from codex_multitool.keeper.means import Means, surroundings
from codex_multitool.keeper.pipes import Arrivals
from codex_multitool.keeper.processes import Processes
from codex_multitool.keeper.signals import Signals
from codex_multitool.keeper.spawners import Spawners
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.spawn import NotStartedError
from codex_multitool.launcher.start import Starter
from codex_multitool.loop import Event, Loop, Running, Task
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox.enforce import SandboxError

_MANY = 64  # commands, whose parts know each other


class Keeper:
    """Serves the front at the other end of `connection`.

    started_with: limits that are others in this process, and given back to what is executed.
    quiet: see quiet.py.
    """

    def __init__(
        self,
        connection: socket.socket,
        settings: Settings,
        started_with: Limits,
        quiet: Callable[[], bool],
    ) -> None:
        self._loop = loop = Loop()
        self._signals = Signals({signal.SIGCHLD})
        self._command: Command | None = None
        self._commands = 0
        self._running: Running | None = None
        self._gone = False
        self._finished = Event()
        self._front = Front(connection, loop, self._obey, self._leave)
        self._spawners = Spawners(settings, started_with)
        starter = Starter(started_with)
        self._processes = Processes(self._spawners, starter, self._reaped)
        self._children = Children(loop, self._reap)
        loop.watch(self._signals.descriptor, self._child)
        self._means = Means(
            loop,
            Arrivals(loop),
            self._front,
            settings,
            surroundings(settings.environments),
            self._spawners,
            starter,
            self._processes,
            self._children,
            quiet,
        )

    def serve(self) -> None:
        """Serve until the front has gone, and then until nothing is left."""
        self._front.tell(protocol.Hello(os.getpid()))
        self._loop.run(self._finished)
        self._spawners.close()

    def _obey(self, message: Any, descriptors: list[int]) -> None:
        match message:
            case protocol.Order():
                assert self._command is None, "one command at a time"
                self._command = Command(self._means, message, descriptors)
                self._running = self._loop.start(self._live(self._command))
            case protocol.Prepare(sandbox):
                try:
                    self._spawners.get(sandbox)
                except (SandboxError, NotStartedError, OSError):
                    pass  # the command that needs it is told
            case protocol.Signal(number):
                if self._command is not None:
                    self._command.signal(number)
            case protocol.End():
                if self._command is not None:
                    self._command.end()
            case _:
                raise AssertionError(f"the front sent {message!r}")

    def _live(self, command: Command) -> Task[None]:
        yield from command.live()
        self._command = None
        self._commands += 1
        if self._commands % _MANY == 0:
            gc.collect()  # Nothing else does it: see zygote.py.
        if self._gone:
            self._finished.set()

    def _leave(self) -> None:
        """The front has gone: nobody is left to run anything for."""
        self._gone = True
        if self._command is None:
            self._finished.set()
        else:
            self._command.abandon()

    def _child(self, _: int) -> None:
        if STOPS.issuperset(self._signals.take()):
            self._children.stopped()
        else:
            self._children.tell()

    def _reap(self) -> None:
        left, more = self._processes.reap()
        if more:
            self._children.again()
        if self._command is not None:
            self._command.look(left=left)

    def _reaped(self, pid: int, status: int) -> None:
        if self._command is not None:
            self._command.reaped(pid, status)
