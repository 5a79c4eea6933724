"""The name that a misspelt one was probably meant to be; pure.

The sandbox, which starts once per command, has it too: nothing is imported that is not there.
"""

from _collections_abc import Iterable  # loaded with os; see sandbox/policy.py

_LONGEST = 64  # letters that are looked at: what differs behind them is no slip
_FEWEST = 3  # of a word that is taken for a slip of another
_MOST = 3  # letters that a slip changes


def nearest(word: str, names: Iterable[str], *, part: int = 4) -> str | None:
    """The one of `names` that `word` was probably meant to be, if any.

    Case and punctuation do not count. part: how many letters suffice if they begin or end a name.
    """
    letters = _letters(word)
    if len(letters) < _FEWEST:
        return None
    best, found = min(_MOST, max(1, len(letters) // 4)) + 1, None
    for name in names:
        wanted = _letters(name)
        far = distance(letters, wanted, best - 1)
        if far < best:
            best, found = far, name
        elif found is None and len(letters) >= part and _is_part(letters, wanted):
            found = name
    return found


def did_you_mean(word: str, names: Iterable[str], mark: str = "`") -> str:
    """`; did you mean X?`, for the end of a sentence; empty if nothing is near."""
    name = nearest(word, names)
    return "" if name is None else f"; did you mean {mark}{name}{mark}?"


def distance(one: str, other: str, most: int) -> int:
    """How many letters are missing, too many, others or swapped with their neighbours.

    `most` + 1 stands for all that is more.
    """
    one, other = one[:_LONGEST], other[:_LONGEST]
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, wanted in enumerate(other, 1):
            steps = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != wanted))
            swapped = (
                row > 1 and column > 1 and letter == other[column - 2] and wanted == one[row - 2]
            )
            current.append(min(steps, before[column - 2] + 1) if swapped else steps)
        if min(current) > most and min(last) > most:
            return most + 1
        before, last = last, current
    return min(last[-1], most + 1)


def _is_part(letters: str, name: str) -> bool:
    return name.startswith(letters) or name.endswith(letters)


def _letters(word: str) -> str:
    return "".join(letter for letter in word[:_LONGEST].lower() if letter not in " -_.")
