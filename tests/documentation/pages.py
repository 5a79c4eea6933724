"""The documentation's pages, and the fenced blocks in them.

A comment on the line before a block says more of it:

    <!-- file: PATH -->           the block is what stands in that file
    <!-- typed: y, n -->          run at a terminal; what is typed at each question there
    <!-- needs: WHAT -->          run where WHAT is at hand
    <!-- not run: REASON -->      shown only; REASON says why
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.joinpath("docs").rglob("*.md"), *ROOT.glob("packaging/**/*.md")]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(r"( *)```([a-z]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(r"<!-- (file|typed|needs|not run): (.+?) -->\n\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. place: its page and line, as compilers tell them."""

    place: str
    kind: str
    text: str
    marker: str
    value: str


def blocks(name: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    page = (ROOT / name).read_text()
    for found in _FENCE.finditer(page):
        before = page[: found.start()]
        marker = _MARKER.search(before)
        indent, kind, text = found.groups()
        yield Block(
            place=f"{name}:{before.count(chr(10)) + 1}",
            kind=kind,
            text=re.sub(f"^{indent}", "", text, flags=re.MULTILINE),
            marker=marker[1] if marker else "",
            value=marker[2] if marker else "",
        )


def without_blocks(name: str) -> str:
    """The page's prose."""
    return _FENCE.sub("", (ROOT / name).read_text())
