"""What a hostile process has us read: its memory, the names it gives, the files it made.

Each target stands on the real thing: our own memory through its mem file, files in a folder of
their own. Close `Ground` to remove it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import struct
import tempfile
from stat import S_ISLNK

from codex_multitool.interception import loader, memory, relay
from codex_multitool.interception.memory import Memory
from codex_multitool.interception.program import Kind, examine
from codex_multitool.interception.resolve import AT_FDCWD, View, way
from codex_multitool.interception.tracee import Opened
from fuzz.pieces import head, pieces, words

_PAGE = mmap.PAGESIZE
_PAGES = 8
_BEHIND = 4  # pages mapped behind the end of the file: nobody can read them, mmap(2)
_SIZE = _PAGES * _PAGE
_MEMORY_ERRORS = (errno.EFAULT, errno.E2BIG, errno.ENAMETOOLONG)


class Region:
    """Memory whose content and whose end a process chooses."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._fd = os.memfd_create("region", os.MFD_CLOEXEC)
        os.ftruncate(self._fd, _SIZE)
        whole = (_PAGES + _BEHIND) * _PAGE
        self.start: int = libc.mmap(None, whole, mmap.PROT_READ, mmap.MAP_SHARED, self._fd, 0)
        assert self.start not in (None, ctypes.c_void_p(-1).value)

    def fill(self, content: bytes) -> None:
        """Put `content` at its end, zeros before it."""
        os.pwrite(self._fd, content.rjust(_SIZE, b"\0"), 0)


_region: list[Region] = []


def _memory_region() -> Region:
    if not _region:
        _region.append(Region())
    return _region[0]


def pointers(data: bytes) -> None:
    """A path and a vector are what is there, or the errno with which execve(2) would refuse."""
    numbers, content = data[:6], data[6:][:_SIZE]
    if len(numbers) < 6:
        return
    path_at, vector_at, count = struct.unpack("<HHH", numbers)
    region = _memory_region()
    # The vector's elements, as the caller has them: places in the region, or anything at all.
    given = [content[at : at + 2] for at in range(0, 2 * (count % 512), 2)]
    vector = [_pointer(region.start, each) for each in given if len(each) == 2]
    packed = struct.pack(f"={len(vector)}Q", *vector)
    whole = (packed + content)[-_SIZE:]
    region.fill(whole)
    expected = whole.rjust(_SIZE, b"\0")
    reader = Memory(os.getpid())
    try:
        path = path_at % (_SIZE + 8)
        _same_path(reader, region.start + path, expected[path:])
        address = region.start + _SIZE - len(whole) + vector_at % (len(packed) + 8)
        _bounded_vector(reader, address, expected)
    finally:
        reader.close()


_WILD = {0xFFFF: 1 << 63, 0xFFFE: (1 << 64) - 1, 0xFFFD: 1, 0xFFFC: 4095, 0xFFFB: 0}


def _pointer(start: int, given: bytes) -> int:
    number = int.from_bytes(given, "little")
    if number in _WILD:
        return _WILD[number]
    tag = (number & 1) << 60  # no part of an address on aarch64
    return start + number % (_SIZE + 2 * _PAGE) + tag


def _same_path(reader: Memory, address: int, expected: bytes) -> None:
    text, end, _ = expected.partition(b"\0")
    try:
        found = reader.path(address)
    except OSError as error:
        wanted = errno.ENAMETOOLONG if len(text) >= memory.PATH_MAX else errno.EFAULT
        assert error.errno == wanted, error
        assert len(text) >= memory.PATH_MAX or not end
        return
    assert end
    assert found == text
    assert len(found) < memory.PATH_MAX


def _bounded_vector(reader: Memory, address: int, expected: bytes) -> None:
    try:
        found = reader.vector(address)
    except OSError as error:
        assert error.errno in (*_MEMORY_ERRORS, errno.ESRCH), error
        return
    for word in found:
        assert os.fsencode(word) + b"\0" in expected
    assert sum(map(len, found)) <= memory.MAX_STRINGS_SIZE


class Ground:
    """A folder with files, links and folders whose names and contents a process chooses."""

    def __init__(self, name: str = "names") -> None:
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
        os.makedirs(f"{self.folder}/d/e/f")
        self.workdir = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        self._directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)

    def write(self, name: str, content: bytes) -> None:
        """A program of the process's own."""
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755, dir_fd=self._directory)
        try:
            os.write(fd, content)
        finally:
            os.close(fd)

    def link(self, name: str, target: bytes) -> None:
        """A symbolic link, if there can be one of this text."""
        try:
            os.remove(name, dir_fd=self._directory)
        except FileNotFoundError:
            pass
        try:
            os.symlink(target, name.encode(), dir_fd=self._directory)
        except OSError:
            os.symlink("nowhere", name, dir_fd=self._directory)

    def close(self) -> None:
        """Remove it."""
        os.close(self.workdir)
        os.close(self._directory)
        shutil.rmtree(self.folder)


