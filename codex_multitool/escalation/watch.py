"""What judging knows of the protected names: who watches them may be another process — pure."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from codex_multitool.escalation.protected import Change
from codex_multitool.escalation.workdir import Above
from codex_multitool.loop import Task


class Finding(NamedTuple):
    """What differs now from what was agreed on; empty: nothing.

    state: what agreeing agrees to, known to the watch that it came from. moved: what was looked at
    is not where the program would work.
    """

    changes: tuple[Change, ...] = ()
    state: Any = None
    moved: bool = False

    def __bool__(self) -> bool:
        return bool(self.changes) or self.moved


class Absence(Protocol):
    """A program that runs outside."""

    def handed(self, files: Collection[tuple[int, int]], /) -> Task[tuple[str, ...]]:
        """It is to have these open, by device and inode; the paths of those that are protected.

        What is written in them from now on is the sandbox's doing: by its caller's will.
        """

    def over(self) -> Task[None]:
        """It has ended, and nobody in the sandbox has been told; they may be when this is done."""

    def lost(self) -> None:
        """The same in clean-up, at once."""


class Watch(Protocol):
    """One command's part in watching."""

    def look(self, workdir: str, above: Above = (), /) -> Task[Finding]:
        """What differs now, also on the way to where a program works, a canonical path.

        above: which directories that one and those above it are, see workdir.above().
        """

    def agree(self, finding: Finding, /) -> None:
        """A human agreed to what was found."""

    def leaving(self, workdir: str, words: Sequence[str], held: int | None, /) -> Task[Absence]:
        """A program of the command is about to start outside its sandbox.

        held: its caller, if that can do nothing of its own any more.
        """

    def leaving_unchanged(
        self, workdir: str, words: Sequence[str], held: int | None, above: Above = (), /
    ) -> Task[Absence | Finding]:
        """The same, after a look; where something differs, that, and nothing leaves."""


class NoWatch:
    """Of a command that can write nothing that is protected."""

    def look(self, _workdir: str, _above: Above = (), /) -> Task[Finding]:
        """Nothing differs."""
        yield from ()
        return Finding()

    def agree(self, _finding: Finding, /) -> None:
        """There is nothing to agree to."""

    def leaving(self, _workdir: str, _words: Sequence[str], _held: int | None, /) -> Task[Absence]:
        """Whatever a program writes is nobody's concern."""
        yield from ()
        return _Unwatched()

    def leaving_unchanged(
        self, _workdir: str, _words: Sequence[str], _held: int | None, _above: Above = (), /
    ) -> Task[Absence | Finding]:
        """The same."""
        yield from ()
        return _Unwatched()


class _Unwatched:
    def handed(self, _files: Collection[tuple[int, int]], /) -> Task[tuple[str, ...]]:
        yield from ()
        return ()

    def over(self) -> Task[None]:
        yield from ()

    def lost(self) -> None:
        pass
