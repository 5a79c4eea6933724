"""LEAF: the seccomp notification descriptor, seccomp_unotify(2). No opinions.

One thread of one process reads a listener: SECCOMP_IOCTL_NOTIF_RECV blocks, whatever the
descriptor's flags, when another reader was faster than its poll(2).
"""

import ctypes
import enum
import fcntl
import os
import select
import struct
from errno import EBUSY, EINTR, EINVAL, ENOENT
from typing import NamedTuple

from codex_multitool.interception.architecture import Architecture
from codex_multitool.interception.kernel import KernelError, system_call

_SET_MODE_FILTER = 1
_GET_NOTIF_SIZES = 3
_FLAG_NEW_LISTENER = 1 << 3
_FLAG_WAIT_KILLABLE_RECV = 1 << 5  # Linux 5.19

_RECV = 0xC050_2100
_SEND = 0xC018_2101
_ID_VALID = 0x4008_2102
_ADDFD = 0x4018_2103
_SET_FLAGS = 0x4008_2104  # Linux 6.6
_SYNC_WAKE_UP = 1

_CONTINUE = 1
_ADDFD_SETFD, _ADDFD_SEND = 1, 2

# id, pid, flags; struct seccomp_data: nr, arch, instruction_pointer, args
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")  # id, val, error, flags
_ADDED = struct.Struct("=QIIII")  # id, flags, srcfd, newfd, newfd_flags


class ListenerInUseError(KernelError):
    """This process or an ancestor has a listener already: seccomp(2) allows one per tree."""


class Absent(enum.Enum):
    """Why `receive` has no notification."""

    NOTHING = "nothing is waiting"
    GONE = "the caller died or was interrupted"
    ENDED = "no process is left under the filter"


class Notification(NamedTuple):
    """One blocked system call. tid: a thread id. after: address behind the call instruction."""

    id: int
    tid: int
    number: int
    audit: int
    after: int
    arguments: tuple[int, int, int, int, int, int]


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(
    architecture: Architecture, program: bytes, *, killable: bool = True
) -> tuple[int, bool]:
    """Put the calling thread under `program`; returns the listener and whether waits are killable.

    killable (Linux 5.19): once received, a notification outlives every signal but SIGKILL.
    Raises ListenerInUseError, or KernelError (EACCES: no_new_privs is not set; ENOSYS, EINVAL: the
    kernel has no notifications).
    """
    fprog = _Program(len(program) // 8, program)
    for extra in (_FLAG_WAIT_KILLABLE_RECV, 0) if killable else (0,):
        try:
            fd = system_call(
                "seccomp",
                architecture.seccomp,
                _SET_MODE_FILTER,
                _FLAG_NEW_LISTENER | extra,
                ctypes.byref(fprog),
            )
        except KernelError as error:
            if error.errno == EBUSY:
                raise ListenerInUseError(error.call, error.errno) from None
            if not (error.errno == EINVAL and extra):
                raise
        else:
            return fd, bool(extra)
    raise AssertionError("the last turn returns or raises")


class Listener:
    """Owns a listener's descriptor.

    killable: what `install` told. Set `sync_wake_up` once: the kernel then runs caller and
    supervisor by turns on one CPU.
    """

    def __init__(self, fd: int, architecture: Architecture, *, killable: bool) -> None:
        self.fd = fd
        self.killable = killable
        self.architecture = architecture
        sizes = ctypes.create_string_buffer(6)
        system_call("seccomp", architecture.seccomp, _GET_NOTIF_SIZES, 0, sizes)
        received, answered, _ = struct.unpack("=HHH", sizes.raw)
        self._receive_size = max(received, _NOTIFICATION.size)
        self._respond_size = max(answered, _RESPONSE.size)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def close(self) -> None:
        """Close the descriptor: calls blocked on it, and later ones, fail with ENOSYS."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def receive(self, events: int = 0) -> Notification | Absent:
        """The next notification, without blocking.

        events: as poll(2) told them of this descriptor, and nothing was received since; 0 asks it.
        """
        if not events:
            ready = self._poll.poll(0)
            if not ready:
                return Absent.NOTHING
            events = ready[0][1]
        if not events & select.POLLIN:
            return Absent.ENDED
        buffer = bytearray(self._receive_size)  # the kernel wants it zeroed
        try:
            fcntl.ioctl(self.fd, _RECV, buffer)
        except OSError as error:
            if error.errno == ENOENT:
                return Absent.GONE
            if error.errno == EINTR:
                return Absent.NOTHING  # nothing was taken: it is still waiting
            raise KernelError("SECCOMP_IOCTL_NOTIF_RECV", error.errno or 0) from None
        serial, tid, _, number, audit, after, *arguments = _NOTIFICATION.unpack_from(buffer)
        a, b, c, d, e, f = arguments
        return Notification(serial, tid, number, audit, after, (a, b, c, d, e, f))

    def valid(self, notification: Notification) -> bool:
        """Whether the call is still blocked: if so, all read before belongs to its caller."""
        return self._ioctl("ID_VALID", _ID_VALID, struct.pack("=Q", notification.id)) is not None

    def resume(self, notification: Notification) -> bool:
        """Let the call happen as if there were no filter; False if the caller has gone."""
        return self._send(notification, 0, _CONTINUE)

    def fail(self, notification: Notification, errno: int) -> bool:
        """Answer the call with `errno`; False if the caller has gone."""
        return self._send(notification, -errno, 0)

    def add_descriptor(
        self, notification: Notification, fd: int, *, close_on_exec: bool, number: int | None = None
    ) -> int | None:
        """Give the caller our descriptor `fd`; returns its number there, None if it has gone.

        number: the number it shall have, closing what has it. Raises KernelError (EMFILE, ...).
        """
        request = _ADDED.pack(
            notification.id,
            0 if number is None else _ADDFD_SETFD,
            fd,
            number or 0,
            os.O_CLOEXEC if close_on_exec else 0,
        )
        return self._ioctl("ADDFD", _ADDFD, request)

    def answer_with_descriptor(self, notification: Notification, fd: int) -> int | None:
        """The same, and let the call return that number, in one step (Linux 5.14)."""
        request = _ADDED.pack(notification.id, _ADDFD_SEND, fd, 0, 0)
        return self._ioctl("ADDFD", _ADDFD, request)

    def sync_wake_up(self) -> bool:
        """Ask for SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP; False where the kernel lacks it."""
        try:
            fcntl.ioctl(self.fd, _SET_FLAGS, _SYNC_WAKE_UP)
        except OSError as error:
            if error.errno == EINVAL:
                return False
            raise KernelError("SECCOMP_IOCTL_NOTIF_SET_FLAGS", error.errno or 0) from None
        return True

    def _send(self, notification: Notification, error: int, flags: int) -> bool:
        response = _RESPONSE.pack(notification.id, 0, error, flags).ljust(self._respond_size, b"\0")
        return self._ioctl("SEND", _SEND, response) is not None

    def _ioctl(self, name: str, request: int, argument: bytes) -> int | None:
        """ioctl(2); None for ENOENT: the call is no longer blocked."""
        while True:
            try:
                return int(fcntl.ioctl(self.fd, request, bytearray(argument)))
            except OSError as error:
                if error.errno == ENOENT:
                    return None
                # A signal of ours (SIGCHLD) broke off the wait for a lock, or for the caller to
                # take a descriptor, before anything was done: kernel/seccomp.c.
                if error.errno != EINTR:
                    raise KernelError(f"SECCOMP_IOCTL_NOTIF_{name}", error.errno or 0) from None
