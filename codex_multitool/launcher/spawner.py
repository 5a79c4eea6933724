"""A process that confines itself once, and then starts commands for its keeper by posix_spawn(3).

What a command inherits is paid once for all of one policy: the Landlock domain, the filter and its
listener, dropped capabilities, limits, mounts, the environment. The spawner is as confined as its
commands and is in their domain, so what it says is taken as an enemy's word; what it is told comes
from its keeper alone.
"""

import errno
import marshal
import os
import resource
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, NoReturn

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.filter import exec_filter
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import install
from codex_multitool.interception.rights import receive, send
from codex_multitool.launcher import forked
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.mounts import bind, unshare_mounts
from codex_multitool.launcher.placing import actions, defaults, ignoring
from codex_multitool.launcher.spawn import Spawn
from codex_multitool.sandbox import enforce

# What it says: a kind, a number, and perhaps a text. Each is one message.
WORD = struct.Struct("=Bi")
MAX_TEXT = 512
READY, FAILED, STARTED, NOT_STARTED, ENDED = range(5)
# READY's number: the sum of those that hold. The listener comes with it, if there is one.
KILLABLE = 1  # of that: as interception.listener.install() tells
ENDS_ALL = 2  # at the signal END_ALL it ends all of its domain but itself
END_ALL = signal.SIGUSR1

# What it is told: `marshal`led, in a file in memory where it is longer than a message may be.
MAX_MESSAGE = 1 << 16
MAX_DESCRIPTORS = 16

# Made when the zygote loads this module: all forks have them.
_MACHINE = architecture(os.uname().machine)
_EXEC_FILTER = b"" if _MACHINE is None else exec_filter(_MACHINE)
_BEFORE_ANOTHER = b"" if _MACHINE is None else exec_filter(_MACHINE, followed=True)
_NO_LIMIT = 1 << 64


class Cell(NamedTuple):
    """What all commands of a spawner are confined by.

    environment: of each. limits: (kind, soft, hard). mounts: paths that they cannot rename or
    remove, each with whether they cannot write it either. intercepted: by the kernel.
    """

    confinement: enforce.Confinement
    environment: Mapping[bytes, bytes]
    limits: Sequence[tuple[int, int, int]]
    mounts: Sequence[tuple[bytes, bool]]
    intercepted: bool


class _Step:
    """What is being done, for the error that it may end in."""

    name = ""


def be(cell: Cell, channel: socket.socket, keeper: int, started_with: Limits) -> NoReturn:
    """Be a spawner, in a fresh fork. keeper: our parent's process id; channel: SOCK_SEQPACKET.

    started_with: the limits, where ours are others, that our own programs have in place of ours.
    """
    step = _Step()
    try:
        listener, number = _confined(cell, channel.fileno(), keeper, started_with, step)
        if _keeps_signals(keeper):
            signal.signal(END_ALL, _end_all)
            number |= ENDS_ALL
        with ExitStack() as stack:
            if listener >= 0:
                stack.callback(os.close, listener)
            send(channel, WORD.pack(READY, number), [listener] if listener >= 0 else [])
        while True:
            message, fds = receive(channel, MAX_MESSAGE, MAX_DESCRIPTORS)
            if not message:
                break
            _serve(channel, cell, message, fds)
    except Exception as error:  # noqa: BLE001 — all there is left to do is to tell the keeper
        number = getattr(error, "errno", None) or 0
        text = step.name if number else f"{step.name}: {error}"
        _say(channel, FAILED, number, text)
    finally:
        os._exit(0)


def _say(channel: socket.socket, kind: int, number: int, text: str = "") -> None:
    channel.send(WORD.pack(kind, number) + text.encode(errors="replace")[:MAX_TEXT])


