"""The processes below a keeper, its spawners apart: waited for, looked through, signalled."""

import os
import signal
from collections.abc import Callable, Iterable

from codex_multitool.interception.hold import holds
from codex_multitool.keeper.spawners import Spawners
from codex_multitool.launcher import tree
from codex_multitool.launcher.start import Starter

_MOST_LISTS, _MOST_AT_ONCE = 4, 256  # then others have their turn


class Processes:
    """Those of one keeper. ended: takes pid and wait status of each child that was waited for."""

    def __init__(
        self, spawners: Spawners, starter: Starter, ended: Callable[[int, int], None]
    ) -> None:
        self._spawners = spawners
        self._starter = starter
        self._ended = ended
        self._own = tree.Children(os.getpid())

    def reap(self) -> tuple[bool, bool]:
        """Wait for those that have ended. Whether any is left, and whether to ask again soon.

        What a spawner started is left out. One that is waited for may have left a child since they
        were listed: none is left when a list has nobody new to wait for.
        """
        for _ in range(_MOST_LISTS):
            try:
                children = self._own.pids()
            except OSError:
                break  # no memory, or no descriptor
            found, left = self._reap(children[:_MOST_AT_ONCE])
            if len(children) > _MOST_AT_ONCE:
                break
            if left or not found:
                return left, False
        return True, True

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

    def signal(self, number: int) -> bool:
        """Send a signal to all of them, unless they are too many to be told one by one."""
        try:
            if len(self._own.pids()) > _MOST_AT_ONCE:
                return False
        except OSError:
            return False
        pids = self.below()
        tree.signal_all(pids, number)
        tree.signal_all(pids, signal.SIGCONT)  # a stopped process acts on nothing else
        return True

    def kill(self) -> set[int]:
        """SIGKILL to the nearest of them: what they leave are our children. Who they were.

        It takes no look at all processes there are, which a chain of forks would outrun.
        """
        self._spawners.end_all()
        try:
            nearest = {*self._own.pids(), *self._spawners.children()} - self._spawners.all()
        except OSError:
            return set()  # somebody asks again soon
        tree.signal_all(nearest, signal.SIGKILL)
        return nearest
