"""A rules text as statements, their words and brackets, and the comments between them — pure.

The words are Python's: what Starlark takes, Python's tokenizer takes, too, but for details. A text
with such a detail is a LayoutError, and nobody's to lay out.
"""

from __future__ import annotations

import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

CALL, PARAMETERS, LIST, DICT, SUBSCRIPT, PARENTHESES = (
    "call", "parameters", "list", "dict", "subscript", "parentheses",
)  # fmt: skip
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SKIPPED = (tokenize.NL, tokenize.ENDMARKER)
_SIGNS = ("+", "-", "~", "*", "**")
# No quote and no backslash in it: the same in the other quotes.
_PLAIN = re.compile(r"'([^'\"\\\n]*)'")


class LayoutError(Exception):
    """A text that cannot be laid out. line, column: from 1."""

    def __init__(self, line: int, column: int, what: str) -> None:
        self.line, self.column = line, column
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class Word:
    """A name, a number, a string or an operator. sign: it belongs to what follows it."""

    text: str
    sign: bool = False


@dataclass(slots=True)
class Item:
    """What stands between two commas. above: comments before it; behind: one on its last line."""

    parts: list[Word | Brackets] = field(default_factory=list)
    above: list[str] = field(default_factory=list)
    behind: str | None = None


@dataclass(slots=True)
class Brackets:
    """kind: what they mean. last: comments before the closing one. comma: whether one ends it."""

    kind: str
    opening: str
    items: list[Item] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    comma: bool = False

    @property
    def closing(self) -> str:
        """The bracket that ends it."""
        return _CLOSING[self.opening]

    @property
    def takes_comma(self) -> bool:
        """Whether a comma behind the last item makes no difference."""
        words = [part for item in self.items for part in item.parts if isinstance(part, Word)]
        if any(word.text == "for" for word in words):
            return False
        spread = any(word.sign and word.text in ("*", "**") for word in words)
        return self.kind in (LIST, DICT) or (self.kind == CALL and not spread)


@dataclass(slots=True)
class Line:
    """A statement, or a comment alone if it has no parts. depth: of the blocks it is in.

    apart: an empty line stands before it.
    """

    depth: int
    apart: bool
    parts: list[Word | Brackets]
    comment: str | None = None


def lines(text: str) -> list[Line]:
    """The statements and comments of a text with \\n as line ends. Raises LayoutError."""
    try:
        return _Reader(list(_tokens(text))).read()
    except RecursionError:
        raise LayoutError(1, 1, "nested too deeply") from None


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    rows = [row + "\n" for row in text.split("\n")]
    reading = iter(rows)
    try:
        for token in tokenize.generate_tokens(lambda: next(reading, "")):
            if token.type == tokenize.ERRORTOKEN:
                line, column = token.start
                raise LayoutError(line, column + 1, f"{token.string!r} is not understood")
            yield token
    except tokenize.TokenError as error:
        what, (line, column) = error.args
        raise LayoutError(line, column + 1, what) from None
    except SyntaxError as error:
        raise LayoutError(error.lineno or 1, error.offset or 1, error.msg) from None


