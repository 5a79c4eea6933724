"""Where the keys and values of a TOML text stand — pure.

tomllib gives values without their places. This walks a text that tomllib has read, so it judges
nothing and only has to know where one thing ends and the next begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Path = tuple[str | int, ...]  # keys, and indices of array elements

# Patterns are compiled when they are first needed, and NamedTuples made instead of dataclasses:
# the server's start waits for this room, and seldom for a place.
_BLANK = r"(?:[ \t\r\n]+|#[^\n]*)*"
_SPACE = r"[ \t]*"
_KEY = r""""(?:[^"\\]|\\.)*"|'[^']*'|[^\s.=\]"'#]+"""
# Up to two quotes may stand before the three that end a multi-line string.
_STRING = (
    r'''(?s:"""(?:[^\\]|\\.)*?""""{0,2}'''
    r"""|'''.*?''''{0,2}"""
    r'''|"(?:[^"\\]|\\.)*"'''
    r"""|'[^']*')"""
)
# A date and its time may be a blank apart: TOML 1.0, offset date-time.
_SCALAR = r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+"


def toml(text: str) -> dict[str, Any]:
    """The values of a text. Raises ValueError, or RecursionError."""
    import tomllib  # half of what the room takes to load, where many a user has no file

    return tomllib.loads(text)


class Place(NamedTuple):
    """Offsets: of a key, or an element of an array, and of its value's two ends.

    The value of a table that a header makes is empty: it has no one place.
    """

    key: int
    start: int
    end: int


def places(text: str) -> dict[Path, Place]:
    """The place of every key and every array element of a valid text with `\\n` line ends."""
    return _Walk(text).document()


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1, the column in characters."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Walk:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._places: dict[Path, Place] = {}
        self._last: dict[Path, int] = {}  # arrays of tables: the index of the newest

    def document(self) -> dict[Path, Place]:
        table: Path = ()
        while self._next():
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._places

    def _next(self) -> bool:
        """Go to the next thing that is neither blank nor comment, if there is one."""
        self._take(_BLANK)
        return self._at < len(self._text)

    def _take(self, pattern: str) -> str:
        found = re.compile(pattern).match(self._text, self._at)
        assert found is not None, f"no TOML at {line_and_column(self._text, self._at)}"
        self._at = found.end()
        return found[0]

    def _header(self) -> Path:
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        *outer, (name, at) = self._keys()
        self._at += brackets
        table: Path = ()
        for key, offset in outer:
            table = self._newest(self._note((*table, key), offset))
        table = self._note((*table, name), at)
        if brackets == 2:
            self._last[table] = self._last.get(table, -1) + 1
            self._note(self._newest(table), at)
        return self._newest(table)

    def _newest(self, table: Path) -> Path:
        return (*table, self._last[table]) if table in self._last else table

    def _note(self, path: Path, offset: int) -> Path:
        self._places.setdefault(path, Place(offset, offset, offset))
        return path

    def _pair(self, table: Path) -> None:
        path = table
        for key, offset in (keys := self._keys()):
            path = self._note((*path, key), offset)
        self._at += 1  # the equals sign
        self._take(_SPACE)
        start = self._at
        self._value(path)
        self._places[path] = Place(keys[-1][1], start, self._at)

    def _keys(self) -> list[tuple[str, int]]:
        """The parts of a dotted key, each with its offset."""
        found: list[tuple[str, int]] = []
        while True:
            self._take(_SPACE)
            offset = self._at
            found.append((_decoded(self._take(_KEY)), offset))
            self._take(_SPACE)
            if self._text[self._at] != ".":
                return found
            self._at += 1

    def _value(self, path: Path) -> None:
        match self._text[self._at]:
            case "[":
                self._several("]", lambda index: self._element((*path, index)))
            case "{":
                self._several("}", lambda _: self._pair(path))
            case '"' | "'":
                self._take(_STRING)
            case _:
                self._take(_SCALAR)

    def _several(self, closing: str, one: Callable[[int], None]) -> None:
        self._at += 1
        index = 0
        while self._next() and self._text[self._at] != closing:
            one(index)
            index += 1
            self._next()
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _element(self, path: Path) -> None:
        start = self._at
        self._value(path)
        self._places[path] = Place(start, start, self._at)


def _decoded(key: str) -> str:
    if key.startswith('"'):
        return str(toml(f"key = {key}")["key"])
    return key[1:-1] if key.startswith("'") else key
