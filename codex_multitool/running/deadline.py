"""A time budget that can be paused — pure: the time is always an argument.

Pauses are counted: the clock stands still from the first to the end of the last.
"""

from math import inf


class Deadline:
    """`seconds` of running time, from `now` on. Any monotonic clock does, if it is always one."""

    def __init__(self, seconds: float, now: float) -> None:
        self._left = seconds
        self._since = now
        self._pauses = 0

    def pause(self, now: float) -> None:
        """Stop the clock, if it is not stopped already."""
        if self._pauses == 0:
            self._left -= now - self._since
        self._pauses += 1

    def resume(self, now: float) -> None:
        """End one pause; the last one starts the clock again. Without a pause: nothing."""
        if self._pauses == 0:
            return
        self._pauses -= 1
        if self._pauses == 0:
            self._since = now

    def expires_at(self) -> float:
        """When the budget is used up if nothing pauses it; never while it is paused."""
        return inf if self._pauses else self._since + self._left

    def expired(self, now: float) -> bool:
        """Whether the budget is used up."""
        return now >= self.expires_at()
