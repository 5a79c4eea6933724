"""LEAF: what a file opened for execution is, from its first bytes: an ELF program, a script, the
ELF loader. Read like the kernel does (fs/binfmt_script.c, fs/binfmt_elf.c); decides nothing.
"""

import enum
import os
import struct
from collections.abc import Collection, Mapping
from stat import S_ISREG
from typing import NamedTuple

HEAD_SIZE = 256  # BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h

_ELF_MAGIC = b"\x7fELF"
_ELF_HEADER = struct.Struct("=16sHHIQQQIHHHHHH")
_ELF_SEGMENT = struct.Struct("=IIQQQQQQ")  # Elf64_Phdr, elf(5)
_ELF_ENTRY = struct.Struct("=qQ")  # Elf64_Dyn
_ET_DYN = 3
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14
_MOST_SEGMENTS = (1 << 16) // _ELF_SEGMENT.size  # load_elf_phdrs, fs/binfmt_elf.c
_AHEAD = 1024  # of a file, where all that is asked of an ELF program mostly stands
_LONGEST_NAME = 4096
_MOST_ENTRIES = 256
_NAME_SIZE = 64
_LOADER_NAMES = ("ld-", "ld.so", "ld64.so", "libc.musl-", "libc.so")  # glibc's and musl's


class Kind(enum.Enum):
    """What the kernel would take the file for."""

    ELF = "elf"
    LOADER = "loader"  # an ELF program that loads another one, ld.so(8)
    SCRIPT = "script"
    UNREADABLE = "unreadable"  # executable but not readable by us
    OTHER = "other"  # ENOEXEC, unless binfmt_misc knows it


Identity = tuple[int, int, int, int, int]
# Path and argument, of a script; the path alone, of an ELF program that names one (PT_INTERP).
Interpreter = tuple[str, str | None]


class Known(NamedTuple):
    """What nobody can have changed unseen since it was found out.

    files: what they are, by identity and canonical path. loaders: names that lead to the loader.
    """

    files: Mapping[tuple[Identity, str], tuple[Kind, Interpreter | None]]
    loaders: Collection[str]


NOTHING_KNOWN = Known({}, ())


class Program(NamedTuple):
    """An opened program; close `fd` once.

    asked: the name it was reached by. path: its canonical path in our own view, None if no path
    leads to it there: a memfd, a deleted file, a foreign mount. fd: O_PATH. identity: device,
    inode, size, mtime and ctime in nanoseconds.
    """

    asked: str
    path: str | None
    fd: int
    identity: Identity
    mode: int
    owner: int
    memfd: bool
    deleted: bool
    kind: Kind
    interpreter: Interpreter | None

    @property
    def regular(self) -> bool:
        """A regular file that anybody may execute: what is not gives EACCES."""
        return S_ISREG(self.mode) and bool(self.mode & 0o111)

    def unchanged(self) -> bool:
        """Whether the file still has the content it had when it was opened."""
        return identity(os.fstat(self.fd)) == self.identity


def examine(asked: str, fd: int, known: Known = NOTHING_KNOWN) -> Program:
    """What the O_PATH descriptor `fd`, ours from now on, is. known: what was found out before."""
    try:
        status = os.fstat(fd)
        link = os.readlink(f"/proc/self/fd/{fd}")
        which = identity(status)
        before = known.files.get((which, link))
        path: str | None = link
        kind, interpreter = Kind.OTHER, None
        if before is not None:
            kind, interpreter = before
        else:
            if S_ISREG(status.st_mode):
                kind, interpreter = _content(fd)
            if not _leads_to(link, status):
                path = None
        return Program(
            asked=asked,
            path=path,
            fd=fd,
            identity=which,
            mode=status.st_mode,
            owner=status.st_uid,
            memfd=status.st_nlink == 0 and link.startswith("/memfd:"),
            deleted=status.st_nlink == 0,
            kind=kind,
            interpreter=interpreter,
        )
    except BaseException:
        os.close(fd)
        raise


