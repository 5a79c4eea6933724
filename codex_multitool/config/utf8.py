"""The text of a file that must be UTF-8 — pure."""

from __future__ import annotations


class NotUTF8Error(Exception):
    """Where the first byte stands that is not; line and column count from 1."""

    def __init__(self, byte: int, line: int, column: int) -> None:
        super().__init__(f"not UTF-8: byte 0x{byte:02x}")
        self.line = line
        self.column = column


def decode(content: bytes) -> str:
    """The text; raises NotUTF8Error."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode()) + 1
        raise NotUTF8Error(content[error.start], line, column) from None
