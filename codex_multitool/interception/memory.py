"""LEAF: strings and vectors from another process's memory, read once, bounded as execve(2) does.

Whoever owns that memory may be hostile and may be changing it: every page is read at most once,
so the answers fit one another, and no length is taken on trust.
"""

import os
import struct
from collections.abc import Iterable, Sequence
from errno import E2BIG, EFAULT, EIO, ENAMETOOLONG, ESRCH

from codex_multitool.interception.kernel import MOST_PIECES, KernelError, process_vm_readv

# include/uapi/linux/limits.h, binfmts.h; fs/exec.c bounds argv and envp by 3/4 of _STK_LIM.
PATH_MAX = 4096
MAX_ARG_STRLEN = 131072
MAX_STRINGS_SIZE = 6 * 1024 * 1024

_PAGE = 4096
_BLOCK = 16 * _PAGE
_FEW = 16  # most commands have fewer words
_SHORT = 256  # most words are shorter
_MANY = 64  # and environments fewer variables
_POINTER = 8
_FEW_POINTERS = struct.Struct(f"={_FEW}Q")
_HIGHEST = 1 << 56  # above any user address; a tag in the top byte (aarch64) is not part of it
_START = (_HIGHEST - 1) & -_PAGE  # of a page, of an address
_WITHIN = _PAGE - 1


def glance(tid: int, path_at: int, argv_at: int) -> tuple[bytes, bytes] | None:
    """Path and arguments, each of these with its NUL, of the usual exec; None of any other.

    The usual one has few and short ones, none of which lies across a page's end.
    """
    before, size = _short(path_at), min(_short(argv_at), _FEW_POINTERS.size)
    text = process_vm_readv(tid, path_at, before, argv_at, size)
    path, ended, _ = text[:before].partition(b"\0")
    if len(text) < before + _FEW_POINTERS.size or not ended:
        return None
    pieces: list[int] = []
    for pointer in _FEW_POINTERS.unpack_from(text, before):
        if not pointer:
            break
        pieces += pointer, _short(pointer)
    else:
        return None
    text = process_vm_readv(tid, *pieces)
    arguments, at = b"", 0
    for size in pieces[1::2]:
        argument, ended, _ = text[at : at + size].partition(b"\0")
        if not ended:
            return None
        arguments += argument + ended
        at += size
    return path, arguments


def _short(address: int) -> int:
    """The size of what is read of a string at once: not past the page's end."""
    return min(_SHORT, _PAGE - address % _PAGE)


class Memory:
    """The memory of the thread `tid`, as long as that is the thread that is meant.

    All strings read by one object share the kernel's limit, pointers included. Every reading raises
    KernelError where the memory may not be looked at.
    """

    def __init__(self, tid: int) -> None:
        self._tid = tid
        self._file = -1
        self._pages: dict[int, bytes] = {}
        self._room = MAX_STRINGS_SIZE

    def close(self) -> None:
        """Close what was opened."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def ahead(self, addresses: Iterable[int]) -> None:
        """Read the pages that hold these addresses, or some of them, in one call."""
        starts = {address & _START for address in addresses} - self._pages.keys()
        if starts:
            self._fetch([*starts][:MOST_PIECES])

    def path(self, address: int) -> bytes:
        """A path name; OSError EFAULT, ENAMETOOLONG as the kernel would say."""
        return self._string(address, PATH_MAX, ENAMETOOLONG)

    def vector(self, address: int) -> tuple[str, ...]:
        """A vector of strings, argv or envp; OSError EFAULT, E2BIG."""
        strings = []
        pointers = self._pointers(address)
        pages, room = self._pages, self._room
        for number, pointer in enumerate(pointers):
            # The usual string lies within a page that has been read, and most calls are for those.
            start, offset = pointer & _START, pointer & _WITHIN
            page = pages.get(start)
            if page is None:
                self.ahead(pointers[number : number + MOST_PIECES])
                page = pages.get(start, b"")
            end = page.find(b"\0", offset)
            string = page[offset:end] if end >= 0 else self._string(pointer, MAX_ARG_STRLEN, E2BIG)
            strings.append(string)
            room -= len(string) + 1 + _POINTER
            if room < 0:
                raise OSError(E2BIG, os.strerror(E2BIG))
        self._room = room
        # One decoding for all: they may be many, and hold no NUL.
        joined = os.fsdecode(b"\0".join(strings))
        return tuple(joined.split("\0")) if strings else ()

    def _pointers(self, address: int) -> Sequence[int]:
        """The pointers up to the null one; a null vector is an empty one, execve(2) NOTES."""
        found: list[int] = []
        count = _MANY
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
            count *= _MANY
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
            wanted = range(start, start + _PAGE + following, _PAGE)
            # What it does not give, the file may: without PROT_READ (the kernel itself reads what
            # may be written), or where an outer filter refuses it.
            if not self._fetch(wanted):
                self._read(start, len(wanted) * _PAGE)
            page = self._pages[start]
        return page

    def _fetch(self, starts: Sequence[int]) -> bool:
        """Read pages, up to the first that cannot be read; False if that is the first."""
        pieces = [_PAGE] * (2 * len(starts))
        pieces[::2] = starts
        text = process_vm_readv(self._tid, *pieces)
        whole = range(0, len(text) - _PAGE + 1, _PAGE)
        for offset, start in zip(whole, starts, strict=False):
            self._pages.setdefault(start, text[offset : offset + _PAGE])
        return bool(whole)

    def _read(self, start: int, size: int) -> None:
        """The same by the mem file, which answers short where memory ends."""
        try:
            if self._file < 0:
                self._file = os.open(f"/proc/{self._tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise KernelError("open of its mem file", error.errno or ESRCH) from None
        try:
            block = os.pread(self._file, size, start)
        except OSError as error:
            if error.errno == EIO:
                raise OSError(EFAULT, os.strerror(EFAULT)) from None
            raise
        if len(block) < _PAGE:
            # EFAULT in the middle of a page cannot be; no bytes at all: the process has ended.
            raise OSError(EFAULT if block else ESRCH, "memory ended")
        for offset in range(0, len(block) - _PAGE + 1, _PAGE):
            self._pages.setdefault(start + offset, block[offset : offset + _PAGE])
