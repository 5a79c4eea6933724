"""LEAF: system calls Python lacks, through ctypes: one function per call, no opinions.

Success is judged by the return value; errno is read only after a failure.
"""

import ctypes
import os
import struct

PTRACE_CONT = 7
PTRACE_DETACH = 17
PTRACE_GETREGSET = 0x4204
PTRACE_SETREGSET = 0x4205
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_GET_SYSCALL_INFO = 0x420E  # Linux 5.3

PTRACE_O_TRACEEXEC = 1 << 4
PTRACE_O_EXITKILL = 1 << 20
PTRACE_EVENT_EXEC = 4
PTRACE_EVENT_STOP = 128

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_IN_ROOT = 0x10

PROC_SUPER_MAGIC = 0x9FA0

# The unified numbers: the same on every architecture.
_PIDFD_OPEN = 434
_OPENAT2 = 437
_PIDFD_GETFD = 438

_HOW = struct.Struct("=QQQ")  # struct open_how: flags, mode, resolve
_NT_PRSTATUS = 1
_MOST_REGISTERS = 1024
_SYSCALL_INFO = struct.Struct("=B3xIQQ")  # op, arch, instruction_pointer, stack_pointer
_STATFS_SIZE = 256  # more than struct statfs anywhere; f_type is its first word


class KernelError(Exception):
    """A system call failed."""

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: {os.strerror(errno)}")
        self.call = call
        self.errno = errno


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


# What process_vm_readv() takes at once.
MOST_PIECES = 32
MOST_BYTES = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_tgkill = getattr(_libc, "tgkill", None)  # glibc 2.30
_openat2 = _libc["syscall"]  # a second one, whose arguments need no conversion
_openat2.restype = ctypes.c_long
_openat2.argtypes = (
    *(ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
)
_pidfd = _libc["syscall"]
_pidfd.restype = ctypes.c_long
_pidfd.argtypes = (ctypes.c_long,) * 4
# Without argtypes, whose conversions take longer than the call, and with no errno to keep.
_readv = getattr(ctypes.CDLL(None), "process_vm_readv", lambda *_: -1)
# Made once: to make them takes longer than to read. One thread is the only one to.
_info = ctypes.create_string_buffer(_SYSCALL_INFO.size)
_here = ctypes.create_string_buffer(MOST_BYTES)
_seen = memoryview(_here)
_local = _Iovec(ctypes.addressof(_here), MOST_BYTES)
_local_at = ctypes.byref(_local)
_remote = (_Iovec * MOST_PIECES)()
_pieces = [struct.Struct(f"={2 * count}Q") for count in range(MOST_PIECES + 1)]
_remote_at = ctypes.byref(_remote)
_ptrace = _libc.ptrace


def system_call(name: str, number: int, *arguments: object) -> int:
    """syscall(2); integers are passed as long, so none is cut to 32 bits."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = int(_syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise KernelError(name, ctypes.get_errno())
    return result


def ptrace(request: int, tid: int, address: object = None, data: object = None) -> None:
    """ptrace(2), the requests that answer only success or failure. Addresses are objects."""
    if _ptrace(request, tid, address, data) < 0:
        raise KernelError("ptrace", ctypes.get_errno())


def process_vm_readv(tid: int, *pieces: int) -> bytes:
    """process_vm_readv(2): what the process has at these addresses, each followed by its size.

    At most MOST_PIECES, with MOST_BYTES of the whole. It ends short where one cannot be read; of a
    piece within one page there is all or nothing. Where it is refused there is nothing at all.
    """
    count = len(pieces) // 2
    _pieces[count].pack_into(_remote, 0, *pieces)
    size = _readv(tid, _local_at, 1, _remote_at, count, 0)
    return bytes(_seen[:size]) if size > 0 else b""


def ptrace_registers(tid: int) -> bytes:
    """PTRACE_GETREGSET of NT_PRSTATUS."""
    buffer = ctypes.create_string_buffer(_MOST_REGISTERS)
    vector = _Iovec(ctypes.addressof(buffer), len(buffer))
    ptrace(PTRACE_GETREGSET, tid, _NT_PRSTATUS, ctypes.byref(vector))
    return buffer.raw[: vector.length]


def ptrace_set_registers(tid: int, registers: bytes) -> None:
    """PTRACE_SETREGSET of NT_PRSTATUS."""
    buffer = ctypes.create_string_buffer(registers, len(registers))
    vector = _Iovec(ctypes.addressof(buffer), len(buffer))
    ptrace(PTRACE_SETREGSET, tid, _NT_PRSTATUS, ctypes.byref(vector))


def stack_pointer(tid: int) -> int:
    """PTRACE_GET_SYSCALL_INFO of a stopped thread: its stack pointer, on every architecture."""
    ptrace(PTRACE_GET_SYSCALL_INFO, tid, _SYSCALL_INFO.size, _info)
    return int(_SYSCALL_INFO.unpack_from(_info)[3])


def leads(tid: int) -> bool:
    """Whether a thread is its process's first, by tgkill(2); False, too, if that cannot tell."""
    return _tgkill is not None and int(_tgkill(tid, tid, 0)) == 0


def openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """openat2(2)."""
    how = _HOW.pack(flags, 0, resolve)
    fd = int(_openat2(_OPENAT2, directory, os.fsencode(path), how, len(how)))
    if fd < 0:
        raise KernelError("openat2", ctypes.get_errno())
    return fd


def filesystem_type(fd: int) -> int:
    """fstatfs(2), f_type."""
    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    if _libc.fstatfs(fd, buffer) < 0:
        raise KernelError("fstatfs", ctypes.get_errno())
    return ctypes.c_long.from_buffer(buffer).value


def pidfd_open(pid: int, flags: int) -> int:
    """pidfd_open(2)."""
    return _descriptor("pidfd_open", _pidfd(_PIDFD_OPEN, pid, flags, 0))


def pidfd_getfd(pidfd: int, number: int) -> int:
    """pidfd_getfd(2): our own descriptor (close-on-exec) for what is `number` there."""
    return _descriptor("pidfd_getfd", _pidfd(_PIDFD_GETFD, pidfd, number, 0))


def _descriptor(call: str, result: int) -> int:
    if result < 0:
        raise KernelError(call, ctypes.get_errno())
    return result
