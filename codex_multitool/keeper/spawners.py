"""The spawners of one keeper: made when a command needs one, and kept for the next of its kind."""

import os
import resource
import signal
import socket
import struct
from collections.abc import Collection, Sequence

from codex_multitool.escalation import wire
from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Listener
from codex_multitool.interception.precedents import Precedents
from codex_multitool.interception.rights import receive, send
from codex_multitool.keeper.protocol import Sandbox
from codex_multitool.keeper.standing import standing
from codex_multitool.launcher import spawner
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.spawn import NotStartedError, not_started
from codex_multitool.launcher.tree import Children
from codex_multitool.running.limits import kernel_limits, process_limit
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox import enforce
from codex_multitool.sandbox.status import not_granted

_MOST = 3  # a client uses one or two policies
_PATIENCE_SECONDS = 10  # for a spawner to confine itself, or to take a message
_TIMEVAL = struct.Struct("=qq")
# Where a patched shell finds its socket: above what scripts and shells use for themselves.
SOCKET_NUMBER = 197


class LostError(Exception):
    """A spawner has gone, or does not listen."""


class Spawner:
    """One that is confined, and starts one command at a time.

    pid: its own. number: of its channel, on which it may be heard. lacking: roots that it was not
    given, and why. listener: None in wrapper mode. lost: no command is to be asked of it any more.
    ended: it was waited for, too.
    """

    def __init__(
        self,
        pid: int,
        channel: socket.socket,
        listener: Listener | None,
        lacking: Sequence[str],
        *,
        confined: bool,
        ends_all: bool,
    ) -> None:
        self.pid = pid
        self.channel = channel
        self.number = channel.fileno()
        self.listener = listener
        self.lost = self.ended = False
        self.lacking = tuple(lacking)
        self.confined = confined
        self._ends_all = ends_all
        self._children = Children(pid)
        self._standing = standing(pid, limits=not confined)
        self._precedents: tuple[object, Precedents] | None = None

    def tell(self, request: bytes, fds: Sequence[int]) -> None:
        """Have a command started; raises LostError."""
        file = -1
        try:
            # Nobody can stop it now, but the command before may have.
            os.kill(self.pid, signal.SIGCONT)
            if len(request) > spawner.MAX_MESSAGE:
                file = os.memfd_create("request", os.MFD_CLOEXEC)
                os.write(file, request)
                request, fds = b"-", (*fds, file)
            send(self.channel, request, fds)
        except OSError as error:
            self.give_up()
            raise LostError(error.strerror) from None
        finally:
            if file >= 0:
                os.close(file)

    def fit(self) -> bool:
        """Whether it is as it was made: a command may have changed what the next would inherit."""
        if self.lost:
            return False
        try:
            return standing(self.pid, limits=not self.confined) == self._standing
        except OSError:
            return False  # it has ended

    def hear(self) -> tuple[int, int, str] | None:
        """What it says: a kind, a number, a text; None once it is gone, or makes no sense."""
        try:
            message = self.channel.recv(spawner.WORD.size + spawner.MAX_TEXT)
        except OSError:
            return None
        if len(message) < spawner.WORD.size:
            return None
        kind, number = spawner.WORD.unpack_from(message)
        return kind, number, message[spawner.WORD.size :].decode(errors="replace")

    def has_only(self, pid: int) -> bool:
        """Whether this is its only child, which is so of the command that it has just begun.

        True where nobody can tell: then it is so because no process was left before.
        """
        try:
            return not self._children.told or self._children.pids() == [pid]
        except OSError:
            return False

    def children(self) -> list[int]:
        """The process ids of its children."""
        try:
            return self._children.pids()
        except OSError:
            return []  # it has ended

    def end_all(self) -> None:
        """Have it end what its command has left in its domain, if it can."""
        if self._ends_all and not self.lost:
            os.kill(self.pid, spawner.END_ALL)
            os.kill(self.pid, signal.SIGCONT)

    def disown(self) -> None:
        """A command's first process has ended: leave the keeper what is this one's child.

        By CLONE_PARENT, clone(2), a process gets a sibling; the next command shall have none.
        """
        if not self.lost and self.children():
            self.give_up()

    def precedents(self, writable: Collection[str], *, traced: bool) -> Precedents:
        """What the execs of its commands have shown, under the same distrust."""
        key = tuple(writable), traced
        if self._precedents is None or self._precedents[0] != key:
            # Who traces wants to know of each exec all there is to know.
            found = Precedents(our_view=self.confined and not traced)
            self._precedents = key, found
        return self._precedents[1]

    def give_up(self) -> None:
        """End it, and ask nothing of it any more; whoever waits for children reaps it."""
        if not self.lost:
            self.lost = True
            os.kill(self.pid, signal.SIGKILL)  # nobody has waited for it before

    def close(self) -> None:
        """End it, and close what there is of it."""
        self.give_up()
        self.channel.close()
        self._children.close()
        if self.listener is not None:
            self.listener.close()