_grounds: list[Ground] = []


def _ground() -> Ground:
    if not _grounds:
        _grounds.append(Ground())
    return _grounds[0]


def close() -> None:
    """Remove what the targets made."""
    while _grounds:
        _grounds.pop().close()


def free() -> int:
    """The lowest number that no descriptor has."""
    fd = os.open("/", os.O_PATH)
    os.close(fd)
    return fd


def program(data: bytes) -> None:
    """A file is taken for something, whatever its ELF headers or first line say."""
    ground = _ground()
    lowest = free()
    ground.write("program", data)
    found = examine("program", os.open(f"{ground.folder}/program", os.O_PATH))
    try:
        assert found.regular
        assert found.unchanged()
        assert found.path == f"{ground.folder}/program"
        assert found.interpreter is not None or found.kind is not Kind.SCRIPT
        assert found.interpreter is None or found.kind in (Kind.SCRIPT, Kind.ELF)
        if found.interpreter is not None and found.kind is Kind.SCRIPT:
            name, argument = found.interpreter
            assert data.startswith(b"#!")
            assert name
            assert os.fsencode(name) in data
            assert argument is None or os.fsencode(argument) in data
        if found.kind in (Kind.ELF, Kind.LOADER):
            assert data.startswith(b"\x7fELF")
    finally:
        os.close(found.fd)
    assert free() == lowest


def execution(data: bytes) -> None:
    """An exec of files that lead to each other opens what it opens, and closes all of it."""
    ground = _ground()
    name, argv, link, first, second, third = pieces(data, 6)
    for file, content in (("a", first), ("b", second), ("c", third)):
        ground.write(file, content)
    ground.link("l", link.replace(b"\0", b""))
    lowest = free()
    view = View(os.getpid(), os.getpid())
    opened = Opened(view, ground.workdir)
    try:
        opened.find(os.fsdecode(name.replace(b"\0", b"")), AT_FDCWD, 0)
        opened.load("a", tuple(words(argv)), lambda: tuple(words(third)))
        assert (opened.program is None) <= (opened.failure is not None)
        opened.argv_executed("a", tuple(words(argv)))
    finally:
        opened.close()
        view.close()
    assert free() == lowest


_OF_ONE_MOMENT = (b"fd", b"map_files", b"task", b"ns", b"net")


def names(data: bytes) -> None:
    """A name leads where it leads for its caller, or fails as it does for him."""
    ground = _ground()
    flags, rest = head(data)
    name, one, two = pieces(rest, 3)
    path = name.replace(b"\0", b"")
    # What is there differs from one look to the next.
    if any(part in data for part in _OF_ONE_MOMENT):
        return
    ground.link("l", one.replace(b"\0", b""))
    ground.link("m", two.replace(b"\0", b""))
    follow = bool(flags & 1)
    text = os.fsdecode(path)
    lowest = free()
    view = View(os.getpid(), os.getpid())
    try:
        ours = _opened(lambda: view.open(text, ground.workdir, follow=follow))
    finally:
        view.close()
    flag = os.O_PATH if follow else os.O_PATH | os.O_NOFOLLOW
    theirs = _opened(lambda: os.open(path, flag, dir_fd=ground.workdir))
    if not follow and isinstance(theirs, os.stat_result) and S_ISLNK(theirs.st_mode):
        assert ours == errno.ELOOP
    elif isinstance(theirs, os.stat_result):
        assert isinstance(ours, os.stat_result), f"{path!r}: {ours} where there is something"
        assert os.path.samestat(ours, theirs)
    else:
        assert ours == theirs, f"{path!r}: {ours}, {theirs}"
    assert free() == lowest
    try:
        way(f"{ground.folder}/{text}")
    except OSError as error:
        assert error.errno in (errno.ELOOP, errno.ENAMETOOLONG), error


def _opened(open_) -> os.stat_result | int | None:  # type: ignore[no-untyped-def]
    """What was opened, or the errno."""
    try:
        fd = open_()
    except OSError as error:
        return error.errno
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def loader_words(data: bytes) -> None:
    """Whatever the ELF loader is called with: a program, or none."""
    argv = words(data)
    found = loader.loading(argv)
    if found is not None:
        assert found.argv
        assert list(found.argv) == argv[-len(found.argv) :]


def stand_in(data: bytes) -> None:
    """Whatever a stand-in writes: signals that may be relayed, else nothing."""
    assert all(1 <= number <= 64 for number in relay.relayed(data))
