"""What stands at a place that nobody looked at before, and whose it may be — pure.

It is no sandbox's if it was so before one could write there, or if it is what a program outside
left. The time of a file's last change cannot be set: utimensat(2).
"""

from collections import deque

from codex_multitool.escalation.protected import Entry, Snapshot, within

_MAX_VOUCHED = 8192
_MAX_TIMES = 128
_TICK_NS = 20_000_000  # of the clock that files get, at most, and some more


class Unwatched:
    """Over one server."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # by root, when a command could first write it
        # What a program outside left, by its name below the place that it stood at.
        self._vouched: dict[tuple[str, Entry], None] = {}
        self._others: deque[tuple[int, int]] = deque(maxlen=_MAX_TIMES)

    def open(self, root: str, now: int) -> None:
        """A command may write beneath `root` from now on."""
        self._since.setdefault(root, now)

    def others_wrote(self, begin: int, end: int) -> None:
        """When somebody else than the sandbox may have written."""
        self._others.append((begin, end))

    def vouch(self, place: str, path: str, entry: Entry) -> None:
        """A program outside left this."""
        self._vouched[_name(place, path), entry] = None
        if len(self._vouched) > _MAX_VOUCHED:
            del self._vouched[next(iter(self._vouched))]

    def innocent(self, place: str, found: Snapshot) -> Snapshot:
        """What of that which stands at a place the sandbox did not write."""
        times = [since for root, since in self._since.items() if within(place, (root,))]
        if not times:
            return found
        since = min(times)
        return {
            path: it
            for path, it in found.items()
            if not it.trace or it.trace[-1] < since or (_name(place, path), it) in self._vouched
        }

    def doubtful(self, entry: Entry) -> bool:
        """Whether somebody else may have written this."""
        return bool(entry.trace) and any(
            begin - _TICK_NS < entry.trace[-1] < end + _TICK_NS for begin, end in self._others
        )


def _name(place: str, path: str) -> str:
    return path[len(place) :] if within(path, (place,)) else path
