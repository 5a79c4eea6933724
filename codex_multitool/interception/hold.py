"""LEAF: one thread seized by ptrace(2), without privilege, and let go again.

All calls must come from the thread that seized. Nothing here waits: `poll` tells what happened.
Waits are by id with __WALL, so nobody else's child is taken; the zombie of a seized thread is
reaped, or its real parent would never hear of it.

One thread of a process is held at a time. A thread that executes waits, with a lock, until its
held siblings are reaped; PTRACE_SEIZE of another sibling waits for that lock: we would hang.
"""

import enum
import os
import signal
import time
from typing import NamedTuple

from codex_multitool.interception.kernel import (
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_EVENT_EXEC,
    PTRACE_EVENT_STOP,
    PTRACE_INTERRUPT,
    PTRACE_O_EXITKILL,
    PTRACE_O_TRACEEXEC,
    PTRACE_SEIZE,
    KernelError,
    ptrace,
    ptrace_registers,
    ptrace_set_registers,
)

_WALL = 0x4000_0000
_AT_ONCE = 0.05  # seconds; a killed process needs microseconds
_STOPPED = os.WSTOPPED | os.WNOHANG | _WALL
_DEAD = os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL


class Stop(enum.Enum):
    """Why a held thread has stopped."""

    EXECUTED = "a new program, before its first instruction"
    INTERRUPTED = "as asked, or with its stopped process"
    SIGNAL = "a signal is about to be delivered"


class Stopped(NamedTuple):
    """The held thread is stopped. signal: the one to be delivered, 0 if none."""

    stop: Stop
    signal: int = 0


class Ended:
    """The held thread is no more, by whatever death."""


class Refused(NamedTuple):
    """It may not be held (errno): traced already, Yama, another user's, or dead."""

    errno: int


class Hold:
    """A seized thread; it dies with us unless released.

    As a context it is killed if its steps are left by an exception, or abandoned.
    """

    def __init__(self, tid: int, tgid: int) -> None:
        self.tid = tid
        self.tgid = tgid

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abandon()

    def interrupt(self) -> None:
        """Make it stop before it runs another instruction in user mode."""
        self._ptrace(PTRACE_INTERRUPT)

    def poll(self) -> Stopped | Ended | None:
        """What happened since last asked; None: nothing yet."""
        try:
            found = os.waitid(os.P_PID, self.tid, _STOPPED)
            return None if found is None else _stopped(found.si_status)
        except ChildProcessError:
            event = self._ending()
        if isinstance(event, Ended):
            _held.pop(self.tgid, None)
        return event

    def _ending(self) -> Stopped | Ended | None:
        """What happened to what is a zombie, or has the id of its process now."""
        try:
            return self._taken(self.tid)
        except ChildProcessError:
            if self.tid == self.tgid:
                return Ended()  # another thread that executes has taken its place
        # A thread that executes takes over its leader's id, and may die under it, before it stops
        # as well as after: ptrace(2), execve under ptrace.
        try:
            event = self._taken(self.tgid)
        except ChildProcessError:
            return Ended()
        if isinstance(event, Stopped):
            self.tid = self.tgid
        return event

    def _taken(self, tid: int) -> Stopped | Ended | None:
        """What the kernel has to tell of `tid`, taken from it; ChildProcessError: no such tracee.

        SIGKILL may come between any two calls: what was stopped then runs to its end.
        """
        try:
            found = os.waitid(os.P_PID, tid, _STOPPED)
            return None if found is None else _stopped(found.si_status)
        except ChildProcessError:
            pass  # a zombie, of which a stop cannot be asked, or none of ours
        if os.waitid(os.P_PID, tid, _DEAD) is None:
            return None  # a leader, whose other threads run on
        self._reap(tid)
        return Ended()

    def registers(self) -> bytes | None:
        """Its NT_PRSTATUS registers; None if it has been killed meanwhile."""
        try:
            return ptrace_registers(self.tid)
        except KernelError:
            return None

    def set_registers(self, registers: bytes) -> bool:
        """False if it has been killed meanwhile."""
        try:
            ptrace_set_registers(self.tid, registers)
        except KernelError:
            return False
        return True

    def proceed(self, number: int = 0) -> None:
        """Let it run on, held, delivering signal `number`."""
        self._ptrace(PTRACE_CONT, number)

    def release(self, number: int = 0) -> bool:
        """Let it run free, delivering signal `number`. Only where it is stopped.

        False: it has been killed meanwhile, `poll` on until Ended.
        """
        if not self._ptrace(PTRACE_DETACH, number):
            return False
        _held.pop(self.tgid, None)
        return True

    def kill(self) -> None:
        """SIGKILL its process; `poll` on until Ended."""
        try:
            os.kill(self.tgid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # just ended by itself

    def abandon(self) -> None:
        """Kill its process and see to its zombie, now or by `bury`."""
        self.kill()
        _abandoned.append(self)
        limit = time.monotonic() + _AT_ONCE
        while bury() and time.monotonic() < limit:
            os.sched_yield()

    def _ptrace(self, request: int, number: int = 0) -> bool:
        try:
            ptrace(request, self.tid, None, number)
        except KernelError:
            return False  # ESRCH: killed meanwhile; the next poll tells
        return True

    def _reap(self, tid: int) -> None:
        """A child of ours is left to whoever waits for it in this process."""
        if tid == self.tgid and _parent(tid) == os.getpid():
            return
        try:
            os.waitid(os.P_PID, tid, os.WEXITED | os.WNOHANG | _WALL)
        except ChildProcessError:
            pass  # a leader, whom another thread that executes has released


_held: dict[int, Hold] = {}  # by process
_abandoned: list[Hold] = []
# What is held is its tracer's alone, ptrace(2): the numbers mean nothing to a fork.
os.register_at_fork(after_in_child=_held.clear)
os.register_at_fork(after_in_child=_abandoned.clear)


def seize(tid: int, tgid: int) -> Hold | Refused | None:
    """Hold the thread `tid` of process `tgid`, without stopping it.

    None: another thread of the process is held; try again when something has happened.
    """
    bury()
    if tgid in _held:
        return None
    try:
        ptrace(PTRACE_SEIZE, tid, None, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)
    except KernelError as error:
        return Refused(error.errno)
    _held[tgid] = Hold(tid, tgid)
    return _held[tgid]


def holds(tgid: int) -> bool:
    """Whether a thread of this process is held: it is not to be waited for by its id."""
    return tgid in _held


def bury() -> bool:
    """Reap what was abandoned; True while something is left, whose parents wait for it."""
    if not _abandoned:
        return False
    _abandoned[:] = [hold for hold in _abandoned if not isinstance(hold.poll(), Ended)]
    return bool(_abandoned)


_executed, _interrupted = Stopped(Stop.EXECUTED), Stopped(Stop.INTERRUPTED)


def _stopped(status: int) -> Stopped:
    event, number = status >> 8, status & 0x7F
    if event == PTRACE_EVENT_EXEC:
        return _executed
    if event == PTRACE_EVENT_STOP:
        return _interrupted
    return Stopped(Stop.SIGNAL, number)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            text = file.read(8192)
    except OSError:
        return 0
    return int(text.partition(b"\nPPid:")[2].split(maxsplit=1)[0])
