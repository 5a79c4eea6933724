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
from dataclasses import dataclass

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
_LOOK = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL


class Stop(enum.Enum):
    """Why a held thread has stopped."""

    EXECUTED = "a new program, before its first instruction"
    INTERRUPTED = "as asked, or with its stopped process"
    SIGNAL = "a signal is about to be delivered"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The held thread is stopped. signal: the one to be delivered, 0 if none."""

    stop: Stop
    signal: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """The held thread is no more, by whatever death."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It may not be held (errno): traced already, Yama, another user's, or dead."""

    errno: int


class Hold:
    """A seized thread; it dies with us unless released."""

    def __init__(self, tid: int, tgid: int) -> None:
        self.tid = tid
        self.tgid = tgid

    def interrupt(self) -> None:
        """Make it stop before it runs another instruction in user mode."""
        self._ptrace(PTRACE_INTERRUPT)

    def poll(self) -> Stopped | Ended | None:
        """What happened since last asked; None: nothing yet."""
        event = self._poll()
        if isinstance(event, Ended):
            _held.pop(self.tgid, None)
        return event

    def _poll(self) -> Stopped | Ended | None:
        try:
            found = os.waitid(os.P_PID, self.tid, _LOOK)
        except ChildProcessError:
            return self._as_leader()
        if found is None:
            return None
        if found.si_code not in (os.CLD_TRAPPED, os.CLD_STOPPED):
            self._reap()
            return Ended()
        os.waitid(os.P_PID, self.tid, os.WSTOPPED | os.WNOHANG | _WALL)
        return _stopped(found.si_status)

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
        """Kill its process and see to its zombie, now or at the next `seize`."""
        self.kill()
        _abandoned.append(self)
        limit = time.monotonic() + _AT_ONCE
        while _sweep() and time.monotonic() < limit:
            os.sched_yield()

    def _ptrace(self, request: int, number: int = 0) -> bool:
        try:
            ptrace(request, self.tid, None, number)
        except KernelError:
            return False  # ESRCH: killed meanwhile; the next poll tells
        return True

    def _as_leader(self) -> Stopped | Ended | None:
        """A thread that executes takes over its leader's id: ptrace(2), execve under ptrace."""
        if self.tid == self.tgid:
            return Ended()
        try:
            found = os.waitid(os.P_PID, self.tgid, _LOOK)
        except ChildProcessError:
            return Ended()
        if found is None or found.si_code != os.CLD_TRAPPED:
            # Either it has not come so far, or the leader is a child of ours with its own fate.
            return None if found is None else Ended()
        os.waitid(os.P_PID, self.tgid, os.WSTOPPED | os.WNOHANG | _WALL)
        self.tid = self.tgid
        return _stopped(found.si_status)

    def _reap(self) -> None:
        """A child of ours is left to whoever waits for it in this process."""
        if self.tid == self.tgid and _parent(self.tid) == os.getpid():
            return
        try:
            os.waitid(os.P_PID, self.tid, os.WEXITED | os.WNOHANG | _WALL)
        except ChildProcessError:
            pass


_held: dict[int, Hold] = {}  # by process
_abandoned: list[Hold] = []


def seize(tid: int, tgid: int) -> Hold | Refused | None:
    """Hold the thread `tid` of process `tgid`, without stopping it.

    None: another thread of the process is held; try again when something has happened.
    """
    _sweep()
    if tgid in _held:
        return None
    try:
        ptrace(PTRACE_SEIZE, tid, None, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)
    except KernelError as error:
        return Refused(error.errno)
    _held[tgid] = Hold(tid, tgid)
    return _held[tgid]


def _sweep() -> bool:
    """Reap what was abandoned; True while something is left."""
    _abandoned[:] = [hold for hold in _abandoned if not isinstance(hold.poll(), Ended)]
    return bool(_abandoned)


def _stopped(status: int) -> Stopped:
    event, number = status >> 8, status & 0x7F
    if event == PTRACE_EVENT_EXEC:
        return Stopped(Stop.EXECUTED)
    if event == PTRACE_EVENT_STOP:
        return Stopped(Stop.INTERRUPTED)
    return Stopped(Stop.SIGNAL, number)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            text = file.read(8192)
    except OSError:
        return 0
    return int(text.partition(b"\nPPid:")[2].split(maxsplit=1)[0])
