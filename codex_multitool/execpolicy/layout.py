"""Rules texts in one layout, that of our documentation — pure.

A call, list or dictionary stands on one line if it fits and has no comma at its end; otherwise each
item has a line of its own, with a comma. Blocks are indented by 4, strings are in double quotes
where that takes no backslash, and at most one empty line separates statements. Comments stay, and
no word changes: what is laid out is read again and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codex_multitool.execpolicy.layout_tree import (
    CALL,
    PARAMETERS,
    SUBSCRIPT,
    Brackets,
    Item,
    LayoutError,
    Line,
    Word,
    lines,
)

WIDTH = 100
_INDENT = 4
_Parts = Sequence[Word | Brackets]


def laid_out(text: str) -> str:
    """The text in the one layout. Raises LayoutError if it is not understood."""
    before = lines(text.replace("\r\n", "\n"))
    try:
        found = "".join(_line(line, first=line is before[0]) for line in before)
    except RecursionError:
        raise LayoutError(1, 1, "nested too deeply") from None
    after = lines(found)
    if [*_words(before)] != [*_words(after)] or _comments(before) != _comments(after):
        raise LayoutError(1, 1, "it would mean something else: this is a mistake of ours")
    return found


def _line(line: Line, *, first: bool) -> str:
    indent = line.depth * _INDENT
    text = _rendered(line.parts, indent, None, behind=0)
    if line.comment is not None:
        text += f"  {line.comment}" if line.parts else line.comment
    return ("\n" if line.apart and not first else "") + " " * indent + text + "\n"


def _rendered(parts: _Parts, indent: int, kind: str | None, *, behind: int) -> str:
    """The parts from column `indent` on. kind: of the brackets around; behind: what has to fit."""
    text = ""
    for at, part in enumerate(parts):
        text += _space(parts, at, kind)
        if isinstance(part, Word):
            text += part.text
            continue
        flat = _flat([part], None)
        column = indent + len(text) if "\n" not in text else len(text) - text.rindex("\n") - 1
        if flat is None or column + len(flat) + _tail(parts, at, kind, behind) > WIDTH:
            flat = _broken(part, indent) if part.items or part.last else flat
        text += flat or ""
    return text


def _tail(parts: _Parts, at: int, kind: str | None, behind: int) -> int:
    """How much follows a part before the line can be broken again."""
    size = 0
    for then in range(at + 1, len(parts)):
        part = parts[then]
        size += len(_space(parts, then, kind))
        if isinstance(part, Brackets):
            return size + 1
        size += len(part.text)
    return size + behind


def _broken(brackets: Brackets, indent: int) -> str:
    """An item per line."""
    inner = indent + _INDENT
    margin = "\n" + " " * inner
    text = brackets.opening
    for item in brackets.items:
        comma = item is not brackets.items[-1] or brackets.takes_comma or brackets.comma
        text += "".join(margin + comment for comment in item.above)
        text += margin + _rendered(item.parts, inner, brackets.kind, behind=comma)
        text += "," * comma + (f"  {item.behind}" if item.behind is not None else "")
    text += "".join(margin + comment for comment in brackets.last)
    return text + "\n" + " " * indent + brackets.closing


def _flat(parts: _Parts, kind: str | None) -> str | None:
    """The parts on one line; None where they do not stay on one."""
    text = ""
    for at, part in enumerate(parts):
        text += _space(parts, at, kind)
        if isinstance(part, Word):
            if "\n" in part.text:
                return None
            text += part.text
            continue
        if part.last or (part.comma and part.takes_comma):
            return None
        items = [_flat_item(item, part.kind) for item in part.items]
        if any(item is None for item in items):
            return None
        comma = "," if part.comma else ""
        text += part.opening + ", ".join(filter(None, items)) + comma + part.closing
    return text


def _flat_item(item: Item, kind: str) -> str | None:
    return None if item.above or item.behind is not None else _flat(item.parts, kind)


def _space(parts: _Parts, at: int, kind: str | None) -> str:
    """What separates a part from the one before it."""
    if at == 0:
        return ""
    before, part = parts[at - 1], parts[at]
    left = before.text if isinstance(before, Word) else before.closing
    right = part.text if isinstance(part, Word) else part.opening
    joined = (
        right in (",", ";", ":", ".")
        or left == "."
        or (left == ":" and kind == SUBSCRIPT)
        or ("=" in (left, right) and kind in (CALL, PARAMETERS))
        or (isinstance(before, Word) and before.sign)
        or (isinstance(part, Brackets) and part.kind in (CALL, PARAMETERS, SUBSCRIPT))
    )
    return "" if joined else " "


def _words(found: Sequence[Line]) -> Iterator[object]:
    """All that has a meaning, in order."""
    for line in found:
        if line.parts:
            yield line.depth
            yield from _words_of(line.parts)


def _words_of(parts: _Parts) -> Iterator[object]:
    for part in parts:
        if isinstance(part, Word):
            yield part.text
            continue
        yield part.kind, part.opening
        for item in part.items:
            yield from _words_of(item.parts)
            yield ","
        yield part.closing, part.comma and not part.takes_comma


def _comments(found: Sequence[Line]) -> list[str]:
    comments = [line.comment for line in found if line.comment is not None]
    for line in found:
        comments += _comments_of(line.parts)
    return sorted(comments)


def _comments_of(parts: _Parts) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Brackets):
            for item in part.items:
                yield from item.above
                yield from _comments_of(item.parts)
                if item.behind is not None:
                    yield item.behind
            yield from part.last
