"""What this machine does when it is tried, each trial in a process of its own that ends with it."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from codex_multitool.interception.kernel import (
    PTRACE_SEIZE,
    KernelError,
    pidfd_getfd,
    pidfd_open,
    ptrace,
    system_call,
)
from codex_multitool.launcher.spawner import NOT_STARTED
from codex_multitool.running.trial import NoListenerError, Trial, trial
from codex_multitool.sandbox.enforce import WEAKER, SandboxError, prepare, restrict
from codex_multitool.sandbox.policy import SandboxPolicy
from codex_multitool.sandbox.status import UNRESTRICTED

_SECONDS = 10
_UNSHARE = {"x86_64": 272, "aarch64": 97}
_NEW_NAMESPACE = {"user": 0x1000_0000, "mount": 0x0002_0000}  # CLONE_NEW*, unshare(2)
_MISSING = b"/proc/self/no-such-program"


class TrialError(Exception):
    """A trial that came to no answer."""


def in_child(trial: Callable[[], object]) -> object:
    """What `trial` answers in a child; it must be JSON. Raises TrialError."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(_SECONDS)
        try:
            os.close(reading)
            answer = json.dumps(trial())
            os.write(writing, answer.encode())
        except (OSError, KernelError, ValueError) as error:
            os.write(writing, json.dumps({"failed": repr(error)}).encode())
        finally:
            os._exit(0)  # nothing returns into the parent's code
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise TrialError("it gives no answer")
    answer = json.loads(text)
    if isinstance(answer, dict) and "failed" in answer:
        raise TrialError(str(answer["failed"]))
    return answer


def sandbox() -> dict[str, object]:
    """Confine a child read-only: its promises, and which of them did not hold when tried.

    Raises TrialError.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            file, name = os.path.join(folder, "file"), os.path.join(folder, "socket")
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
            listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listening.bind(name)
            listening.listen()
        except OSError as error:
            raise TrialError(f"nothing to try it on can be made: {error.strerror}") from error
        answer = in_child(lambda: _confined(file, name))
    assert isinstance(answer, dict)
    return answer


def _confined(file: str, listening: str) -> dict[str, object]:
    try:
        confinement = prepare(SandboxPolicy("read-only"), (), accept=frozenset(WEAKER))
        restrict(confinement)
    except SandboxError as error:
        return {"error": str(error)}
    writes: tuple[Callable[[], object], ...] = (
        lambda: os.open(file, os.O_WRONLY),
        lambda: os.open(file, os.O_RDONLY | os.O_TRUNC),
        lambda: os.truncate(file, 0),
        lambda: os.unlink(file),
    )
    deeds: dict[str, Callable[[], object]] = {
        "file-metadata": lambda: os.chmod(file, 0o644),
        "signals": lambda: os.kill(os.getppid(), 0),
        "network": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "unix-sockets": lambda: socket.socket(socket.AF_UNIX).connect(listening),
    }
    done = [name for name, deed in deeds.items() if _errno(deed) == 0]
    if not all(map(_errno, writes)):
        done.append("file-writes")
    asked = [it for it in confinement.status if it.state != UNRESTRICTED]
    return {"status": [(it.name, it.state, it.detail) for it in asked], "done": done}


def _errno(deed: Callable[[], object]) -> int:
    try:
        deed()
    except OSError as error:
        return error.errno or 0
    return 0


def notifications() -> dict[str, object]:
    """Hold one execve of a command started as all are, and do with it what judging it takes.

    Either {"errno": of the set-up}, or {what was tried: errno or 0} and `killable`.
    """
    try:
        with trial([_MISSING]) as begun:
            return _handled(begun)
    except NoListenerError as error:
        return {"errno": error.errno, "because": str(error)}


def _handled(begun: Trial) -> dict[str, object]:
    listener, notification = begun.listener, begun.exec()
    if notification is None:
        return {"errno": errno.ETIMEDOUT}
    null = os.open(os.devnull, os.O_RDWR)

    def take_descriptor() -> None:
        os.close(pidfd_getfd(pidfd_open(notification.tid, 0), 0))

    tried: dict[str, object] = {
        "killable": listener.killable,
        "addfd": _refusal(lambda: listener.add_descriptor(notification, null, close_on_exec=True)),
        "pidfd_getfd": _refusal(take_descriptor),
        "ptrace": _refusal(lambda: ptrace(PTRACE_SEIZE, notification.tid)),
        "sync_wake_up": listener.sync_wake_up(),
    }
    listener.resume(notification)
    if tried["ptrace"] == 0:
        os.waitpid(notification.tid, 0)  # its tracer has to be told before its parent: ptrace(2)
    # What the kernel says once it goes on: there is no such file.
    went_on = begun.end() == (NOT_STARTED, errno.ENOENT)
    return {**tried, "continue": 0 if went_on else errno.EPERM}


def _refusal(deed: Callable[[], object]) -> int:
    try:
        deed()
    except KernelError as error:
        return error.errno
    return 0


def namespace(kind: str) -> int:
    """unshare(2) of a user namespace, and in it of another kind; errno, or 0."""
    number = _UNSHARE.get(os.uname().machine)
    if number is None:
        return errno.ENOSYS
    flags = _NEW_NAMESPACE["user"] | _NEW_NAMESPACE[kind]
    return _refusal(lambda: system_call("unshare", number, flags))


def status_of(argv: list[str], environment: Mapping[str, str]) -> int:
    """The exit status of a program that reads and writes nothing; negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(_SECONDS)
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            os.execve(argv[0], argv, environment)
        finally:
            os._exit(127)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
