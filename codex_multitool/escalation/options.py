"""The options of a command line, taken apart as getopt_long(3) does.

Total: an unknown option is one without a value. Pure.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Options(NamedTuple):
    """What a command line holds.

    found: (name, value) in their order, a short name as `-x`, a long one as `--name`, perhaps
    abbreviated; the value is empty where there is none. operands: everything else.
    """

    found: tuple[tuple[str, str], ...]
    operands: list[str]

    def has(self, letters: str, *names: str) -> bool:
        """Whether a short option of `letters` is there, or a long one of `names`."""
        return bool(self.values(letters, *names))

    def values(self, letters: str, *names: str) -> list[str]:
        """The values of all such options."""
        return [
            value
            for name, value in self.found
            if (name[1:] in letters if len(name) == 2 else _abbreviates(name[2:], names))
        ]


def options(
    words: Sequence[str], *, short: str = "", long: Collection[str] = (), permute: bool = True
) -> Options:
    """Take `words`, without the program, apart.

    short: as getopt(3) has it, letters with a value only: `n:` takes one, `i::` an attached one.
    long: the long options whose value may be the next word. permute: options may follow operands.
    """
    required = {letter for letter, kind in _letters(short) if kind == ":"}
    optional = {letter for letter, kind in _letters(short) if kind == "::"}
    found: list[tuple[str, str]] = []
    operands: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            operands += words[index:]
            break
        if word.startswith("--"):
            name, given, value = word.partition("=")
            if not given and _abbreviates(name[2:], long) and index < len(words):
                value = words[index]
                index += 1
            found.append((name, value))
        elif word.startswith("-") and len(word) > 1:
            cluster, wants = _cluster(word[1:], required, optional)
            if wants and index < len(words):
                cluster[-1] = (cluster[-1][0], words[index])
                index += 1
            found += cluster
        elif permute:
            operands.append(word)
        else:
            operands += words[index - 1 :]
            break
    return Options(tuple(found), operands)


def _letters(short: str) -> list[tuple[str, str]]:
    kinds = short.replace("::", "=")
    return [
        (letter, "::" if kind == "=" else ":")
        for letter, kind in zip(kinds[::2], kinds[1::2], strict=True)
    ]


def _cluster(
    letters: str, required: Collection[str], optional: Collection[str]
) -> tuple[list[tuple[str, str]], bool]:
    """The options of one word, and whether the last one still wants its value."""
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for position, letter in enumerate(letters):
        if letter in required or letter in optional:
            value = letters[position + 1 :]
            found.append(("-" + letter, value))
            return found, letter in required and not value
        if letter not in seen:  # a word of a million letters names few options
            seen.add(letter)
            found.append(("-" + letter, ""))
    return found, False


def _abbreviates(name: str, names: Collection[str]) -> bool:
    """Whether `name` is one of `names` or the beginning of one, as getopt_long(3) takes it."""
    return bool(name) and any(full.startswith(name) for full in names)