def _confined(
    cell: Cell, channel: int, keeper: int, started_with: Limits, step: _Step
) -> tuple[int, int]:
    """The listener, -1 if there is none, and KILLABLE if it is."""
    step.name = "session"
    os.setsid()
    _prctl.prctl(_prctl.PR_SET_NAME, "codex-spawner")
    _prctl.prctl(_prctl.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        raise ProcessLookupError(errno.ESRCH, "the keeper has gone")  # before we had said so
    ruleset = cell.confinement.ruleset
    _drop_descriptors({channel} if ruleset is None else {channel, ruleset})
    step.name = "limits"
    _limit(cell, started_with)
    step.name = 'mount namespace (codex_multitool.protect = "check" does without)'
    _keep(cell.mounts)
    step.name = "sandbox"
    enforce.restrict(cell.confinement, but_filter=cell.intercepted)
    if ruleset is not None:
        os.close(ruleset)
    if not cell.intercepted:
        return -1, 0
    step.name = "exec filter"
    fd, killable = listen(cell.confinement.filter or b"")
    return fd, KILLABLE if killable else 0


def _keeps_signals(keeper: int) -> bool:
    """Whether nothing outside can be signalled: Landlock's scope, from ABI 6 on."""
    try:
        os.kill(keeper, 0)
    except PermissionError:
        return True
    return False


def _end_all(*_: object) -> None:
    """All that we may signal but ourselves, at one moment: no fork slips through, kill(2)."""
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass  # there is nobody


def _drop_descriptors(kept: set[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        os.dup2(null, standard, inheritable=False)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {0, 1, 2, *kept}:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself


def _limit(cell: Cell, started_with: Limits) -> None:
    # That of descriptors is set in each command: what is given to one may have a higher number.
    apart = any(kind == resource.RLIMIT_NOFILE for kind, _, _ in cell.limits)
    for kind, soft, hard in started_with:
        if not (apart and kind == resource.RLIMIT_NOFILE):
            resource.setrlimit(kind, (soft, hard))
    if cell.confinement.ruleset is not None or cell.confinement.filter:
        # A core file would show what a command read to whoever can read the workspace.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, soft, hard in _to_be_had(cell.limits):
        if kind != resource.RLIMIT_NOFILE:
            resource.setrlimit(kind, (soft, hard))


def _to_be_had(limits: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """A hard limit above ours cannot be had without privilege: setrlimit(2)."""
    found = []
    for kind, *wanted in limits:
        most = _finite(resource.getrlimit(kind)[1])
        soft, hard = (min(_finite(limit), most) for limit in wanted)
        found.append((kind, _kernel(soft), _kernel(hard)))
    return found


def _finite(limit: int) -> int:
    return _NO_LIMIT if limit == resource.RLIM_INFINITY else limit


def _kernel(limit: int) -> int:
    return resource.RLIM_INFINITY if limit == _NO_LIMIT else limit


def _keep(mounts: Sequence[tuple[bytes, bool]]) -> None:
    """Make paths read-only for this process and all below it."""
    if not mounts:
        return
    unshare_mounts()
    for path, read_only in mounts:
        try:
            bind(path, read_only=read_only)
        except FileNotFoundError:
            continue  # it went meanwhile: the look after the command tells


def listen(more: bytes = b"") -> tuple[int, bool]:
    """Put this process under the exec filter: the listener, and whether waits are killable.

    more: a filter for all other calls, installed with it. Raises KernelError, or OSError.
    """
    if _MACHINE is None:
        raise OSError(errno.ENOSYS, f"no exec filter for {os.uname().machine}")
    program = _BEFORE_ANOTHER + more if more else _EXEC_FILTER
    try:
        return install(_MACHINE, program)
    except KernelError as error:
        if error.errno != errno.EACCES:
            raise
    # Without privilege a filter takes no_new_privs, seccomp(2): no sandbox has set it here.
    _prctl.prctl(_prctl.PR_SET_NO_NEW_PRIVS, 1)
    return install(_MACHINE, program)


def request(
    argv: Sequence[bytes],
    more_environment: Mapping[bytes, bytes],
    targets: Sequence[int],
    ignored: Sequence[int],
) -> bytes:
    """What a spawner is told. targets: numbers of the descriptors that follow the directory's."""
    return marshal.dumps((list(argv), dict(more_environment), list(targets), list(ignored)))


def _serve(channel: socket.socket, cell: Cell, message: bytes, fds: list[int]) -> None:
    """Start one command, and wait for its end."""
    try:
        told = marshal.loads(message if message != b"-" else _whole(fds))
        pid = _started(cell, told, fds)
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else ""  # else the program's
        _say(channel, NOT_STARTED, error.errno or 0, name)
        return
    finally:
        for fd in fds:
            os.close(fd)
    if not cell.intercepted:
        _say(channel, STARTED, pid)  # else the listener tells
    _say(channel, ENDED, os.waitpid(pid, 0)[1])


def _whole(fds: list[int]) -> bytes:
    """What was too long for a message: in the last descriptor."""
    fd = fds.pop()
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)


def _started(cell: Cell, told: Any, fds: list[int]) -> int:
    argv, more_environment, targets, ignored = told
    workdir, *sources = fds
    environment = {**cell.environment, **more_environment}
    descriptors = list(zip(sources, targets, strict=True))
    limits = _to_be_had([it for it in cell.limits if it[0] == resource.RLIMIT_NOFILE])
    with ExitStack() as stack:
        _go_to(workdir, anew=bool(cell.mounts))
        stack.callback(os.chdir, "/")
        # What a child is to have and we cannot, even for a moment: see start.py.
        if limits or signal.SIGCHLD in ignored:
            here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, here)
            spawn = Spawn(argv[0], argv, environment, here, descriptors)
            return forked.start(spawn._replace(limits=limits, ignored=ignored), ())

        def opened(fd: int) -> None:
            stack.callback(os.close, fd)

        placed = actions(descriptors, opened, null=0)  # as are 1 and 2: _drop_descriptors
        stack.enter_context(ignoring(ignored))
        return os.posix_spawn(
            argv[0],
            argv,
            environment,
            file_actions=placed,
            setsid=True,
            setsigmask=(),
            setsigdef=defaults(ignored),
        )


def _go_to(workdir: int, *, anew: bool) -> None:
    """Change to a directory. anew: it may be one that something is mounted over in here."""
    os.fchdir(workdir)
    if anew:
        before = os.stat(".")
        os.chdir(os.getcwd())
        if not os.path.samestat(os.stat("."), before):
            raise FileNotFoundError(errno.ENOENT, "the working directory was replaced", ".")
