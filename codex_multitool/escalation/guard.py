"""Whether the sandbox wrote what programs outside obey, over the calls of one server.

A state of the protected names is agreed on when no sandboxed command runs: whatever differs from
it later was written by one, or by somebody outside meanwhile, which cannot be told apart. While
anything differs, nothing leaves the sandbox unless a human agrees. What the next call finds
changed, with none running before it, is the user's own doing; and what a program wrote outside
while everything in the sandbox slept is that program's.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import trio

from codex_multitool.escalation import protected
from codex_multitool.escalation.protected import Change, Snapshot
from codex_multitool.escalation.protected_look import look, within

_CLOCK_REALTIME_COARSE = 5  # linux/time.h: the one that files get
_TRIES, _PAUSE_SECONDS = 5, 0.0005  # to find the sandbox asleep, while a program starts
_MAX_KNOWN = 32  # places remembered, and looked at in each call
_MAX_PLACES = 128  # watched at a time, besides the roots and the way to where a program works
_MAX_UNSEEN = 5  # told in one result


@dataclass(frozen=True, slots=True)
class Finding:
    """What differs now from what was agreed on; empty: nothing. state: what agreeing agrees to."""

    changes: tuple[Change, ...]
    state: Snapshot

    def __bool__(self) -> bool:
        return bool(self.changes)


_NOTHING = Finding((), {})
# By thread of the sandbox, how often it has run; None: one runs.
Rest = dict[int, int] | None


class Guard:
    """What was agreed on, for all commands that share a server.

    Watched are the writable directories, and those on the way down to where commands and programs
    work: git looks for its repository upwards from there.
    """

    def __init__(self) -> None:
        self._roots: tuple[str, ...] = ()
        self._places: dict[str, None] = {}
        self._agreed: Snapshot = {}
        self._running = 0
        self._differs = False
        self._since: dict[str, int] = {}  # by root, when a command could first write it
        self._known: dict[str, None] = {}  # places watched whenever a command could write them
        self._told: set[Change] = set()
        self._told_unseen: set[tuple[str, str]] = set()

    def begin(self, roots: Iterable[str], workdir: str = "") -> "Watch":
        """A command that may write beneath `roots` is about to start; end the watch with it."""
        given = tuple(map(os.path.realpath, roots))
        if not given:
            return Watch(self, frozenset(self._told), writes=False)
        if not self._running and not (self._differs and self.look()):
            self._places, self._agreed, self._roots = {}, {}, ()
            self._told.clear()
            if len(self._told_unseen) > _MAX_PLACES:
                self._told_unseen.clear()
        self._roots = tuple(dict.fromkeys((*self._roots, *given)))
        known = [place for place in self._known if within(place, given)]
        self._watch((*given, *known, *self._way_to(os.path.realpath(workdir) if workdir else "")))
        now = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
        for root in given:
            self._since.setdefault(root, now)
        self._running += 1
        return Watch(self, frozenset(self._told), writes=True)

    def _way_to(self, directory: str) -> Iterator[str]:
        """The directories from `directory` up to its writable root."""
        while within(directory, self._roots):
            yield directory
            directory = os.path.dirname(directory)
            if directory == "/":
                break

    def _watch(self, places: Iterable[str]) -> None:
        new = [place for place in dict.fromkeys(places) if place not in self._places]
        if not new:
            return
        found = look(new, self._roots)
        for place in new:
            if place not in self._known:
                found = self._without_later(place, found)
            self._known[place] = self._places[place] = None
        while len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._agreed = {**found, **self._agreed}
        self._forget(len(self._places) - _MAX_PLACES, new)

    def _forget(self, count: int, new: Sequence[str]) -> None:
        """Watch the oldest places no longer; who comes back to one asks what changed meanwhile."""
        kept = {*self._roots, *new}
        oldest = [place for place in self._places if place not in kept][: max(count, 0)]
        if not oldest:
            return
        for place in oldest:
            del self._places[place]
            self._known.pop(place, None)
        tops = [os.path.join(place, name) for place in oldest for name in protected.NAMES]
        self._agreed = {path: it for path, it in self._agreed.items() if not within(path, tops)}

    def _without_later(self, place: str, found: Snapshot) -> Snapshot:
        """What stood at a place before a command could write there: nobody looked meanwhile."""
        times = [since for root, since in self._since.items() if within(place, (root,))]
        if not times:
            return found
        since = min(times)
        # The time of the last change cannot be set: utimensat(2).
        return {path: it for path, it in found.items() if not it.trace or it.trace[-1] < since}

    def end(self) -> None:
        """A command that could write has ended, with all its processes."""
        self._running -= 1

    def look(self, workdir: str = "") -> Finding:
        """What differs now, also on the way to where a program works."""
        if not self._running and not self._differs:
            return _NOTHING
        if workdir and workdir not in self._places:
            self._watch(self._way_to(workdir))
        state = look(self._places, self._roots)
        found = Finding(protected.changes(self._agreed, state), state)
        self._differs = bool(found)
        return found

    def agree(self, finding: Finding) -> None:
        """What was found is agreed on, and nothing that came after it."""
        self._agreed = finding.state
        self._told.difference_update(finding.changes)
        self._differs = False

    def alone(self) -> bool:
        """Whether one command at most runs that could write."""
        return self._running <= 1

    def notes(self, finding: Finding, known: frozenset[Change], *, left: bool) -> list[str]:
        """What the reader of a result must be told, once.

        known: what other results told before. left: whether programs left the sandbox meanwhile.
        """
        notes = []
        if new := [it for it in finding.changes if it not in known]:
            self._told.update(new)
            told = protected.told(new)
            notes.append(
                f"{told}: until a human has agreed to it, no rule lets a program leave the sandbox "
                "unasked"
            )
        if left and (written := protected.put_back(self._agreed, finding.state)):
            told = protected.told(Change(protected.WROTE, path) for path in written)
            notes.append(f"{told}, and put it back, while programs ran outside the sandbox")
        unseen = [it for it in protected.unseen(finding.state) if it not in self._told_unseen]
        for path, why in unseen[:_MAX_UNSEEN]:
            self._told_unseen.add((path, why))
            notes.append(f"what is written to {protected.printable(path)} is not noticed: {why}")
        return notes


class Watch:
    """One command's part in it. writes: whether its sandbox may write anything protected."""

    def __init__(self, guard: Guard, known: frozenset[Change], *, writes: bool) -> None:
        self._guard = guard
        self._known = known
        self._writes = writes
        self._left = False

    def look(self, workdir: str) -> Finding:
        """What differs now, also on the way to where a program works, a canonical path."""
        return self._guard.look(workdir)

    def agree(self, finding: Finding) -> None:
        """A human agreed to what was found."""
        self._guard.agree(finding)

    def standing(self) -> list[tuple[bytes, bool]]:
        """What a mount namespace can keep from the command: see `Spawn.mounts`."""
        if not self._writes:
            return []
        found = protected.standing(self._guard.look().state)
        return [(os.fsencode(path), whole) for path, whole in found]

    async def left(self, rest: Callable[[], Rest]) -> "Absence":
        """A program of the command has just been started outside its sandbox."""
        self._left = True
        before = None
        for _ in range(_TRIES):
            if not (self._writes and self._guard.alone()):
                break
            before = rest()
            if before is not None:
                break
            # Its caller's parent is about to wait for it.
            await trio.sleep(_PAUSE_SECONDS)
        return Absence(self._guard, rest, None if self._guard.look() else before)

    def notes(self, *, ended: bool) -> list[str]:
        """What the result of the command must tell. ended: no process of it is left."""
        if not self._writes:
            return []
        notes = self._guard.notes(self._guard.look(), self._known, left=self._left)
        if ended:
            self._release()
        return notes

    def end(self) -> None:
        """No process of the command is left."""
        if self._writes:
            self._guard.look()
            self._release()

    def _release(self) -> None:
        self._writes = False
        self._guard.end()


class Absence:
    """A program that runs outside. before: how the sandbox slept when it began, if it did."""

    def __init__(self, guard: Guard, rest: Callable[[], Rest], before: Rest) -> None:
        self._guard = guard
        self._rest = rest
        self._before = before

    def over(self) -> None:
        """It has ended, and nobody in the sandbox has been told."""
        if self._before is None:
            return
        finding = self._guard.look()
        if finding and self._guard.alone() and self._rest() == self._before:
            self._guard.agree(finding)
