"""Drives real keepers as their front does: orders, answers, and a look at what is left.

A house is a zygote with its keepers, forked by a front, and perhaps another user's. What its
processes say on stderr is a defect of theirs.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import prctl
import pytest

from codex_multitool.config.limits import Limits
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.rules import Policy
from codex_multitool.interception.rights import receive, send
from codex_multitool.keeper import forking, frames, protocol, zygote
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.launcher.hardening import harden
from codex_multitool.running.settings import Environments, Settings
from codex_multitool.sandbox import kernel
from codex_multitool.sandbox.policy import DANGER_FULL_ACCESS, READ_ONLY, SandboxPolicy
from tests.end_to_end.processes import MARK, kill_marked, marked, wait_until
from tests.machine import kernel_refusal

PATIENCE = 30.0  # seconds; nothing that works takes this long
SPAWNER = "codex-spawner"
_CHUNK = 1 << 16
_SCOPES = 6  # the first ABI of Landlock that has them: landlock(7)

# A user who cannot reach the interpreter's files cannot load it later.
_LOADED = (forking,)


def settings(environment: dict[str, str], **more: Any) -> Settings:
    """What keepers work by: no rules, unless told otherwise."""
    found = Settings(
        shell="/bin/bash",
        wrapper=None,
        judgement=Judgement(Policy()),
        environments=Environments(environment, environment),
        limits=Limits(processes=None),
    )
    return found._replace(**more)


def sandbox(kind: str = READ_ONLY, roots: tuple[str, ...] = (), **more: Any) -> protocol.Sandbox:
    """A sandbox of that kind; the network is off."""
    return protocol.Sandbox(SandboxPolicy(kind, writable_roots=roots), roots, **more)


FULL = sandbox(DANGER_FULL_ACCESS)
CONFINED = sandbox()


class Ran(NamedTuple):
    """What an order came to. told: all that the keeper said on the way."""

    outcome: Outcome | None
    refused: protocol.Refused | None
    told: list[Any]

    @property
    def done(self) -> Outcome:
        """The outcome of an order that was not refused."""
        assert self.outcome is not None, self
        return self.outcome

    @property
    def text(self) -> str:
        """What it printed."""
        return self.done.output.text()

    @property
    def code(self) -> int:
        """Its exit status; negative: the signal that ended it."""
        return os.waitstatus_to_exitcode(self.done.status)


class GoneError(Exception):
    """The keeper has closed its socket."""


class Keeper:
    """A front's end of one keeper."""

    def __init__(self, connection: socket.socket, house: House) -> None:
        self._connection = connection
        self._decoder = frames.Decoder()
        self._queue: list[Any] = []
        self.mark = house.mark
        self.uid = house.uid
        connection.settimeout(PATIENCE)
        hello = self.read()
        if isinstance(hello, protocol.Refused):
            raise RefusedError(hello.text)
        assert isinstance(hello, protocol.Hello), hello
        self.pid = hello.pid

    def close(self) -> None:
        """Go, as a front does."""
        self._connection.close()

    def tell(self, message: protocol.Message, *descriptors: int) -> None:
        """Say something."""
        data = frames.encode(message)
        sent = send(self._connection, data, descriptors)
        self._connection.sendall(data[sent:])

    def read(self) -> Any:
        """The next that it says."""
        while not self._queue:
            data, fds = receive(self._connection, _CHUNK, protocol.MAX_DESCRIPTORS)
            assert not fds
            if not data:
                raise GoneError
            self._queue += self._decoder.feed(data)
        return self._queue.pop(0)

    def order(
        self,
        command: str | tuple[str, ...],
        within: protocol.Sandbox = CONFINED,
        *descriptors: int,
        workdir: str = "/",
        timeout: float = PATIENCE,
        **more: Any,
    ) -> None:
        """Have it run, by bash, or as the words of an argv."""
        argv = ("/bin/bash", "-c", command) if isinstance(command, str) else command
        more.setdefault("size", None if descriptors else 11_000)
        more.setdefault("writable", within.roots)
        self.tell(protocol.Order(argv, workdir, within, timeout=timeout, **more), *descriptors)

    def until(self, *kinds: type[Any]) -> list[Any]:
        """All that it says up to one of these kinds. A question is answered by yes."""
        told = [self.read()]
        while not isinstance(told[-1], kinds):
            if isinstance(told[-1], protocol.Ask):
                self.tell(protocol.Answer(told[-1].number, ("accept", None)))
            told.append(self.read())
        return told

    def end(self) -> None:
        """Have the command ended."""
        self.tell(protocol.End())

    def result(self) -> Ran:
        """What it says of its order, up to the end of the last process."""
        told = self.until(protocol.Refused, protocol.Done)
        last = told[-1]
        if isinstance(last, protocol.Refused):
            return Ran(None, last, told)
        if not last.over:
            told += self.until(protocol.Over)
        return Ran(last.outcome, None, told)

    def run(self, *order: Any, **more: Any) -> Ran:
        """Order, and see it through to the end of its last process."""
        self.order(*order, **more)
        return self.result()

    def works(self, within: protocol.Sandbox = CONFINED) -> bool:
        """Whether an ordinary command of the same kind does what it should."""
        ran = self.run("/bin/echo works; exec /bin/sh -c 'exit 3'", within)
        assert (ran.text, ran.code) == ("works\n", 3), ran
        return True

    # what there is of it

    def spawners(self) -> list[int]:
        """The process ids of its spawners."""
        return [pid for pid in children(self.pid) if comm(pid) == SPAWNER]

    def settled(self) -> None:
        """Wait until nothing is left but it and its spawners; it says that a moment before."""
        wait_until(lambda: not self.left(), f"nothing below the keeper: {self.left()}")
        wait_until(lambda: state(self.pid) == "S", "the keeper's sleep")

    def left(self) -> list[str]:
        """What is below it besides spawners, zombies included."""
        return [
            f"{pid} {comm(pid)} {state(pid)}" for pid in below(self.pid) if comm(pid) != SPAWNER
        ] + [f"{pid} is a zombie" for pid in self.spawners() if state(pid) == "Z"]

    def descriptors(self) -> list[str]:
        """What it has open; nothing where that is not ours to see."""
        return _targets(f"/proc/{self.pid}/fd")