class _Reader:
    def __init__(self, tokens: list[tokenize.TokenInfo]) -> None:
        self._tokens = _whole_strings(tokens)
        self._at = 0
        self._columns = [0]  # of the blocks that are open
        self._row = 0  # where the last thing ended
        self._found: list[Line] = []
        self._pending: list[tuple[Line, int]] = []  # comments, and their columns

    def read(self) -> list[Line]:
        """All of it."""
        before = [0]
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            match token.type:
                case tokenize.INDENT:
                    self._columns.append(len(token.string))
                case tokenize.DEDENT:
                    self._columns.pop()
                case tokenize.COMMENT:
                    line = Line(0, self._apart(token), [], token.string.rstrip())
                    self._pending.append((line, token.start[1]))
                case tokenize.NL | tokenize.ENDMARKER:
                    pass
                case _:
                    self._place(before)
                    self._statement(token)
                    before = list(self._columns)
                    continue
            self._at += 1
        self._columns = [0]
        self._place(before)
        return self._found

    def _place(self, before: list[int]) -> None:
        """Give comments their blocks: of those that end here, the ones they are indented to."""
        depth = len(self._columns) - 1
        most = max(len(before) - 1, depth)
        for line, column in self._pending:
            inner = (d for d in range(depth, len(before)) if before[d] <= column)
            most = min(most, max(inner, default=depth))
            line.depth = max(most, depth)
            self._found.append(line)
        self._pending.clear()

    def _apart(self, token: tokenize.TokenInfo) -> bool:
        apart = 0 < self._row < token.start[0] - 1
        self._row = token.end[0]
        return apart

    def _statement(self, first: tokenize.TokenInfo) -> None:
        line = Line(len(self._columns) - 1, self._apart(first), [])
        while (token := self._tokens[self._at]).type != tokenize.NEWLINE:
            if token.type == tokenize.COMMENT:
                line.comment = token.string.rstrip()
                self._at += 1
            elif token.type in _SKIPPED:
                self._at += 1
            else:
                line.parts.append(self._part(line.parts))
        self._row = self._tokens[self._at - 1].end[0]
        self._at += 1
        self._found.append(line)

    def _part(self, before: list[Word | Brackets]) -> Word | Brackets:
        token = self._tokens[self._at]
        if token.type == tokenize.OP and token.string in _CLOSING:
            return self._brackets(before)
        self._at += 1
        text = token.string
        if token.type == tokenize.STRING:
            text = _PLAIN.sub(r'"\1"', text) if _PLAIN.fullmatch(text) else text
        return Word(text, text in _SIGNS and not _is_value(before))

    def _brackets(self, before: list[Word | Brackets]) -> Brackets:
        opening = self._tokens[self._at]
        self._at += 1
        found = Brackets(_kind(opening.string, before), opening.string)
        item = Item()
        remarks: list[tuple[int, str]] = []  # in an item: behind how many of its parts
        row = opening.end[0]
        while True:
            token = self._tokens[self._at]
            if token.type == tokenize.COMMENT:
                self._at += 1
                comment = token.string.rstrip()
                if item.parts:
                    same = token.start[0] == row
                    remarks.append((len(item.parts) if same else -len(item.parts), comment))
                elif found.items and token.start[0] == row and not item.above:
                    _remark(found.items[-1], comment)
                else:
                    item.above.append(comment)
                continue
            if token.type in _SKIPPED:
                self._at += 1
                continue
            if token.string in (",", found.closing) and token.type == tokenize.OP:
                self._at += 1
                if item.parts:
                    if token.string == found.closing:
                        end = -len(item.parts)
                        found.last = [comment for after, comment in remarks if after == end]
                        remarks = [remark for remark in remarks if remark[0] != end]
                    _finish(item, remarks)
                    found.items.append(item)
                    found.comma = token.string == ","
                    if token.string == found.closing:
                        return found
                    item, remarks = Item(), []
                    row = token.end[0]
                    continue
                found.last = item.above
                return found
            item.parts.append(self._part(item.parts))
            row = self._tokens[self._at - 1].end[0]


def _whole_strings(tokens: list[tokenize.TokenInfo]) -> list[tokenize.TokenInfo]:
    """Format strings as one token each, as they are before Python 3.12."""
    start, end = (getattr(tokenize, f"FSTRING_{part}", -1) for part in ("START", "END"))
    found: list[tokenize.TokenInfo] = []
    opened: list[tokenize.TokenInfo] = []
    for token in tokens:
        if token.type == start:
            opened.append(token)
        elif token.type == end:
            first = opened.pop()
            if not opened:
                text = _between(first, token)
                found.append(first._replace(type=tokenize.STRING, string=text, end=token.end))
        elif not opened:
            found.append(token)
    return found


def _between(first: tokenize.TokenInfo, last: tokenize.TokenInfo) -> str:
    """What stands from one token to another. A string over several lines has them all in `line`."""
    if first.start[0] == last.end[0]:
        return first.line[first.start[1] : last.end[1]]
    raise LayoutError(*first.start, "a format string over several lines is not understood")


def _is_value(before: list[Word | Brackets]) -> bool:
    """Whether an expression ends here, so that an operator may follow."""
    if not before:
        return False
    last = before[-1]
    if isinstance(last, Brackets):
        return True
    return last.text[0].isalnum() or last.text[0] in "_\"'" if not _is_keyword(last) else False


def _is_keyword(word: Word) -> bool:
    return keyword.iskeyword(word.text) and word.text not in ("None", "True", "False")


def _kind(opening: str, before: list[Word | Brackets]) -> str:
    called = _is_value(before)
    match opening:
        case "(" if called and len(before) > 1 and before[-2] == Word("def"):
            return PARAMETERS
        case "(":
            return CALL if called else PARENTHESES
        case "[":
            return SUBSCRIPT if called else LIST
        case _:
            return DICT


def _remark(item: Item, comment: str) -> None:
    """A comment behind an item; there is place for one."""
    if item.behind is not None:
        item.above.append(item.behind)
    item.behind = comment


def _finish(item: Item, remarks: list[tuple[int, str]]) -> None:
    """Find a place for the comments within an item: behind it, or above."""
    for after, comment in remarks:
        if after == len(item.parts):
            _remark(item, comment)
        else:
            item.above.append(comment)
