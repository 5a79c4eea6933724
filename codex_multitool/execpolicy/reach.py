"""Patterns that can cover no command, or not those that were meant; pure.

A program is known by its absolute path in plain form and by its base name, and words are compared
as they are. So some patterns cover nothing. They are told by how they are written: whether a file
is there is for others to find out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from os.path import basename
from typing import NamedTuple

from codex_multitool.execpolicy.rules import normal_path

_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="
_GLOB = "*?"


class Doubt(NamedTuple):
    """What is odd about a pattern, and how to mend it. never: whether it covers nothing at all."""

    what: str
    mend: str
    never: bool = False


def doubts(pattern: Sequence[Sequence[str]], examples: Sequence[Sequence[str]]) -> Iterator[Doubt]:
    """What is odd about a pattern. examples: commands it is known to cover, as the user says."""
    for word in pattern[0]:
        odd = _program_with_slash(word) if "/" in word else _program_name(word, examples)
        if odd is not None:
            yield Doubt(*odd, never=True)
    seen_option = False
    for accepted in pattern[1:]:
        for word in accepted:
            yield from _word(word, examples, behind_option=seen_option)
        seen_option = seen_option or any(word.startswith("-") for word in accepted)
    for accepted in pattern:
        if "\0" in "".join(accepted):
            yield Doubt("no word can hold a NUL", "leave it out", never=True)
        for word in dict.fromkeys(accepted):
            if accepted.count(word) > 1:
                yield Doubt(f"{_quoted(word)} stands twice in one place", "leave one out")


def _program_with_slash(word: str) -> tuple[str, str] | None:
    path, told = normal_path(word), _quoted(word)
    if word.endswith("/"):
        return f"{told} is a folder's name: it covers no program", f"write {_quoted(path)}"
    if not word.startswith("/"):
        what = f"{told} covers nothing: programs have a base name and an absolute path"
        return what, f"write {_quoted(basename(path))}, or the absolute path"
    if path != word:
        return f"{told} covers nothing: no program's path is written so", f"write {_quoted(path)}"
    return None


def _program_name(word: str, examples: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    told, words = _quoted(word), word.split()
    if not words or word in (".", ".."):
        return f"{told} is no program's name", 'name one: pattern=["git", "push"]'
    if any(example[0] == word for example in examples):
        return None
    if words != [word]:
        what = f"{told} is one word: a program with a blank in its name, and no command line"
        mend = f"write {json.dumps(words, ensure_ascii=False)}"
        return what, f"{mend}; if there is such a program, say so: match=[[{told}]]"
    if any(letter in word for letter in _GLOB):
        what = f"{told} covers no other name: there are no globs"
        return what, 'list the names: pattern=[["python3.11", "python3.12"]]'
    if re.match(_ASSIGNMENT, word):
        what = f"{told} covers nothing: variables are set before a command, and no part of it"
        return what, "begin with the program"
    return None


def _word(word: str, examples: Sequence[Sequence[str]], *, behind_option: bool) -> Iterator[Doubt]:
    if any(word in example for example in examples):
        return
    if word in ("*", "**"):
        what = f"{_quoted(word)} covers the word {word} alone: there are no globs"
        yield Doubt(what, "leave it out: what follows a pattern does not matter")
    elif not behind_option and not word.startswith("-") and len(word.split()) > 1:
        listed = json.dumps(word.split(), ensure_ascii=False)
        yield Doubt(f"{_quoted(word)} is one word with blanks in it", f"write {listed[1:-1]}")


def _quoted(word: str) -> str:
    return json.dumps(word if len(word) <= 80 else word[:80] + "...", ensure_ascii=False)