class RefusedError(Exception):
    """There is no keeper to be had."""


class House:
    """A zygote. uid: whose, None for ours; guarded: as the server guards itself.

    prepare: called where nobody else sees what it does to modules.
    """

    def __init__(
        self,
        uid: int | None = None,
        *,
        guarded: bool = True,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.uid = uid
        self.mark = uuid.uuid4().hex
        # Of all commands.
        self.environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", MARK: self.mark}
        self._keepers: list[Keeper] = []
        self._log = os.memfd_create("stderr")
        reader, writer = socket.socketpair()
        self.front = os.fork()
        if self.front == 0:
            try:
                reader.close()
                prepare()
                self._be_front(writer, self._log, guarded=guarded)
            finally:
                os._exit(1)
        writer.close()
        with reader:
            _, (control,) = receive(reader, 1, 1)
        self._control = socket.socket(fileno=control)
        self.zygote = children(self.front)[0]

    @property
    def root(self) -> bool:
        """Whether its user is root."""
        return self.uid is None and os.geteuid() == 0

    def keeper(self, **more: Any) -> Keeper:
        """One more keeper. more: of its settings."""
        wanted = settings(dict(self.environment), **more)
        self._control.sendall(frames.encode(protocol.Begin(wanted)))
        ours, theirs = socket.socketpair()
        grow = frames.encode(protocol.Grow())
        try:
            with theirs:
                assert send(self._control, grow, [theirs.fileno()]) == len(grow)
            keeper = Keeper(ours, self)
        except BaseException:
            ours.close()
            raise
        self._keepers.append(keeper)
        return keeper

    def _be_front(self, channel: socket.socket, log: int, *, guarded: bool) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for source, target in ((null, 0), (null, 1), (log, 2)):
            os.dup2(source, target)
        zygote.close_all_but(channel.fileno())
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        self.become()
        prctl.set_pdeathsig(signal.SIGKILL)  # which another user id takes back: prctl(2)
        control = zygote.start(harden() if guarded else ())
        send(channel, b"-", [control.fileno()])
        control.close()
        # The zygote is reaped as any front's would be.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        channel.close()
        while True:
            try:
                os.wait()
            except ChildProcessError:
                signal.pause()

    def become(self) -> None:
        """Make this process its user's."""
        uid = self.uid
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)

    def own(self, *paths: Path) -> None:
        """Make these its user's."""
        for path in paths:
            if self.uid is not None:
                os.chown(path, self.uid, self.uid)

    def release(self) -> None:
        """Let all keepers go, and see that nothing is left of them."""
        while self._keepers:
            self._keepers.pop().close()
        wait_until(lambda: not children(self.zygote), "no process left below the zygote")
        wait_until(lambda: not marked(self.mark), f"no process left: {marked(self.mark)}")
        assert self.complaints() == ""

    def complaints(self) -> str:
        """What its processes said on stderr since last asked."""
        text = os.pread(self._log, os.fstat(self._log).st_size, 0).decode(errors="replace")
        os.truncate(self._log, 0)
        return text

    def leave(self) -> None:
        """Close all sockets, as a front that ends."""
        for keeper in self._keepers:
            keeper.close()
        self._control.close()

    def close(self) -> None:
        """End it; fails if something is left."""
        self.leave()
        try:
            wait_until(lambda: not children(self.front), "the zygote's end")
            wait_until(lambda: not marked(self.mark), f"no process left: {marked(self.mark)}")
            assert self.complaints() == ""
        finally:
            os.kill(self.front, signal.SIGKILL)
            os.waitpid(self.front, 0)
            kill_marked(self.mark)
            os.close(self._log)


