"""Whether the sandbox wrote what programs outside obey, over the calls of one server.

A state of the protected names is agreed on when no sandboxed command runs: whatever differs from
it later was written by one, or by somebody outside meanwhile, which cannot be told apart. While
anything differs, nothing leaves the sandbox unless a human agrees. What the next call finds
changed, with none running before it, is the user's own doing; and what a program wrote outside
while everything in the sandbox slept is that program's.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from codex_multitool.escalation import protected
from codex_multitool.escalation.protected import Change, Snapshot
from codex_multitool.escalation.protected_look import look


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
    """What was agreed on, for all commands that share a server."""

    def __init__(self) -> None:
        self._places: tuple[str, ...] = ()
        self._agreed: Snapshot = {}
        self._running = 0
        self._differs = False
        self._told: set[Change] = set()
        self._told_unseen: set[tuple[str, str]] = set()

    def begin(self, roots: Iterable[str]) -> "Watch":
        """A command that may write beneath `roots` is about to start; end the watch with it."""
        places = tuple(dict.fromkeys(map(os.path.realpath, roots)))
        if not places:
            return Watch(self, frozenset(self._told), writes=False)
        if not self._running and not (self._differs and self.look()):
            self._places, self._agreed = places, look(places)
            self._told.clear()
        else:
            more = tuple(it for it in places if it not in self._places)
            self._agreed = {**self._agreed, **look(more)}
            self._places += more
        self._running += 1
        return Watch(self, frozenset(self._told), writes=True)

    def end(self) -> None:
        """A command that could write has ended, with all its processes."""
        self._running -= 1

    def look(self) -> Finding:
        """What differs now."""
        if not self._running and not self._differs:
            return _NOTHING
        state = look(self._places)
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
        for path, why in set(protected.unseen(finding.state)) - self._told_unseen:
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

    def look(self) -> Finding:
        """What differs now."""
        return self._guard.look()

    def agree(self, finding: Finding) -> None:
        """A human agreed to what was found."""
        self._guard.agree(finding)

    def left(self, rest: Callable[[], Rest]) -> "Absence":
        """A program of the command has just been started outside its sandbox."""
        self._left = True
        alone = self._writes and self._guard.alone()
        before = rest() if alone else None
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
