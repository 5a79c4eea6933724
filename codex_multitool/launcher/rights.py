"""LEAF: descriptors in control messages: SCM_RIGHTS, unix(7)."""

import os
import socket
from array import array
from collections.abc import Sequence

MAX_DESCRIPTORS = 253  # SCM_MAX_FD


class TooManyError(OSError):
    """More descriptors came than were to be taken; those that were are closed."""


def receive(
    connection: socket.socket, size: int, most: int, flags: int = 0
) -> tuple[bytes, list[int]]:
    """One message, or what a stream has of it, and the descriptors with it, all close-on-exec.

    most: descriptors taken. Raises OSError, and TooManyError.
    """
    data, ancillary, came, _ = connection.recvmsg(
        size, socket.CMSG_SPACE(most * array("i").itemsize), flags | socket.MSG_CMSG_CLOEXEC
    )
    fds = array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if came & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise TooManyError(f"more than {most} descriptors in one message")
    return data, fds.tolist()


def send(connection: socket.socket, data: bytes, descriptors: Sequence[int], flags: int = 0) -> int:
    """Send, with descriptors; how many bytes were taken. Raises OSError."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
    return connection.sendmsg([data], rights if descriptors else [], flags)
