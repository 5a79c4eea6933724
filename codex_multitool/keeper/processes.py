"""The processes below a keeper, its spawners apart: waited for, looked through, signalled."""

import os
import signal
from collections.abc import Callable, Iterable

from codex_multitool.interception.hold import holds
from codex_multitool.keeper.spawners import Spawners
from codex_multitool.launcher import tree
from codex_multitool.launcher.start import Starter


class Processes:
    """Those of one keeper. ended: takes pid and wait status of each child that was waited for."""

    def __init__(
        self, spawners: Spawners, starter: Starter, ended: Callable[[int, int], None]
    ) -> None:
        self._spawners = spawners
        self._starter = starter
        self._ended = ended
        self._own = tree.Children(os.getpid())

    def reap(self) -> bool:
        """Wait for those that have ended. Whether any is left, apart from what a spawner started.

        One that is waited for may have left a child since they were listed: none is left when a
        list has nobody new to wait for.
        """
        found, left = True, False
        while found and not left:
            try:
                children = self._own.pids()
            except OSError:
                return True  # no memory, or no descriptor: somebody asks again soon
            found, left = self._reap(children)
        return left

    def _reap(self, children: Iterable[int]) -> tuple[bool, bool]:
        """Whether any had ended, and whether any is left.

        One by one: what ptrace(2) has stopped would be told of, too, and belongs to who holds it.
        """
        found, left, kept = False, False, self._spawners.kept()
        for pid in children:
            if holds(pid):
                left = True
                continue
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                found = True
                self._spawners.ended(pid)
                self._starter.ended(pid, status)
                self._ended(pid, status)
            elif pid not in kept:
                left = True  # a spawner that is given up may have left something, too
        return found, left

    def below(self) -> list[int]:
        """All of the commands' that can be seen now, parents before their children."""
        spawners = self._spawners.all()
        try:
            return [it for it in tree.descendants(os.getpid()) if it not in spawners]
        except OSError:
            return []  # no descriptor to be had: proc(5) cannot be listed

    def signal(self, number: int) -> None:
        """Send a signal to all of them."""
        pids = self.below()
        tree.signal_all(pids, number)
        if number != signal.SIGKILL:
            tree.signal_all(pids, signal.SIGCONT)  # a stopped process acts on nothing else
