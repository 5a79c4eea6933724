"""Reading strings from memory: our own, laid out as a hostile caller might."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import E2BIG, EFAULT, ENAMETOOLONG

import pytest

from codex_multitool.interception import memory as module
from codex_multitool.interception.kernel import KernelError, process_vm_readv
from codex_multitool.interception.memory import (
    MAX_ARG_STRLEN,
    MAX_STRINGS_SIZE,
    PATH_MAX,
    Memory,
    glance,
)

PAGE = 4096
PROT = mmap.PROT_READ | mmap.PROT_WRITE
MAP_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_size_t
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)


@pytest.fixture(params=["by call", "by file"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    if request.param == "by file":
        monkeypatch.setattr(module, "process_vm_readv", lambda *_: b"")
    opened = Memory(os.getpid())
    yield opened
    opened.close()


@contextmanager
def failing(number: int) -> Iterator[None]:
    with pytest.raises(OSError, match=re.escape(f"[Errno {number}]")):
        yield


class Block:
    """Memory that ends where nothing is mapped."""

    def __init__(self, pages: int) -> None:
        size = (pages + 1) * PAGE
        self.start = _libc.mmap(None, size, PROT, MAP_PRIVATE_ANONYMOUS, -1, 0)
        self.end = self.start + pages * PAGE
        _libc.munmap(ctypes.c_void_p(self.end), PAGE)

    def put(self, address: int, content: bytes) -> int:
        ctypes.memmove(address, content, len(content))
        return address

    def vector(self, address: int, *strings: int) -> int:
        return self.put(address, struct.pack(f"={len(strings) + 1}Q", *strings, 0))


@pytest.mark.parametrize("length", [0, 1, PAGE - 1, PATH_MAX - 1])
@pytest.mark.parametrize("before_end", [0, 1, 100])
def test_a_path_may_end_where_memory_ends(memory: Memory, length: int, before_end: int) -> None:
    block = Block(3)
    path = b"p" * length
    at = block.put(block.end - before_end - length - 1, path + b"\0")
    assert memory.path(at) == path


def test_a_path_of_path_max_is_too_long(memory: Memory) -> None:
    block = Block(4)
    at = block.put(block.start + 7, b"p" * PATH_MAX + b"\0")
    with failing(ENAMETOOLONG):
        memory.path(at)


@pytest.mark.parametrize("address", [0, 1, 1 << 47, (1 << 64) - 1, (1 << 63) + 5])
def test_what_is_not_mapped_is_efault(memory: Memory, address: int) -> None:
    with failing(EFAULT):
        memory.path(address)


def test_a_string_that_runs_out_of_memory_is_efault(memory: Memory) -> None:
    block = Block(1)
    at = block.put(block.end - 5, b"abcde")
    with failing(EFAULT):
        memory.path(at)


def test_a_null_vector_is_an_empty_one(memory: Memory) -> None:
    assert memory.vector(0) == ()


def test_pointers_and_strings_may_lie_across_pages(memory: Memory) -> None:
    block = Block(4)
    strings = [b"", b"one", b"t" * 5000, b"\xff\xfe non-UTF-8"]
    at, pointers = block.start + PAGE - 2, []
    for string in strings:
        pointers.append(block.put(at, string + b"\0"))
        at += len(string) + 1
    vector = block.vector(block.start + 2 * PAGE - 12 + 5000, *pointers)
    assert [os.fsencode(word) for word in memory.vector(vector)] == strings


def test_a_vector_may_be_longer_than_a_page(memory: Memory) -> None:
    block = Block(4)
    word = block.put(block.start, b"word\0")
    vector = block.vector(block.start + 100, *[word] * 1500)
    assert memory.vector(vector) == ("word",) * 1500


def test_a_vector_without_end_is_efault(memory: Memory) -> None:
    block = Block(1)
    word = block.put(block.start, b"word\0")
    at = block.put(block.end - 16, struct.pack("=2Q", word, word))
    with failing(EFAULT):
        memory.vector(at)


@pytest.mark.parametrize(("length", "good"), [(MAX_ARG_STRLEN - 1, True), (MAX_ARG_STRLEN, False)])
def test_one_string_has_the_kernels_limit(memory: Memory, length: int, good: bool) -> None:
    block = Block(40)
    word = block.put(block.start, b"w" * length + b"\0")
    vector = block.vector(block.end - 32, word)
    if good:
        assert memory.vector(vector) == ("w" * length,)
        return
    with failing(E2BIG):
        memory.vector(vector)


def test_the_same_string_many_times_has_a_limit_over_all_vectors(memory: Memory) -> None:
    block = Block(40)
    word = block.put(block.start, b"w" * 100_000 + b"\0")
    half = MAX_STRINGS_SIZE // 2 // 100_009
    vector = block.vector(block.end - 1024, *[word] * half)
    assert len(memory.vector(vector)) == half
    assert len(memory.vector(vector)) == half
    with failing(E2BIG):
        memory.vector(vector)


def test_a_page_is_read_once(memory: Memory) -> None:
    block = Block(1)
    at = block.put(block.start, b"judged\0")
    vector = block.vector(block.start + 100, at)
    assert memory.path(at) == b"judged"
    block.put(block.start, b"flipped\0")
    block.vector(vector)
    memory.ahead((at, vector))
    assert memory.path(at) == b"judged"
    assert memory.vector(vector) == ("judged",)


def test_what_may_only_be_written_the_kernel_reads_and_so_do_we(memory: Memory) -> None:
    block = Block(1)
    at = block.put(block.start, b"path\0")
    _libc.mprotect(ctypes.c_void_p(block.start), PAGE, mmap.PROT_WRITE)
    assert memory.path(at) == b"path"


def test_reading_ahead_of_what_is_not_there_changes_nothing(memory: Memory) -> None:
    block = Block(1)
    at = block.put(block.start, b"path\0")
    memory.ahead((0, block.end, (1 << 64) - 1, at))
    assert memory.path(at) == b"path"
    with failing(EFAULT):
        memory.path(block.end)


def test_path_and_pointers_come_in_one_call_and_strings_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def counted(tid: int, *pieces: int) -> bytes:
        calls.append(len(pieces) // 2)
        return process_vm_readv(tid, *pieces)

    monkeypatch.setattr(module, "process_vm_readv", counted)
    block = Block(20)
    words = [block.put(block.start + n * PAGE, b"%d\0" % n) for n in range(15)]
    path = block.put(block.start + 16 * PAGE, b"path\0")
    vector = block.vector(block.start + 18 * PAGE, *words)
    memory = Memory(os.getpid())
    memory.ahead((path, vector))
    assert memory.path(path) == b"path"
    assert memory.vector(vector) == tuple(map(str, range(15)))
    assert calls == [2, 15]


def test_many_strings_on_many_pages_are_read_by_the_block() -> None:
    """No pointer is looked at again and again, however many there are."""
    asked = []

    class Watched(Memory):
        def ahead(self, addresses: Iterable[int]) -> None:
            addresses = list(addresses)
            asked.append(len(addresses))
            super().ahead(addresses)

    block = Block(1010)
    words = [block.start + n * PAGE for n in range(1000)]
    tagged = [word | 1 << 60 for word in words] * 50
    vector = block.vector(block.start + 1000 * PAGE, *words)
    assert Watched(os.getpid()).vector(vector) == ("",) * 1000
    assert (len(asked), max(asked)) == (32, 32)
    asked.clear()
    block = Block(110)
    memory = Watched(os.getpid())
    assert memory.vector(block.vector(block.start, *tagged)) == ("",) * 50_000
    assert (len(asked), max(asked)) == (32, 32)


def test_memory_that_may_not_be_looked_at_is_no_errno_of_the_callers() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    memory = Memory(ended.pid)
    for look in (memory.path, memory.vector):
        with pytest.raises(KernelError):
            look(4096)


def _glance(path: int, argv: int) -> tuple[bytes, bytes] | None:
    return glance(os.getpid(), path, argv)


@pytest.mark.parametrize("count", [0, 1, 2, 15])
def test_a_glance_shows_path_and_arguments(count: int) -> None:
    block = Block(2)
    path = block.put(block.start, b"/bin/x\0")
    words = [b"%d" % number * (number % 3) for number in range(count)]
    places = [block.put(block.start + 256 * (n + 1), word + b"\0") for n, word in enumerate(words)]
    vector = block.vector(block.start + PAGE, *places)
    assert _glance(path, vector) == (b"/bin/x", b"".join(word + b"\0" for word in words))


def test_a_glance_shows_only_what_is_few_and_short_and_within_a_page() -> None:
    block = Block(2)
    path = block.put(block.start, b"/bin/x\0")
    word = block.put(block.start + 64, b"one\0")
    long = block.put(block.start + 1024, b"x" * 256 + b"\0")
    across = block.put(block.start + PAGE - 2, b"one\0")
    at = block.start + PAGE + 8
    whole = (b"/bin/x", b"one\0")
    assert _glance(path, block.vector(at, word)) == whole
    assert _glance(long, block.vector(at, word)) is None
    assert _glance(across, block.vector(at, word)) is None
    assert _glance(path, block.vector(at, long)) is None
    assert _glance(path, block.vector(at, word, across)) is None
    assert _glance(path, block.vector(at, *[word] * 16)) is None
    assert _glance(path, block.vector(block.end - 16, word)) is None


def test_a_glance_at_what_is_not_there_shows_nothing() -> None:
    block = Block(1)
    path = block.put(block.start, b"/bin/x\0")
    vector = block.vector(block.start + 256, path)
    assert _glance(path, vector) is not None
    for wrong in (0, 1, block.end, 1 << 47, (1 << 64) - 1):
        assert _glance(wrong, vector) is None
        assert _glance(path, wrong) is None
        assert _glance(path, block.vector(block.start + 512, path, wrong)) in (
            None,
            (b"/bin/x", b"/bin/x\0") if wrong == 0 else None,
        )