def identity(status: os.stat_result) -> Identity:
    """What tells a file, and its content, from another: see Program."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _leads_to(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:
        return False


def _content(fd: int) -> tuple[Kind, Interpreter | None]:
    try:
        # O_NONBLOCK: a lease on the file would hold us up, fcntl(2) F_SETLEASE.
        file = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return Kind.UNREADABLE, None
    try:
        head = os.pread(file, _AHEAD, 0)
        if head.startswith(b"#!"):
            interpreter = script_interpreter(head[:HEAD_SIZE])
            return (Kind.SCRIPT, interpreter) if interpreter else (Kind.OTHER, None)
        if head.startswith(_ELF_MAGIC):
            return _elf(file, head)
        return Kind.OTHER, None
    except OSError:
        return Kind.UNREADABLE, None
    finally:
        os.close(file)


def script_interpreter(head: bytes) -> Interpreter | None:
    """The interpreter and its argument, from a script's first HEAD_SIZE bytes; None: ENOEXEC."""
    head = head.ljust(HEAD_SIZE, b"\0")
    text = head[2:].split(b"\0", 1)[0]
    line, newline, _ = text.partition(b"\n")
    if not newline:
        # Cut off: only a name that surely ends before the cut may be taken for whole.
        line = head[2 : HEAD_SIZE - 1]
        name = head[2:HEAD_SIZE].lstrip(b" \t")
        if not name or not any(end in name for end in (b" ", b"\t", b"\0")):
            return None
    line = line.strip(b" \t")
    name = line.split(b"\0", 1)[0].replace(b"\t", b" ").partition(b" ")[0]
    if not name:
        return None
    rest = line[len(name) :]
    argument = rest.strip(b" \t").split(b"\0", 1)[0] if rest[:1] in (b" ", b"\t") else b""
    return os.fsdecode(name), os.fsdecode(argument) or None


def _elf(file: int, head: bytes) -> tuple[Kind, Interpreter | None]:
    """An ELF program with the interpreter it names; or the loader, by its DT_SONAME."""
    try:
        fields = _ELF_HEADER.unpack_from(head)
        kind, table, size, count = fields[1], fields[5], fields[9], fields[10]
        if size != _ELF_SEGMENT.size or count > _MOST_SEGMENTS:
            return Kind.ELF, None  # the kernel takes it for none
        raw = _part(file, head, table, size * count)
        segments = [_ELF_SEGMENT.unpack_from(raw, size * n) for n in range(count)]
        for segment, _, offset, _, _, length, _, _ in segments:
            if segment == _PT_INTERP:
                name = _part(file, head, offset, min(length, _LONGEST_NAME))
                return Kind.ELF, (os.fsdecode(name.split(b"\0", 1)[0]), None)
        if kind == _ET_DYN and _soname(file, segments).startswith(_LOADER_NAMES):
            return Kind.LOADER, None
    except (struct.error, OSError, OverflowError):
        pass
    return Kind.ELF, None


def _part(file: int, head: bytes, offset: int, size: int) -> bytes:
    """A part of a file, of which `head` is the beginning."""
    end = offset + size
    return head[offset:end] if end <= len(head) else os.pread(file, size, offset)


def _soname(file: int, segments: list[tuple[int, ...]]) -> str:
    for kind, _, offset, _, _, size, _, _ in segments:
        if kind == _PT_DYNAMIC:
            raw = os.pread(file, min(size, _MOST_ENTRIES * _ELF_ENTRY.size), offset)
            break
    else:
        return ""
    entries: dict[int, int] = {}
    for at in range(0, len(raw) - _ELF_ENTRY.size + 1, _ELF_ENTRY.size):
        tag, value = _ELF_ENTRY.unpack_from(raw, at)
        if tag == _DT_NULL:
            break
        entries[tag] = value
    if _DT_SONAME not in entries or _DT_STRTAB not in entries:
        return ""
    strings = entries[_DT_STRTAB]
    for kind, _, offset, address, _, size, _, _ in segments:
        if kind == _PT_LOAD and address <= strings < address + size:
            name = os.pread(file, _NAME_SIZE, strings - address + offset + entries[_DT_SONAME])
            return os.fsdecode(name.split(b"\0", 1)[0])
    return ""
