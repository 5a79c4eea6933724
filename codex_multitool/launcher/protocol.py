"""What the server and its launchers say to each other — pure.

Both ends are forks of one interpreter, so a message is a `marshal`led tuple behind its length;
descriptors ride on the first byte. The server asks with SPAWN, SIGNAL, KILL, JOBS; a launcher
tells FORKED, FAILED, EXITED, EMPTY, LIST; of one that cannot be forked the zygote tells REFUSED.
Only trusted processes hold these sockets.
"""

import marshal
import struct
from typing import Any

HEADER = struct.Struct("<I")
MAX_DESCRIPTORS = 253  # SCM_MAX_FD, unix(7)
NONE = -1  # no descriptor, no value

# server to zygote: one byte, one descriptor: the socket the new launcher shall serve
GROW = b"+"

# server to launcher
SPAWN = "spawn"  # (SPAWN, number, Spawn fields as a dict)
SIGNAL = "signal"  # (SIGNAL, number, signum): to that process's group
KILL = "kill"  # (KILL, signum): to every process of the tree; SIGKILL until none is left
JOBS = "jobs"  # (JOBS,)

# zygote to server, on the socket that it was handed
REFUSED = "refused"  # (REFUSED, errno): no launcher could be forked

# launcher to server
FORKED = "forked"  # (FORKED, number, pid, the launcher's own)
FAILED = "failed"  # (FAILED, number, step, errno, text): it could not be set up or executed
EXITED = "exited"  # (EXITED, number, wait status)
EMPTY = "empty"  # (EMPTY,): no process of the command is left
LIST = "list"  # (LIST, ((pid, command line), ...))

# in place of a step: what fork(2) and all it takes is called to people
NO_PROCESS = "no process can be started"

# process to server, with the listener: whether a received exec waits for SIGKILL alone
KILLABLE, NOT_KILLABLE = b"k", b"-"

Message = tuple[Any, ...]


def encode(message: Message) -> bytes:
    """A message as it goes over the stream."""
    payload = marshal.dumps(message)
    return HEADER.pack(len(payload)) + payload


class Decoder:
    """Cuts a byte stream into messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages completed by `data`, in order."""
        self._buffer += data
        messages = []
        while len(self._buffer) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._buffer)
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            messages.append(marshal.loads(bytes(self._buffer[HEADER.size : end])))
            del self._buffer[:end]
        return messages
