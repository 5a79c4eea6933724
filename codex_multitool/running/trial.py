"""The trial of kernel interception: a shell, whose exec is read and seen to its exec stop.

It waits for what may never come: whoever began the trial ends it then.
"""

import errno
import os
import select
import signal
import socket
import time
from contextlib import closing
from typing import NoReturn

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.exec_stop import Expected, Resumed, Steps, resume_checked
from codex_multitool.interception.hold import Refused
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Absent, Listener, Notification
from codex_multitool.interception.tracee import ExecSnapshot, read_exec
from codex_multitool.launcher.child import hand_over_listener
from codex_multitool.launcher.protocol import KILLABLE

_SHELL = "/bin/sh"
_PAUSE_SECONDS = 0.0002
_REASONS = {
    errno.EBUSY: "another program listens to the execs of this process tree already: a sandbox "
    "around this one, or WSL's network (seccomp(2) allows one listener)",
    errno.ENOSYS: "this kernel, or the sandbox around us, has no seccomp notifications (Linux 5.5)",
    errno.EINVAL: "this kernel has no seccomp notifications (Linux 5.5)",
}
_UNWATCHED = "ptrace(2) is refused here: Yama (kernel.yama.ptrace_scope), or the sandbox around us"


def refusal() -> str | None:
    """Why kernel interception is not to be had here; None if it works."""
    machine = architecture(os.uname().machine)
    if machine is None:
        return f"no exec filter for {os.uname().machine}"
    ours, theirs = socket.socketpair()
    trial = os.getpid()
    shell = os.fork()
    if shell == 0:
        ours.close()  # a listener that nobody takes must end with the trial
        _be_shell(theirs, trial)
    theirs.close()
    with ours:
        told, fds, _, _ = socket.recv_fds(ours, 1, 1)
    if fds:
        with closing(Listener(fds[0], machine, killable=told == KILLABLE)) as listener:
            watched = _watched(listener)
    status = os.waitstatus_to_exitcode(os.waitpid(shell, 0)[1])
    if not fds:
        return _REASONS.get(status, os.strerror(status))
    return None if watched and status == 0 else _UNWATCHED


def _be_shell(channel: socket.socket, trial: int) -> NoReturn:
    """Execute a shell that executes another. Without a listener the status is the errno.

    trial: our parent's process id.
    """
    status = 1
    try:
        _prctl.prctl(_prctl.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != trial:
            os._exit(status)  # it died before we had said so: prctl(2)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.chdir("/")
        hand_over_listener(channel.detach())
        os.execve(_SHELL, ["sh", "-c", f"exec {_SHELL} -c :"], {})
    except (KernelError, OSError) as error:
        status = error.errno or status
    finally:
        os._exit(status)


def _watched(listener: Listener) -> bool:
    """Whether the second exec could be seen through; the first is our own, of the shell."""
    listener.sync_wake_up()
    first = _next(listener)
    if first is None or not listener.resume(first):
        return False
    second = _next(listener)
    snapshot = None if second is None else read_exec(listener, second)
    if second is None or not isinstance(snapshot, ExecSnapshot) or snapshot.executed is None:
        return False
    device, inode, *_ = snapshot.executed.identity
    expected = Expected(device, inode, snapshot.argv_executed())
    outcome = _driven(resume_checked(listener, second, snapshot.tgid, expected))
    return outcome is Resumed.EXECUTED


def _next(listener: Listener) -> Notification | None:
    """The next notification; None if no process is left."""
    poll = select.poll()
    poll.register(listener.fd, select.POLLIN)
    while True:
        poll.poll()
        found = listener.receive()
        if isinstance(found, Notification):
            return found
        if found is Absent.ENDED:
            return None


def _driven(steps: Steps[Resumed | Refused]) -> Resumed | Refused:
    while True:
        try:
            steps.send(None)
        except StopIteration as stop:
            outcome: Resumed | Refused = stop.value
            return outcome
        time.sleep(_PAUSE_SECONDS)
