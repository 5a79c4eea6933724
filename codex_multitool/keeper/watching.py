"""The watch over protected names, where that is the front's: a command's part in it, told over."""

from collections.abc import Callable, Collection, Sequence

from codex_multitool.escalation.watch import Finding
from codex_multitool.escalation.workdir import Above
from codex_multitool.keeper import protocol
from codex_multitool.keeper.front import Front
from codex_multitool.loop import Task


class TheirWatch:
    """As escalation.watch.Watch. quiet: whether there is nothing to be asked, see quiet.py."""

    def __init__(self, front: Front, quiet: Callable[[], bool]) -> None:
        self._front = front
        self._quiet = quiet

    def look(self, workdir: str, above: Above = ()) -> Task[Finding]:
        """What differs now. Its state is the front's number for it."""
        if self._quiet():
            return Finding()
        found, _ = yield from self._front.ask(lambda asked: protocol.Look(asked, workdir, above))
        return Finding(*found)

    def agree(self, finding: Finding) -> None:
        """A human agreed to it."""
        self._front.tell(protocol.Agree(finding.state))

    def leaving(self, workdir: str, words: Sequence[str], held: int | None) -> Task["TheirAbsence"]:
        """A program is about to start outside."""
        if self._quiet():
            return TheirAbsence(self._front, 0)
        absence, _ = yield from self._front.ask(
            lambda asked: protocol.Leaving(asked, workdir, tuple(words), held)
        )
        return TheirAbsence(self._front, absence)

    def leaving_unchanged(
        self, workdir: str, words: Sequence[str], held: int | None, above: Above = ()
    ) -> Task["TheirAbsence | Finding"]:
        """The same, if nothing differs."""
        if self._quiet():
            return TheirAbsence(self._front, 0)
        found, _ = yield from self._front.ask(
            lambda asked: protocol.Leaving(asked, workdir, tuple(words), held, True, above)
        )
        return Finding(*found) if isinstance(found, tuple) else TheirAbsence(self._front, found)


class TheirAbsence:
    """As escalation.watch.Absence."""

    def __init__(self, front: Front, number: int) -> None:
        self._front = front
        self._number = number
        self._over = number == 0

    def handed(self, files: Collection[tuple[int, int]]) -> Task[tuple[str, ...]]:
        """It is to have these open; the paths of those that are protected."""
        if not files or not self._number:
            return ()
        found, _ = yield from self._front.ask(
            lambda asked: protocol.Handed(asked, self._number, tuple(files))
        )
        return tuple(found)

    def over(self) -> Task[None]:
        """Wait until the sandbox may be told."""
        if not self._over:
            self._over = True
            yield from self._front.ask(lambda asked: protocol.Returned(asked, self._number))

    def lost(self) -> None:
        """Tell, without waiting, unless that is done."""
        if not self._over:
            self._over = True
            self._front.tell(protocol.Returned(0, self._number))
