"""Whether the sandbox wrote what programs outside obey, over the calls of one server.

A state of the protected names is agreed on when no sandboxed command runs: whatever differs from
it later was written by one, or by somebody outside meanwhile, which cannot be told apart. While
anything differs, nothing leaves the sandbox unless a human agrees. What the next call finds
changed, with none running before it, is the user's own doing; and what a program wrote outside
while everything in the sandbox slept is that program's.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from codex_multitool.escalation import protected
from codex_multitool.escalation.newcomers import Newcomers
from codex_multitool.escalation.protected import Change, Entry, Snapshot, within
from codex_multitool.escalation.protected_look import look
from codex_multitool.escalation.rest import rest
from codex_multitool.escalation.unwatched import Unwatched
from codex_multitool.escalation.vigil import Threads, Vigil
from codex_multitool.escalation.watch import Finding
from codex_multitool.escalation.workdir import Above
from codex_multitool.loop import Event

_CLOCK_REALTIME_COARSE = 5  # linux/time.h: the one that files get
_PAUSES = tuple(
    0.0005 * 2**times for times in range(7)
)  # to find the sandbox asleep, before a program starts
# Between looks while programs are outside, as a share of what one takes: after the sandbox ran.
_LEAST_SECONDS, _MOST_SECONDS, _SHARE, _SOON_SECONDS = 0.001, 0.25, 20, 0.02
_MAX_KNOWN = 32  # places remembered, and looked at in each call
_MAX_PLACES = 128  # watched at a time, besides the roots and the way to where a program works
_MAX_UNSEEN = 5  # told in one result
_MAX_HANDED = 4096  # files that programs outside had of their callers; beyond it, any may be


class Departure:
    """A program that runs outside, of the command that `watch` is of. held: see `Watch.leaving`."""

    __slots__ = ("held", "watch")

    def __init__(self, watch: object, held: int | None) -> None:
        self.watch = watch
        self.held = held


class Guard:
    """What was agreed on, for all commands that share a server.

    Watched are the writable directories, and those on the way down to where commands and programs
    work: git looks for its repository upwards from there.

    quiet: hears whether any look would find nothing, and no program outside need be watched: no
    command runs that may write, and nothing differs.
    """

    def __init__(self, quiet: Callable[[bool], None] = lambda _: None) -> None:
        self._tell_quiet = quiet
        self._roots: tuple[str, ...] = ()
        self._places: dict[str, None] = {}
        self._agreed: Snapshot = {}
        self._begun = self._running = 0
        self._differs = False
        self._doubts: dict[str, bool] = {}  # by path that differs
        self._doubtful: set[str] = set()  # paths that changed while both could write
        self._unwatched = Unwatched()
        self._known: dict[str, None] = {}  # places watched whenever a command could write them
        self._told: set[Change] = set()
        self._told_unseen: set[tuple[str, str]] = set()
        self._trees: dict[object, int] = {}  # by watch, below which process its command runs
        self._vigil: Vigil | None = None  # while programs are outside
        self._outside: list[Departure] = []
        self._company = self._asleep = self._restless = False
        self._newcomers = Newcomers(self._unwatched)
        self._handed: set[tuple[int, ...]] = set()  # by device and inode
        self._sampled = self._moved = 0.0
        self._since = self._idle_since = 0
        self.departed = Event()  # a program is outside; another one when none is any more
        self._changed()

    @property
    def _quiet(self) -> bool:
        return not self._running and not self._differs

    def _changed(self) -> None:
        """What `quiet` hears may be something else now."""
        self._tell_quiet(self._quiet)

    def begin(self, roots: Iterable[str], workdir: str = "") -> frozenset[Change]:
        """A command that may write beneath `roots` is about to start; `end` with it.

        Returns which changes results have told already.
        """
        given = tuple(map(os.path.realpath, roots))
        if not self._running and not (self._differs and self.look()):
            self._places, self._agreed, self._roots = {}, {}, ()
            self._doubts.clear()
            self._doubtful.clear()
            self._told.clear()
            self._handed.clear()
            if len(self._told_unseen) > _MAX_PLACES:
                self._told_unseen.clear()
        self._roots = tuple(dict.fromkeys((*self._roots, *given)))
        known = [place for place in self._known if within(place, given)]
        self._watch((*given, *known, *self._way_to(os.path.realpath(workdir) if workdir else "")))
        now = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
        if not self._running and self._idle_since:
            self._unwatched.others_wrote(self._idle_since, now)
        for root in given:
            self._unwatched.open(root, now)
        self._running += 1
        self._begun += 1
        self._changed()
        return frozenset(self._told)

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
        standing: dict[str, protected.Entry] = {}
        agreed: dict[str, protected.Entry] = {}
        for place in new:
            found = look((place,), self._roots)
            standing.update(found)
            agreed.update(found if place in self._known else self._unwatched.innocent(place, found))
            self._known[place] = self._places[place] = None
        while len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._agreed = {**agreed, **self._agreed}
        if self._vigil is not None:
            self._vigil.widen(standing)
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

    def end(self, watch: object) -> None:
        """A command that could write has ended, with all its processes."""
        for departure in [it for it in self._outside if it.watch is watch]:
            self.returned(departure)
        self._running -= 1
        self._trees.pop(watch, None)
        if not self._running:
            self._end_vigil()
            self._idle_since = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
        self._changed()

    def look(self, workdir: str = "", above: Above = ()) -> Finding:
        """What differs now, also on the way to where a program works. above: see Watch.look."""
        if self._quiet:
            return Finding(state={})
        if workdir and workdir not in self._places:
            self._watch(self._way_to(workdir))
        stood: dict[str, tuple[int, int]] = {}
        if self._vigil is None:
            state = look(self._places, self._roots, stood)
        else:
            state = self.sample(stood)
        way = zip(self._way_to(workdir), above, strict=False)
        moved = any(stood.get(place) != which for place, which in way)
        found = protected.changes(self._agreed, state)
        self._doubts = {it.path: self._doubt(it.path, state) for it in found}
        self._differs = bool(found)
        self._changed()
        marked = (it._replace(doubtful=self._doubts[it.path]) for it in found)
        return Finding(tuple(marked), state, moved)

    def _doubt(self, path: str, state: Snapshot) -> bool:
        """Whether a program outside may have changed what is at a path, as well as the sandbox."""
        if path in self._doubts:
            return self._doubts[path]
        if any(within(it, (path,)) for it in self._doubtful):
            return True
        return any(self._unwatched.doubtful(it) for at, it in state.items() if within(at, (path,)))

    def agree(self, finding: Finding) -> None:
        """What was found is agreed on, and nothing that came after it."""
        self._agreed = finding.state
        self._told.difference_update(finding.changes)
        self._doubts.clear()
        self._doubtful.clear()
        self._differs = False
        self._changed()

    # While programs are outside

    def runs_below(self, watch: object, process: int) -> None:
        """The command's processes are all below this one, which is none of the sandbox."""
        self._trees[watch] = process

    def cut(self) -> bool:
        """Begin a slice; whether the sandbox sleeps."""
        vigil = self._vigil
        if vigil is None:
            vigil = self._vigil = Vigil(self._doubtful, self._by_caller)
            self._since = time.time_ns()
        threads = self._threads()
        # Files get a time that may be a tick behind. As long as no program is outside, what the
        # sandbox wrote at that time is told from what is new by its name.
        alone = not self._outside and not self._company
        begun = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE) if alone else time.time_ns() + 1
        vigil.start(threads, look(self._places, self._roots), begun)
        self._asleep = threads is not None
        return self._asleep

    def pauses(self) -> Iterator[float]:
        """How long to wait until the sandbox sleeps; not much where it did not the last time."""
        for pause in _PAUSES[:1] if self._restless else _PAUSES:
            if self._vigil is None:
                self.cut()
            else:
                self.sample()
            self._restless = not self._asleep
            if self._asleep:
                return
            yield pause

    def depart(
        self, watch: object, workdir: str, words: Sequence[str], held: int | None
    ) -> Departure:
        """A program is about to start outside."""
        if self._vigil is None:
            self.cut()  # the one before ended while this one waited for the sandbox to sleep
        assert self._vigil is not None
        self._newcomers.expect(workdir, words, self._roots, self._places)
        departure = Departure(watch, held)
        self._outside.append(departure)
        if held is not None:
            self._vigil.held.append(held)
        self.departed.set()
        return departure

    def handed(self, files: Collection[tuple[int, int]]) -> tuple[str, ...]:
        """A program that departs shall have these files open: which of them are protected.

        It writes in them what its caller has it write, so from now on nobody else has.
        """
        if not files or self._vigil is None:
            return ()
        state = self.sample()
        if len(self._handed) < _MAX_HANDED:
            self._handed.update(files)
        found = {**self._agreed, **state}
        return tuple(sorted(path for path, it in found.items() if it.trace[:2] in files))

    def _by_caller(self, entry: Entry) -> bool:
        """Whether a caller of a program outside may have had it write this."""
        if not self._handed:
            return False
        # A link counts with what it leads to, by an inode of its own.
        return (
            entry.trace[:2] in self._handed
            or stat.S_ISLNK(entry.kind)
            or len(self._handed) >= _MAX_HANDED
        )

    def returned(self, departure: Departure) -> None:
        """A program outside has ended, and nobody in the sandbox has been told."""
        if departure not in self._outside or self._vigil is None:
            return
        self.sample()
        self._learn()
        self._outside.remove(departure)
        self._moved = self._sampled  # its caller will run
        if departure.held is not None:
            self._vigil.held.remove(departure.held)
        self._end_alone()

    def sample(self, stood: dict[str, tuple[int, int]] | None = None) -> Snapshot:
        """What stands there; what of it programs outside wrote is agreed on. stood: see look()."""
        vigil = self._vigil
        assert vigil is not None
        self._sampled = time.monotonic()
        state = look(self._places, self._roots, stood)
        now = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
        agreed = vigil.went_on(self._threads(), state, self._agreed, now)
        if agreed is None:
            self._moved = self._sampled if self._asleep else self._moved
            self.cut()
        else:
            self._agreed = agreed
        return state

    def attend(self) -> float:
        """Sample, if that was not just done; returns after how many seconds to do it again."""
        begun = time.monotonic()
        if self._vigil is None or begun - self._sampled < _LEAST_SECONDS:
            return _LEAST_SECONDS
        self.sample()
        if not self._outside:
            self._learn()
            self._end_alone()
        ended = time.monotonic()
        # What has run may be about to sleep again.
        share = 1 if ended < self._moved + _SOON_SECONDS else _SHARE
        return min(max((ended - begun) * share, _LEAST_SECONDS), _MOST_SECONDS)

    def _threads(self) -> Threads | None:
        vigil = self._vigil
        seen = rest(self._trees.values(), held=vigil.held if vigil else (), writable=self._roots)
        self._company = seen.company
        if seen.threads is None or len(self._trees) != self._running:
            return None
        # One that began and ended in between leaves no thread.
        return {0: self._begun, **seen.threads}

    def _learn(self) -> None:
        vigil, asleep = self._vigil, self._asleep
        assert vigil is not None

        def theirs(entry: Entry) -> bool:
            return vigil.wrote(entry.trace[-1], asleep=asleep) and not self._by_caller(entry)

        self._newcomers.remember(self._roots, theirs)

    def _end_alone(self) -> None:
        if not self._outside and not self._company:
            self._end_vigil()

    def _end_vigil(self) -> None:
        if self._vigil is None:
            return
        self._unwatched.others_wrote(self._since, time.time_ns())
        self._vigil, self._newcomers = None, Newcomers(self._unwatched)
        self._outside.clear()
        if self.departed.is_set:
            self.departed = Event()

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
            told = protected.told(
                Change(protected.WROTE, it, self._doubt(it, finding.state)) for it in written
            )
            notes.append(f"{told}, and put it back, while programs ran outside the sandbox")
        unseen = [it for it in protected.unseen(finding.state) if it not in self._told_unseen]
        for path, why in unseen[:_MAX_UNSEEN]:
            self._told_unseen.add((path, why))
            notes.append(f"what is written to {protected.printable(path)} is not noticed: {why}")
        return notes
