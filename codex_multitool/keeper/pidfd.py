"""LEAF: how a process ended that is not our child, by its pidfd."""

import fcntl
import os
import signal
import struct

# linux/pidfd.h: _IOWR(0xFF, 11, struct pidfd_info); its first 64 bytes end with exit_code.
_SIZE = 64
_GET_INFO = 3 << 30 | _SIZE << 16 | 0xFF << 8 | 11
_EXIT = 1 << 3


def open_process(pid: int) -> int | None:
    """A descriptor for the process, readable once it has ended; None if it has gone."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def is_waited_for(descriptor: int) -> bool:
    """Whether it has ended, and somebody has waited for it."""
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # a setuid program
    return False


def wait_status(descriptor: int) -> int | None:
    """How it ended, as wait(2) has it; None before it is reaped, and before Linux 6.15."""
    buffer = bytearray(_SIZE)
    struct.pack_into("=Q", buffer, 0, _EXIT)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, buffer)
    except OSError:
        return None
    mask, exit_code = struct.unpack_from("=Q", buffer)[0], struct.unpack_from("=i", buffer, 60)[0]
    return exit_code if mask & _EXIT else None


def zombie_status(pid: int) -> int | None:
    """The same of what nobody has reaped yet; None if that is over, or has not begun."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # The third and the last field: proc_pid_stat(5).
    return int(fields[49]) if fields[0] == b"Z" else None
