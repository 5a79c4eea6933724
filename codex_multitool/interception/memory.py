"""LEAF: strings and vectors from another process's memory, read once, bounded as execve(2) does.

Whoever owns that memory may be hostile and may be changing it: every page is read at most once,
so the answers fit one another, and no length is taken on trust.
"""

import os
import struct
from collections.abc import Sequence
from errno import E2BIG, EFAULT, EIO, ENAMETOOLONG, ESRCH

# include/uapi/linux/limits.h, binfmts.h; fs/exec.c bounds argv and envp by 3/4 of _STK_LIM.
PATH_MAX = 4096
MAX_ARG_STRLEN = 131072
MAX_STRINGS_SIZE = 6 * 1024 * 1024

_PAGE = 4096
_BLOCK = 16 * _PAGE
_FEW = 16  # most commands have fewer words
_POINTER = 8
_FEW_POINTERS = struct.Struct(f"={_FEW}Q")
_HIGHEST = 1 << 56  # above any user address; a tag in the top byte (aarch64) is not part of it


class Memory:
    """The memory of the thread `tid` at this moment; raises OSError as open(2) of its mem file.

    All strings read by one object share the kernel's limit, pointers included.
    """

    def __init__(self, tid: int) -> None:
        self._fd = os.open(f"/proc/{tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self._pages: dict[int, bytes] = {}
        self._room = MAX_STRINGS_SIZE

    def close(self) -> None:
        """Close the mem file."""
        os.close(self._fd)

    def path(self, address: int) -> bytes:
        """A path name; OSError EFAULT, ENAMETOOLONG as the kernel would say."""
        return self._string(address, PATH_MAX, ENAMETOOLONG)

    def vector(self, address: int) -> tuple[str, ...]:
        """A vector of strings, argv or envp; OSError EFAULT, E2BIG."""
        strings = []
        for pointer in self._pointers(address):
            # The usual string lies within a page that has been read, and most calls are for those.
            offset = pointer & (_PAGE - 1)
            page = self._pages.get(pointer - offset, b"")
            end = page.find(b"\0", offset)
            string = page[offset:end] if end >= 0 else self._string(pointer, MAX_ARG_STRLEN, E2BIG)
            strings.append(string)
            self._room -= len(string) + 1 + _POINTER
            if self._room < 0:
                raise OSError(E2BIG, os.strerror(E2BIG))
        # One decoding for all: they may be many, and hold no NUL.
        joined = os.fsdecode(b"\0".join(strings))
        return tuple(joined.split("\0")) if strings else ()

    def _pointers(self, address: int) -> Sequence[int]:
        """The pointers up to the null one; a null vector is an empty one, execve(2) NOTES."""
        found: list[int] = []
        count = _FEW
        offset = address & (_PAGE - 1)
        if 0 < address < _HIGHEST and offset <= _PAGE - _FEW_POINTERS.size:
            words = _FEW_POINTERS.unpack_from(self._page(address - offset), offset)
            if 0 in words:
                return words[: words.index(0)]
        while address:
            # Not past the page's end: there need be nothing. A pointer may lie across it, though.
            end = (address | (_PAGE - 1)) + 1
            count = max(min(count, (end - address) // _POINTER), 1)
            words = struct.unpack(f"={count}Q", self._exactly(address, count * _POINTER))
            if 0 in words:
                found.extend(words[: words.index(0)])
                break
            found.extend(words)
            address += count * _POINTER
            count = _PAGE
            if len(found) * _POINTER > self._room:
                raise OSError(E2BIG, os.strerror(E2BIG))
        return found

    def _string(self, address: int, limit: int, too_long: int) -> bytes:
        """The bytes before the next NUL, of which there must be fewer than `limit`."""
        address &= _HIGHEST - 1
        offset = address & (_PAGE - 1)
        page = self._pages.get(address - offset) or self._page(address - offset)
        end = page.find(b"\0", offset)
        if end >= 0:
            return page[offset:end]  # every limit is at least a page
        parts = [page[offset:]]
        length = len(parts[0])
        while end < 0 and length < limit:
            address = (address & -_PAGE) + _PAGE
            page = self._page(address, _BLOCK)
            end = page.find(b"\0")
            parts.append(page if end < 0 else page[:end])
            length += len(parts[-1])
        if end < 0 or length >= limit:
            raise OSError(too_long, os.strerror(too_long))
        return b"".join(parts)

    def _exactly(self, address: int, size: int) -> bytes:
        address &= _HIGHEST - 1
        page = self._page(address & -_PAGE)
        offset = address & (_PAGE - 1)
        if offset + size <= _PAGE:
            return page[offset : offset + size]
        following = self._page((address & -_PAGE) + _PAGE)
        return page[offset:] + following[: offset + size - _PAGE]

    def _page(self, start: int, following: int = 0) -> bytes:
        page = self._pages.get(start)
        if page is None:
            self._load(start, _PAGE + following)
            page = self._pages[start]
        return page

    def _load(self, start: int, size: int) -> None:
        """Read pages from `start` on; mem files answer short where memory ends."""
        try:
            block = os.pread(self._fd, size, start)
        except OSError as error:
            if error.errno == EIO:
                raise OSError(EFAULT, os.strerror(EFAULT)) from None
            raise
        if len(block) < _PAGE:
            # EFAULT in the middle of a page cannot be; no bytes at all: the process has ended.
            raise OSError(EFAULT if block else ESRCH, "memory ended")
        for offset in range(0, len(block) - _PAGE + 1, _PAGE):
            self._pages.setdefault(start + offset, block[offset : offset + _PAGE])
