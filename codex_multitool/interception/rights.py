"""LEAF: descriptors that go along with a message on a Unix socket: SCM_RIGHTS, unix(7)."""

import errno
import os
import socket
from array import array
from collections.abc import Sequence

MOST = 253  # SCM_MAX_FD: what one message can carry

_TRUNCATED = int(socket.MSG_CTRUNC)  # an enum's `&` takes as long as the call


def send(connection: socket.socket, data: bytes | memoryview, descriptors: Sequence[int]) -> int:
    """How many bytes were sent; the descriptors go with the first."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]
    return connection.sendmsg([data], rights if descriptors else [])


def receive(connection: socket.socket, size: int, most: int = 0) -> tuple[bytes, list[int]]:
    """At most `size` bytes, and the descriptors that came along, close-on-exec from the first.

    most: how many may come; the kernel drops all where none may. Raises OSError: EMSGSIZE, with
    none kept, where it dropped some of them: there were more, or we may have no more.
    """
    room = socket.CMSG_LEN(most * array("i").itemsize) if most else 0
    data, ancillary, flags, _ = connection.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    found = array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    if most and flags & _TRUNCATED:
        for fd in found:
            os.close(fd)
        raise OSError(errno.EMSGSIZE, f"more descriptors in one message than {most}")
    return data, found.tolist()
