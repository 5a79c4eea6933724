"""Raw bytes taken apart into what a target needs: small numbers and texts.

Two zero bytes part pieces, one zero byte parts words, so that a mutation moves little else.
"""

from __future__ import annotations

import os


def pieces(data: bytes, count: int) -> list[bytes]:
    """Exactly `count` pieces: missing ones are empty, the last one has all the rest."""
    found = data.split(b"\0\0", count - 1)
    return found + [b""] * (count - len(found))


def texts(data: bytes, count: int) -> list[str]:
    """The same as text, as an enemy's bytes reach us: without NUL, other bytes kept."""
    return [os.fsdecode(piece.replace(b"\0", b"")) for piece in pieces(data, count)]


def words(data: bytes) -> list[str]:
    """The words of an argv: without NUL, other bytes kept."""
    return [os.fsdecode(word) for word in data.split(b"\0")]


def head(data: bytes) -> tuple[int, bytes]:
    """A number from 0 to 255, and the rest."""
    return (data[0] if data else 0), data[1:]
