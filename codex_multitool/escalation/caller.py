"""LEAF: what a program inherits from the process that executes it, read from the kernel.

An escalated program is started by the server, yet it must find its umask, priority and signals as
if its caller had executed it. The caller itself is never asked. Not its limits: files that may not
grow or too few descriptors would end a trusted program half-way through its work.
"""

import errno
import os
import signal
from functools import lru_cache
from typing import NamedTuple

# Every language runtime ignores these for itself, the wrapper's included.
_RUNTIME = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_CHUNK = 1 << 14


class Inherited(NamedTuple):
    """umask: int. nice: -20 to 19. blocked, ignored: signal numbers."""

    umask: int
    nice: int
    blocked: tuple[int, ...]
    ignored: tuple[int, ...]


def inherited(pid: int, *, runtime_signals: bool = False) -> Inherited:
    """What `pid`, alive and ours to look at, would pass on by execve(2).

    runtime_signals: take SIGPIPE and SIGXFSZ as found; a wrapper's own runtime ignores them.
    Raises OSError when the process has gone.
    """
    status = _status(pid)
    ignored = _signals(_field(status, b"SigIgn"))
    if not runtime_signals:
        ignored = tuple(number for number in ignored if number not in _RUNTIME)
    return Inherited(
        umask=int(_field(status, b"Umask"), 8),
        nice=os.getpriority(os.PRIO_PROCESS, pid),
        blocked=_signals(_field(status, b"SigBlk")),
        ignored=ignored,
    )


class OwnShell(NamedTuple):
    """The shell of one call: its process id, 0 before it is known, and what it was started as."""

    pid: int
    argv: tuple[str, ...]

    def includes(self, pid: int) -> bool:
        """Whether `pid` is the shell, or came of it by forks alone: a subshell, a background job.

        A fork that has not executed anything still shows its ancestor's command line and program.
        """
        if self.pid == 0:
            return False
        command_line = b"".join(os.fsencode(word) + b"\0" for word in self.argv)
        try:
            looks = _looks(self.pid)
            if looks[1] != command_line:
                return False  # the shell has become its last program
            while pid not in (0, 1, self.pid):
                if _looks(pid) != looks:
                    return False
                pid = parent(pid)
        except OSError:
            return False
        return pid == self.pid


def parent(pid: int) -> int:
    """The parent of `pid`; 0 when it has gone."""
    try:
        return int(_field(_status(pid), b"PPid"))
    except OSError:
        return 0


def _status(pid: int) -> bytes:
    file = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = part = os.read(file, _CHUNK)
        while len(part) == _CHUNK:  # it comes as one piece: single_open() of the kernel
            text += (part := os.read(file, _CHUNK))
    finally:
        os.close(file)
    if b"\nUmask:" not in text:
        # A zombie, or one that is about to be: proc_pid_status(5).
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return text


def _field(status: bytes, name: bytes) -> bytes:
    # A name is a line's beginning: the process's own, which is free text, has its newlines escaped.
    return status.partition(b"\n" + name + b":")[2].partition(b"\n")[0].strip()


def _looks(pid: int) -> tuple[str, bytes]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.readlink(f"/proc/{pid}/exe"), file.read()


@lru_cache(maxsize=16)  # there are not many
def _signals(mask: bytes) -> tuple[int, ...]:
    bits = int(mask, 16)
    if bits == 0:
        return ()
    # 32 and 33 belong to the threads library and cannot be set: signal(7).
    return tuple(n for n in range(1, 65) if bits >> (n - 1) & 1 and n not in (32, 33))
