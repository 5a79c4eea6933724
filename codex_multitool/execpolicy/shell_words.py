"""Splits an example into words the way rules files have always had them split.

POSIX quoting (XCU 2.2) with `#` comments at the start of a word. `shlex` of the standard
library differs: it ends a word at an inner `#`, and keeps the backslash of `"\\$"`.
"""

from __future__ import annotations

_BLANKS = " \t\n"
_ESCAPED_IN_DOUBLE_QUOTES = '$`"\\'


class UnbalancedError(Exception):
    """A quote is not closed, or a backslash ends the text."""


def split(text: str) -> list[str]:
    """The words of `text`; raises UnbalancedError."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in _BLANKS:
            at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        else:
            word, at = _word(text, at)
            words.append(word)
    return words


def _word(text: str, at: int) -> tuple[str, int]:
    """The word that starts at `at` and the index after it; a lone line continuation is empty."""
    parts: list[str] = []
    while at < len(text) and text[at] not in _BLANKS:
        if text[at] == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise UnbalancedError
            parts.append(text[at + 1 : end])
            at = end + 1
        elif text[at] == '"':
            part, at = _double_quoted(text, at + 1)
            parts.append(part)
        elif text[at] == "\\":
            if at + 1 == len(text):
                raise UnbalancedError
            if text[at + 1] != "\n":
                parts.append(text[at + 1])
            at += 2
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts), at


def _double_quoted(text: str, at: int) -> tuple[str, int]:
    """The rest of a double-quoted part and the index after its closing quote."""
    parts: list[str] = []
    while at < len(text):
        if text[at] == '"':
            return "".join(parts), at + 1
        if text[at] == "\\" and at + 1 < len(text):
            following = text[at + 1]
            if following in _ESCAPED_IN_DOUBLE_QUOTES:
                parts.append(following)
            elif following != "\n":
                parts.append("\\" + following)
            at += 2
        else:
            parts.append(text[at])
            at += 1
    raise UnbalancedError
