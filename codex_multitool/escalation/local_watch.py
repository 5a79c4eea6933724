"""A watch over the protected names by a guard in this very process."""

import os
import time
from collections.abc import Collection, Sequence

from codex_multitool.escalation import protected
from codex_multitool.escalation.guard import Departure, Guard
from codex_multitool.escalation.protected import Change
from codex_multitool.escalation.watch import Finding
from codex_multitool.escalation.workdir import Above
from codex_multitool.loop import Task, Wait, sleep


class LocalWatch:
    """One command that may write beneath `roots` and is about to start; `end` it with that."""

    def __init__(self, guard: Guard, roots: Sequence[str], workdir: str = "") -> None:
        self._guard = guard
        self._writes = bool(roots)
        self._left = False
        self._known = guard.begin(roots, workdir) if roots else frozenset[Change]()

    def runs_below(self, process: int) -> None:
        """The command's processes will all be below this one, which is none of the sandbox."""
        if self._writes:
            self._guard.runs_below(self, process)

    def look(self, workdir: str, above: Above = ()) -> Task[Finding]:
        """What differs now, also on the way to where a program works; see Watch.look."""
        yield from ()
        return self._guard.look(workdir, above)

    def agree(self, finding: Finding) -> None:
        """A human agreed to what was found."""
        self._guard.agree(finding)

    def standing(self) -> list[tuple[bytes, bool]]:
        """What a mount namespace can keep from the command: see `mounts.bind`."""
        if not self._writes:
            return []
        found = protected.standing(self._guard.look().state)
        return [(os.fsencode(path), whole) for path, whole in found]

    def leaving(self, workdir: str, words: Sequence[str], held: int | None) -> Task["LocalAbsence"]:
        """A program of the command is about to start outside its sandbox.

        held: its caller, if that can do nothing of its own any more.
        """
        self._left = True
        if not self._writes:
            return LocalAbsence(self._guard, None)
        for pause in self._guard.pauses():
            # Its caller's parent is about to wait for it.
            yield from sleep(pause)
        return LocalAbsence(self._guard, self._guard.depart(self, workdir, words, held))

    def leaving_unchanged(
        self, workdir: str, words: Sequence[str], held: int | None, above: Above = ()
    ) -> Task["LocalAbsence | Finding"]:
        """The same, after a look; where something differs, that, and nothing leaves."""
        finding = self._guard.look(workdir, above)
        return finding or (yield from self.leaving(workdir, words, held))

    def attend(self) -> Task[None]:
        """Tell apart who writes what while programs are outside; as long as the command runs."""
        while self._writes:
            yield Wait(event=self._guard.departed)
            yield Wait(until=time.monotonic() + self._guard.attend())

    def notes(self, *, ended: bool) -> list[str]:
        """What the result of the command must tell. ended: no process of it is left."""
        if not self._writes:
            return []
        notes = self._guard.notes(self._guard.look(), self._known, left=self._left)
        if ended:
            self._release()
        return notes

    def end(self) -> None:
        """No process of the command is left; what of it is still outside is lost."""
        if self._writes:
            self._guard.look()
            self._release()

    def _release(self) -> None:
        self._writes = False
        self._guard.end(self)


class LocalAbsence:
    """A program that runs outside. departure: None where nothing is watched."""

    def __init__(self, guard: Guard, departure: Departure | None) -> None:
        self._guard = guard
        self._departure = departure

    @property
    def watched(self) -> bool:
        """Whether it matters to anybody."""
        return self._departure is not None

    def handed(self, files: Collection[tuple[int, int]]) -> Task[tuple[str, ...]]:
        """It is to have these open; the paths of those that are protected."""
        yield from ()
        return self._guard.handed(files) if self._departure is not None else ()

    def over(self) -> Task[None]:
        """It has ended, and nobody in the sandbox has been told; they may be when this is done."""
        self.lost()
        yield from ()

    def lost(self) -> None:
        """The same in clean-up, at once; again, it is nothing."""
        if self._departure is not None:
            self._guard.returned(self._departure)
