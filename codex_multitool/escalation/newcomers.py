"""What programs outside made where nobody looks yet: remembered, so that it is known as theirs."""

from collections.abc import Callable, Collection, Sequence

from codex_multitool.escalation import made
from codex_multitool.escalation.protected import NAMES, Entry, Snapshot, within
from codex_multitool.escalation.protected_look import look
from codex_multitool.escalation.unwatched import Unwatched

_NAMES = frozenset(NAMES)


class Newcomers:
    """From before the first program of one vigil starts to the end of the last."""

    def __init__(self, unwatched: Unwatched) -> None:
        self._unwatched = unwatched
        self._shelves: dict[str, made.Names] = {}
        # Repositories and the like that programs were told of: what stood there, and what of it
        # was no sandbox's.
        self._aside: dict[str, tuple[Snapshot, Snapshot]] = {}

    def expect(
        self,
        workdir: str,
        words: Sequence[str],
        roots: Collection[str],
        watched: Collection[str],
    ) -> None:
        """A program with these arguments is about to start outside."""
        directories = list(dict.fromkeys(made.named(words, workdir, roots)))
        found = made.shelves((*directories, *roots))
        for place in directories:
            if place in watched or place in self._aside:
                continue
            if not _NAMES.isdisjoint(found.get(place, ())):
                standing = look((place,), roots)
                self._aside[place] = standing, self._unwatched.innocent(place, standing)
        self._shelves = {**found, **self._shelves}

    def remember(self, roots: Collection[str], theirs: Callable[[Entry], bool]) -> None:
        """Look what is new. theirs: whether a program outside wrote it, of its own accord."""
        new, places = made.since(self._shelves)
        found = [
            (place, path, it)
            for place in places
            for path, it in look((place,), roots).items()
            if within(path, new) or not within(path, (place,))
        ]
        found += [
            (place, path, it)
            for place, (before, innocent) in self._aside.items()
            for path, it in look((place,), roots).items()
            if path in innocent or path not in before
        ]
        for place, path, it in found:
            if it.trace and theirs(it):
                self._unwatched.vouch(place, path, it)
