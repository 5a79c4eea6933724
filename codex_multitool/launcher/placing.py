"""LEAF: what a program that is about to be started takes over: descriptors, ignored signals."""

import _signal  # type: ignore[import-not-found]  # see start.py
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# As os.posix_spawn() takes them.
Action = tuple[int, int, int]
# What a process may ignore, or handle.
_SIGNALS = tuple(sorted(_signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}))


def first_free(targets: Sequence[int]) -> int:
    """The number above all that are to be given, and above the standard ones."""
    return max((2, *targets)) + 1


def moved(fd: int, above: int, opened: Callable[[int], None]) -> int:
    """The same file, not below the number `above`. opened: takes what is to be closed."""
    if fd >= above:
        return fd
    found = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)
    opened(found)
    return found


def actions(
    descriptors: Sequence[tuple[int, int]], opened: Callable[[int], None], null: int = -1
) -> list[Action]:
    """What places these, pairs (ours, number in the program), and /dev/null for standard ones.

    opened: takes what is to be closed once the program is there. null: ours, if there is one.
    """
    targets = [target for _, target in descriptors]
    above = first_free(targets)
    placed = [(moved(source, above, opened), target) for source, target in descriptors]
    missing = {0, 1, 2}.difference(targets)
    if missing:
        # Not opened by the program's process: that may have no more than it has.
        if null < 0:
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            opened(null)
        if null not in missing:  # nothing is placed over it then
            null = moved(null, above, opened)
        placed += [(null, standard) for standard in missing]
    return [(os.POSIX_SPAWN_DUP2, source, target) for source, target in placed]


def defaults(ignored: Sequence[int]) -> Sequence[int]:
    """The signals that are to be as they are by default: whoever started us may ignore some."""
    return [it for it in _SIGNALS if it not in ignored] if ignored else _SIGNALS


@contextmanager
def ignoring(numbers: Sequence[int]) -> Iterator[None]:
    """Ignore these signals for a moment, as what is executed then does."""
    before = {number: _signal.signal(number, _signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            _signal.signal(number, handler)
