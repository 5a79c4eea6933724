"""What a command printed: as much as is worth keeping, in the order it came — pure.

Of each stream and of both together the beginning and the end are kept; what lay between is
counted and said so. Text is UTF-8; bytes that are not are replaced, and that is said too.
"""

import re
from collections import deque
from typing import NamedTuple

CAP = 1 << 20  # bytes kept of each stream, and of both together
_LINE = 200  # characters of a line told while the command runs
_SMALL, _JOINED = 1 << 12, 1 << 16  # bytes of a piece that is joined with others, and of those
STDOUT, STDERR = 0, 1


class Captured(NamedTuple):
    """One stream as text. dropped: bytes cut out of its middle. replaced: it was not all UTF-8."""

    text: str
    dropped: int
    replaced: bool


class Buffer:
    """Keeps the first and the last half of `cap` bytes.

    The end is kept in the pieces it came in: a command may print far more than is kept, and what is
    only passed on is not copied. Small pieces are joined, or each would take more than it holds.
    """

    def __init__(self, cap: int = CAP) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail: deque[bytes | bytearray] = deque()
        self._size = 0  # of the tail: half of `cap`, and less than a piece more
        self._dropped = 0

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
            gone = len(self._tail.popleft())
            self._size -= gone
            self._dropped += gone

    def end(self, size: int) -> bytes:
        """The last bytes, `size` at most."""
        found = b""
        for piece in reversed(self._tail or (self._head,)):
            found = bytes(piece[-size:]) + found
            if len(found) >= size:
                break
        return found[-size:]

    def captured(self) -> Captured:
        """What is kept, with a line in place of what is not."""
        surplus = max(0, self._size - self._half)
        last = b"".join(self._tail)[surplus:]
        if not (self._dropped or surplus):
            return _decode(bytes(self._head) + last, 0)
        # A character cut in two is no mistake of the command's: both halves are left out.
        head, tail = _whole_end(bytes(self._head)), _whole_start(last)
        dropped = self._dropped + surplus
        dropped += len(self._head) - len(head) + len(last) - len(tail)
        start, end = _decode(head, 0), _decode(tail, 0)
        text = f"{start.text}\n[... {dropped} bytes left out ...]\n{end.text}"
        return Captured(text, dropped, start.replaced or end.replaced)


class Capture:
    """stdout and stderr apart, and both in order of arrival."""

    def __init__(self, cap: int = CAP) -> None:
        self._streams = (Buffer(cap), Buffer(cap))
        self._both = Buffer(cap)
        self._begun = [b"", b""]  # of each stream, a character that is not complete yet

    def feed(self, stream: int, data: bytes) -> None:
        """Take what came on STDOUT or STDERR."""
        self._streams[stream].feed(data)
        data = self._begun[stream] + data
        whole = _whole_end(data)
        self._begun[stream] = data[len(whole) :]
        self._both.feed(whole)

    def last_line(self) -> str:
        """The last line so far that says anything, of either stream, fit to be shown."""
        text = self._both.end(4 * _LINE).decode(errors="replace")
        for line in reversed(re.split(r"[\r\n]", text)):
            plain = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", line)  # control sequences: ECMA-48, 5.4
            shown = "".join(c if c.isprintable() else " " for c in plain).strip()
            if shown:
                return shown[:_LINE]
        return ""

    def stdout(self) -> Captured:
        """What came on standard output."""
        return self._streams[STDOUT].captured()

    def stderr(self) -> Captured:
        """What came on standard error."""
        return self._streams[STDERR].captured()

    def both(self) -> Captured:
        """What came on either, in order of arrival; called when no more comes."""
        for stream in (STDOUT, STDERR):
            self._both.feed(self._begun[stream])
            self._begun[stream] = b""
        return self._both.captured()


def _decode(data: bytes, dropped: int) -> Captured:
    try:
        return Captured(data.decode(), dropped, replaced=False)
    except UnicodeDecodeError:
        return Captured(data.decode(errors="replace"), dropped, replaced=True)


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