class Spawners:
    """Those of one keeper, which is the process `keeper`."""

    def __init__(self, settings: Settings, started_with: Limits) -> None:
        self._settings = settings
        self._started_with = started_with
        self._kept: dict[object, Spawner] = {}  # the last one used is last

    def kept(self) -> set[int]:
        """The process ids of those that are there for the next command."""
        return {it.pid for it in self._kept.values() if not it.lost}

    def all(self) -> set[int]:
        """The same, and those that have been given up and are ending."""
        return {it.pid for it in self._kept.values() if not it.ended}

    def end_all(self) -> None:
        """Have them end what is left of their commands, as far as they can."""
        for it in self._kept.values():
            it.end_all()

    def children(self) -> list[int]:
        """What they have started that is still there."""
        return [pid for it in self._kept.values() if not it.ended for pid in it.children()]

    def ended(self, pid: int) -> None:
        """A child was waited for: its number may be another's from now on."""
        for it in self._kept.values():
            if it.pid == pid:
                it.lost = it.ended = True

    def get(self, sandbox: Sandbox) -> Spawner:
        """One for this sandbox as it is now.

        Raises SandboxError when the kernel cannot give it, OSError, NotStartedError.
        """
        limits = kernel_limits(self._settings.limits)
        if self._settings.wrapper is not None:
            # Nobody holds the first exec, to set a limit that is this command's own.
            limits += process_limit(self._settings.limits, lasting=True)
        key = _key(sandbox, limits)
        found = self._kept.get(key)
        if found is not None and not found.fit():
            self._kept.pop(key).close()
            found = None
        if found is None:
            found = self._made(sandbox, limits)
            if _key(sandbox, limits) != key:
                key = object()  # a root was replaced meanwhile: who knows which one it has
            self._kept[key] = found
            if len(self._kept) > _MOST:
                self._kept.pop(next(iter(self._kept))).close()
        else:
            self._kept[key] = self._kept.pop(key)
        return found

    def close(self) -> None:
        """End all."""
        while self._kept:
            self._kept.popitem()[1].close()

    def _made(self, sandbox: Sandbox, limits: Limits) -> Spawner:
        settings = self._settings
        confinement = enforce.prepare(sandbox.policy, sandbox.roots)
        try:
            environment = {**settings.environment, **confinement.environment}
            if settings.wrapper is not None:
                environment[wire.SOCKET_VARIABLE] = str(SOCKET_NUMBER)
                environment[wire.SHELL_SOCKET_VARIABLE] = str(SOCKET_NUMBER)
                environment[wire.WRAPPER_VARIABLE] = settings.wrapper
                environment[wire.OLDER_WRAPPER_VARIABLE] = settings.wrapper
            cell = spawner.Cell(
                confinement,
                {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
                _all_of(limits, self._started_with),
                sandbox.mounts,
                intercepted=settings.wrapper is None,
            )
            pid, channel = self._forked(cell)
        finally:
            confinement.close()
        lacking = not_granted(confinement.status, sandbox.policy.writable_roots)
        try:
            listener, number = _ready(channel, intercepted=cell.intercepted)
        except BaseException:
            channel.close()
            os.kill(pid, signal.SIGKILL)
            raise
        confined, ends_all = bool(confinement.filter), bool(number & spawner.ENDS_ALL)
        return Spawner(pid, channel, listener, lacking, confined=confined, ends_all=ends_all)

    def _forked(self, cell: spawner.Cell) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            raise not_started(error.errno or 0) from None
        if pid == 0:
            spawner.be(cell, theirs, keeper, self._started_with)
        theirs.close()
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(_PATIENCE_SECONDS, 0))
        return pid, ours


def _ready(channel: socket.socket, *, intercepted: bool) -> tuple[Listener | None, int]:
    """What a spawner hands over and says when it is confined; raises NotStartedError if it is not.

    intercepted: there has to be a listener, or else there must not be one.
    """
    try:
        message, fds = receive(channel, spawner.WORD.size + spawner.MAX_TEXT, 1)
    except OSError as error:
        raise NotStartedError(f"no spawner: {error.strerror}", error.errno or 0) from None
    kind, number = spawner.FAILED, 0
    if len(message) >= spawner.WORD.size:
        kind, number = spawner.WORD.unpack_from(message)
    if kind != spawner.READY:
        text = message[spawner.WORD.size :].decode(errors="replace") or "the spawner was ended"
        raise NotStartedError(f"{text}: {os.strerror(number)}" if number else text, number)
    if bool(fds) is not intercepted:
        for fd in fds:
            os.close(fd)
        raise NotStartedError(f"the spawner has {'no' if intercepted else 'a'} listener")
    if not fds:
        return None, number
    machine = architecture(os.uname().machine)
    assert machine is not None, "no listener without an exec filter"
    listener = Listener(fds[0], machine, killable=bool(number & spawner.KILLABLE))
    try:
        listener.sync_wake_up()
    except KernelError as error:
        listener.close()
        raise NotStartedError(str(error), error.errno) from None
    return listener, number


def _all_of(limits: Limits, started_with: Limits) -> Limits:
    """With that of descriptors, where it would keep a spawner from placing a command's socket."""
    files = [it for it in started_with if it[0] == resource.RLIMIT_NOFILE]
    if any(kind == resource.RLIMIT_NOFILE for kind, _, _ in limits):
        return limits
    return (*limits, *(it for it in files if 0 <= it[1] <= SOCKET_NUMBER))


def _key(sandbox: Sandbox, limits: Sequence[tuple[int, int, int]]) -> object:
    # A directory removed and made again is another one, and the ruleset holds the old.
    roots = tuple((root, _identity(root)) for root in sandbox.roots)
    return sandbox.policy, roots, sandbox.mounts, limits


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
