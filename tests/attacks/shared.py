"""What a program outside shares with others of its user: sysvipc(7), mq_overview(7)."""

from __future__ import annotations

import ctypes
import itertools
import os
from pathlib import Path

_SECRET = b"intact"
_IPC_PRIVATE, _IPC_RMID = 0, 0
_GETVAL = 12
_MODE = 0o600
_counter = itertools.count()


class _QueueAttributes(ctypes.Structure):
    """struct mq_attr, mq_getattr(3)."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("flags", "maxmsg", "msgsize", "curmsgs")),
        ("reserved", ctypes.c_long * 4),
    )


class Shared:
    """Memory, a semaphore and queues; close it to remove them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self._memory = self._call("shmget", _IPC_PRIVATE, 64, _MODE)
        self._at = self._call("shmat", self._memory, None, 0)
        ctypes.memmove(self._at, _SECRET, len(_SECRET))
        self._semaphore = self._call("semget", _IPC_PRIVATE, 1, _MODE)
        self._messages = self._call("msgget", _IPC_PRIVATE, _MODE)
        self._name = f"/codex-multitool-attack-{os.getpid()}-{next(_counter)}"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        attributes = _QueueAttributes(0, 4, 64)
        self._queue = self._call(
            "mq_open", self._name.encode(), flags, _MODE, ctypes.byref(attributes)
        )
        self._file = Path("/dev/shm" + self._name)
        self._file.write_bytes(_SECRET)
        self._file.chmod(_MODE)
        self.variables = {
            "SHARED_MEMORY": str(self._memory),
            "SEMAPHORE": str(self._semaphore),
            "MESSAGES": str(self._messages),
            "QUEUE": self._name,
        }

    def close(self) -> None:
        """Remove what is still there."""
        for name, *arguments in (
            ("shmdt", ctypes.c_void_p(self._at)),
            ("shmctl", self._memory, _IPC_RMID, None),
            ("semctl", self._semaphore, 0, _IPC_RMID),
            ("msgctl", self._messages, _IPC_RMID, None),
            ("mq_close", self._queue),
            ("mq_unlink", self._name.encode()),
        ):
            getattr(self._libc, name)(*arguments)
        self._file.unlink(missing_ok=True)

    def harms(self) -> list[str]:
        """What has become of them."""
        found = {
            "the shared memory was written": ctypes.string_at(self._at, len(_SECRET)) != _SECRET,
            "the shared memory was removed": self._is_removed(),
            "the semaphore was set": self._call("semctl", self._semaphore, 0, _GETVAL) != 0,
            "a message was sent": self._messages_waiting() != 0,
            "a POSIX message was sent": self._posix_messages_waiting() != 0,
            "the POSIX queue was removed": self._queue_is_removed(),
            "/dev/shm was written": self._file.read_bytes() != _SECRET,
        }
        return [harm for harm, happened in found.items() if happened]

    def _is_removed(self) -> bool:
        """A segment that is still attached outlives its removal, but has no key: shmctl(2)."""
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        modes = {int(line.split()[1]): int(line.split()[2], 8) for line in lines}
        removed = 0o1000  # SHM_DEST
        return bool(modes.get(self._memory, removed) & removed)

    def _messages_waiting(self) -> int:
        lines = Path("/proc/sysvipc/msg").read_text().splitlines()[1:]
        return next(
            int(line.split()[4]) for line in lines if int(line.split()[1]) == self._messages
        )

    def _posix_messages_waiting(self) -> int:
        attributes = _QueueAttributes()
        self._call("mq_getattr", self._queue, ctypes.byref(attributes))
        return int(attributes.curmsgs)

    def _queue_is_removed(self) -> bool:
        queue: int = self._libc.mq_open(self._name.encode(), os.O_RDONLY)
        if queue >= 0:
            self._libc.mq_close(queue)
        return queue < 0

    def _call(self, name: str, *arguments: object) -> int:
        result: int = getattr(self._libc, name)(*arguments)
        if result in (-1, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
        return result