def somebody() -> int | None:
    """A user who has no process; None where we cannot become one, and are ordinary ourselves."""
    return random.randrange(1 << 20, 1 << 30) if os.geteuid() == 0 else None


def needs_listeners() -> None:
    """Skip where the kernel does not tell of execs."""
    if why := kernel_refusal():
        pytest.skip(f"no kernel interception: {why}")


def signals_are_kept() -> bool:
    """Whether Landlock keeps a sandbox's signals in it."""
    try:
        version = kernel.LANDLOCK_CREATE_RULESET_VERSION
        return kernel.landlock_create_ruleset(None, version) >= _SCOPES
    except kernel.KernelError:
        return False


# processes


def children(pid: int) -> list[int]:
    """Its children, the dead included."""
    return _numbers(f"/proc/{pid}/task/{pid}/children")


def below(pid: int) -> list[int]:
    """All below it, the dead included."""
    found, queue = [], [pid]
    while queue:
        some = children(queue.pop())
        found += some
        queue += some
    return found


def comm(pid: int) -> str:
    """Its name; empty if it has gone."""
    return _read(f"/proc/{pid}/comm").strip()


def state(pid: int) -> str:
    """R, S, T, Z ...; empty if it has gone."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].lstrip()[:1]


def parent(pid: int) -> int:
    """Its parent."""
    return int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])


def _numbers(path: str) -> list[int]:
    return [int(word) for word in _read(path).split()]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _targets(folder: str) -> list[str]:
    found = []
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(FileNotFoundError):  # just closed
                found.append(os.readlink(f"{folder}/{name}"))
    return found


def soon(found: Callable[[], Any], what: str) -> Any:
    """What it finds, as soon as there is something."""
    kept: list[Any] = []

    def looked() -> bool:
        kept[:] = [found()]
        return bool(kept[0])

    wait_until(looked, what)
    return kept[0]
