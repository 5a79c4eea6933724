"""What a command printed: as much as is worth keeping, in the order it came — pure.

The beginning and the end are kept; what lay between is counted, and goes elsewhere with all the
rest. Text is UTF-8; bytes that are not are replaced, and that is said too.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

SIZE = 11_000  # kept unless told otherwise
_LINES, _EITHER = 2000, 990  # some clients pass on no more; of a head and a tail with words between
_LONG = 1000  # bytes of a line that is rather cut than left out
_LINE = 200  # characters of a line told while the command runs
_SMALL, _JOINED = 1 << 12, 1 << 16  # bytes of a piece that is joined with others, and of those
_WORST = 6  # characters in which JSON spells a byte
# What it spells by a backslash and a letter, and in six characters: RFC 8259, section 7.
_ESCAPED = b'"\\\b\f\n\r\t'
_CONTROLS = bytes(byte for byte in range(0x20) if byte not in _ESCAPED)
STDOUT, STDERR = 0, 1


class Output(NamedTuple):
    """What a command printed. left_out: bytes between head and tail; without any, all is in head.

    replaced: it was not all UTF-8.
    """

    head: str
    tail: str = ""
    left_out: int = 0
    replaced: bool = False

    def text(self, gap: str = "") -> str:
        """All of it. gap: stands on a line of its own for what was left out, if anything was."""
        if not self.left_out:
            return self.head
        before = self.head if self.head.endswith("\n") or not self.head else f"{self.head}\n"
        return f"{before}{gap or f'[... {self.left_out} bytes left out ...]'}\n{self.tail}"


class Buffer:
    """Keeps the first and the last half of `cap` bytes, an even number, and perhaps more.

    The end is kept in the pieces it came in: a command may print far more than is kept, and what is
    only passed on is not copied. Small pieces are joined, or each would take more than it holds.
    """

    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail: deque[bytes | bytearray] = deque()
        self._size = 0  # of the tail: half of `cap`, and less than a piece more

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        last = self._tail[-1] if self._tail else b""
        if len(data) >= _SMALL:
            self._tail.append(data)
        elif isinstance(last, bytearray) and len(last) < _JOINED:
            last += data
        else:
            self._tail.append(bytearray(data))
        self._size += len(data)
        while self._size - len(self._tail[0]) >= self._half:
            self._size -= len(self._tail.popleft())

    def end(self, size: int) -> bytes:
        """The last bytes, `size` at most."""
        found = b""
        for piece in reversed(self._tail or (self._head,)):
            found = bytes(piece[-size:]) + found
            if len(found) >= size:
                break
        return found[-size:]

    def kept(self) -> tuple[bytes, bytes]:
        """The beginning and the end; all, if there is no more than `cap`."""
        return bytes(self._head), b"".join(self._tail)


class Capture:
    """stdout and stderr in order of arrival.

    size: bytes to keep, as JSON spells them. rest: takes all that came, from the first byte on,
    once it is clear that not all of it is kept.
    """

    def __init__(self, size: int = SIZE, rest: Callable[[bytes], None] = lambda _: None) -> None:
        self._size = size // 2 * 2
        self._rest = rest
        self._buffer = Buffer(self._size)
        self._total = 0
        self._begun = [b"", b""]  # of each stream, a character that is not complete yet

    def feed(self, stream: int, data: bytes) -> None:
        """Take what came on STDOUT or STDERR."""
        if self._begun[stream]:
            data = self._begun[stream] + data
        whole = _whole_end(data)
        self._begun[stream] = data[len(whole) :]
        self._keep(whole)

    def _keep(self, data: bytes) -> None:
        fitted = self._total <= self._size
        self._total += len(data)
        if self._total > self._size:
            if fitted:
                self._rest(b"".join(self._buffer.kept()))
            self._rest(data)
        self._buffer.feed(data)

    def last_line(self) -> str:
        """The last line so far that says anything, of either stream, fit to be shown."""
        text = self._buffer.end(4 * _LINE).decode(errors="replace")
        for line in reversed(re.split(r"[\r\n]", text)):
            plain = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", line)  # control sequences: ECMA-48, 5.4
            shown = "".join(c if c.isprintable() else " " for c in plain).strip()
            if shown:
                return shown[:_LINE]
        return ""

    def output(self) -> Output:
        """What is kept; called when no more comes."""
        for stream in (STDOUT, STDERR):
            self._keep(self._begun[stream])
            self._begun[stream] = b""
        head, tail = self._buffer.kept()
        if self._total <= self._size:
            whole = head + tail
            if _fits(whole, self._size):
                text, replaced = _decode(whole)
                return Output(text, replaced=replaced)
            self._rest(whole)
            head, tail = whole, whole
        head = _beginning(head, self._size // 2)
        if self._total <= self._size:
            tail = tail[len(head) :]
        tail = _end(tail, self._size // 2)
        (first, bad), (last, bad_too) = _decode(head), _decode(tail)
        return Output(first, last, self._total - len(head) - len(tail), bad or bad_too)


def _fits(data: bytes, size: int) -> bool:
    if len(data) * _WORST <= size and len(data) <= _LINES:
        return True
    return _spelled(data) <= size and data.count(b"\n") <= _LINES


def _spelled(data: bytes) -> int:
    """As how many bytes of JSON a client is given it."""
    text = _decode(data)[0].encode()
    unescaped = text.translate(None, _ESCAPED)
    controls = len(unescaped) - len(unescaped.translate(None, _CONTROLS))
    return 2 * len(text) - len(unescaped) + (_WORST - 1) * controls


def _beginning(data: bytes, size: int) -> bytes:
    """As much of the beginning as fits, cut at the end of a line, or else of a character."""
    data = data[: size + 1]
    fits = bisect_right(range(1, len(data) + 1), size, key=lambda end: _spelled(data[:end]))
    found = data[:fits]
    if found.count(b"\n") > _EITHER:
        return b"\n".join(found.split(b"\n", _EITHER)[:_EITHER]) + b"\n"
    line = found.rfind(b"\n") + 1
    return found[:line] if line and fits - line <= _LONG else _whole_end(found)


def _end(data: bytes, size: int) -> bytes:
    """As much of the end as fits, cut at the beginning of a line, or else of a character."""
    data = data[-size - 1 :]
    fits = bisect_right(
        range(1, len(data) + 1), size, key=lambda count: _spelled(data[len(data) - count :])
    )
    start = len(data) - fits
    found = data[start:]
    if found.count(b"\n") > _EITHER:
        return b"\n".join(found.rsplit(b"\n", _EITHER + 1)[1:])
    if start and data[start - 1 : start] == b"\n":
        return found
    line = found.find(b"\n") + 1
    return found[line:] if 0 < line < len(found) and line <= _LONG else _whole_start(found)


def _decode(data: bytes) -> tuple[str, bool]:
    """Text, and whether bytes had to be replaced in it."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


def _whole_end(data: bytes) -> bytes:
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= width else data[:-back]
    return data


def _whole_start(data: bytes) -> bytes:
    at = 0
    while at < min(3, len(data)) and 0x80 <= data[at] < 0xC0:
        at += 1
    return data[at:]
