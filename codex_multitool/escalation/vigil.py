"""What programs wrote outside, told apart from what the sandbox wrote meanwhile — pure.

The time while programs are outside is cut into slices. In one in which no thread of the sandbox
has run, all that changed is theirs. In the others it is of one or the other, nobody knows which.
"""

from collections.abc import Callable, Collection, Mapping

from codex_multitool.escalation.protected import Entry, Snapshot

_MAX_SLICES = 256
_EVER = 1 << 63

Threads = Mapping[int, int]  # how often each thread has run


class Vigil:
    """One time while programs are outside. held: the callers that wait for them.

    doubtful: takes the paths that changed while both could write. by_caller: whether a program
    outside may have written something because its caller gave it the file, open.
    """

    def __init__(self, doubtful: set[str], by_caller: Callable[[Entry], bool]) -> None:
        self.held: list[int] = []
        self._doubtful = doubtful
        self._by_caller = by_caller
        self._before: Threads | None = None
        self._ground: Snapshot = {}
        # The times of a file that changed in a slice in which the sandbox slept.
        self._slices: list[tuple[int, int]] = []

    def start(self, threads: Threads | None, ground: Snapshot, begun: int) -> None:
        """Begin a slice. ground: what stood there after `threads` was seen.

        begun: the first time that what is written in it may have.
        """
        self._before, self._ground = threads, ground
        if threads is not None:
            self._slices.append((begun, begun))
            del self._slices[:-_MAX_SLICES]

    def widen(self, found: Snapshot) -> None:
        """More is watched from here on."""
        self._ground = {**found, **self._ground}

    def went_on(
        self, threads: Threads | None, state: Snapshot, agreed: Snapshot, now: int
    ) -> Snapshot | None:
        """What is agreed on, after a slice in which the sandbox slept; None: it did not.

        state: what stood there, at `now`, before `threads` was seen.
        """
        ground = self._ground
        changed = [it for it in {**ground, **state} if ground.get(it) != state.get(it)]
        if not unmoved(self._before, threads, self.held):
            self._doubtful.update(changed)
            return None
        found = dict(agreed)
        for path in changed:
            # What was open before is not closed by a program that writes it anew.
            if not _same(ground.get(path), agreed.get(path)):
                continue
            if (entry := state.get(path)) is None:
                found.pop(path, None)
            elif not self._by_caller(entry):
                found[path] = entry
        self._before, self._ground = threads, state
        self._slices[-1] = self._slices[-1][0], now
        return found

    def wrote(self, changed: int, *, asleep: bool) -> bool:
        """Whether the last change of a file, at this time, was by a program outside.

        asleep: the sandbox has slept from the last slice until now.
        """
        last = len(self._slices) - 1
        return any(
            begun <= changed < (_EVER if asleep and number == last else end)
            for number, (begun, end) in enumerate(self._slices)
        )


def unmoved(before: Threads | None, after: Threads | None, held: Collection[int]) -> bool:
    """Whether no thread has run from one look to the next, but for those that are held."""
    if before is None or after is None:
        return False
    return all(it in held or before.get(it) == after.get(it) for it in {**before, **after})


def _same(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.same(other)
