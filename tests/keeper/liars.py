"""Spawners in the hands of an enemy: what they do and say instead."""

from __future__ import annotations

import marshal
import os
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from codex_multitool.interception.rights import receive, send
from codex_multitool.keeper import shell, spawners
from codex_multitool.launcher import spawner
from codex_multitool.launcher.spawner import ENDED, FAILED, NOT_STARTED, READY, STARTED, WORD

VICTIM = "VICTIM"  # in the environment: a process id
_IMPATIENCE = 0.2


class Place(NamedTuple):
    """A spawner's arguments."""

    cell: spawner.Cell
    channel: socket.socket
    keeper: int
    started_with: Any


Liar = Callable[[Place], Any]
Lie = Callable[[socket.socket], Any]  # what it says
After = Callable[[socket.socket, int], Any]  # the same once the shell runs, which is this process


def lie() -> None:
    """In a house's processes alone: a keeper's settings say who its first spawners are."""
    honest, made = spawner.be, spawners.Spawners._forked
    patience = shell._BEGIN_SECONDS, spawners._PATIENCE_SECONDS

    def forked(self: Any, cell: Any) -> Any:
        name, _, times = self._settings.shell.partition(":")
        spawner.be = honest
        shell._BEGIN_SECONDS, spawners._PATIENCE_SECONDS = patience
        if times and int(times):
            self._settings = self._settings._replace(shell=f"{name}:{int(times) - 1}")
            spawner.be = _spawner(LIARS[name])
            if name in SILENT:
                shell._BEGIN_SECONDS, spawners._PATIENCE_SECONDS = _IMPATIENCE, 1
        return made(self, cell)

    spawners.Spawners._forked = forked  # type: ignore[method-assign]
    # Where these are over too soon, the same is told.
    shell._DOUBT_SECONDS = shell._SILENCE_SECONDS = _IMPATIENCE


def _spawner(liar: Liar) -> Callable[..., NoReturn]:
    def be(*arguments: Any) -> NoReturn:
        try:
            liar(Place(*arguments))
            time.sleep(1000)
        finally:
            os._exit(0)

    return be


def confine(place: Place) -> None:
    """Begin as an honest one."""
    listener, killable = spawner._confined(
        place.cell, place.channel.fileno(), place.keeper, place.started_with, spawner._Step()
    )
    send(place.channel, WORD.pack(READY, killable), [listener] if listener >= 0 else [])
    if listener >= 0:
        os.close(listener)


def take(place: Place) -> tuple[bytes, list[int]]:
    """What the keeper wants started."""
    return receive(place.channel, spawner.MAX_MESSAGE, spawner.MAX_DESCRIPTORS)


def start(place: Place) -> int:
    """Start what it wants, as an honest one."""
    message, fds = take(place)
    pid = spawner._started(place.cell, marshal.loads(message), fds)
    for fd in fds:
        os.close(fd)
    if not place.cell.intercepted:
        place.channel.send(WORD.pack(STARTED, pid))
    return pid


def unbegun(lies: Lie) -> Liar:
    """Instead of starting what it is told."""

    def liar(place: Place) -> None:
        confine(place)
        take(place)
        lies(place.channel)

    return liar


def begun(after: After) -> Liar:
    """Once that runs."""

    def liar(place: Place) -> None:
        confine(place)
        pid = start(place)
        after(place.channel, pid)

    return liar


def waited(lies: Lie) -> Liar:
    """Once that has ended."""

    def after(channel: socket.socket, pid: int) -> None:
        os.waitpid(pid, 0)
        lies(channel)

    return begun(after)


def unconfined(lies: Lie) -> Liar:
    """Instead of confining itself."""
    return lambda place: lies(place.channel)


def word(kind: int, number: int, text: bytes = b"") -> Lie:
    """A message as an honest one says it."""
    return lambda channel: channel.send(WORD.pack(kind, number) + text)


def started(pid: Callable[[], int]) -> Lie:
    """The claim that this was started."""
    return lambda channel: channel.send(WORD.pack(STARTED, pid()))


def several(*lies: Lie) -> Lie:
    """One after the other."""
    return lambda channel: [it(channel) for it in lies]


def raw(data: bytes) -> Lie:
    """Any message."""
    return lambda channel: channel.send(data)


def silent(*_: Any) -> None:
    """Nothing."""


def gone(channel: socket.socket, _: int = 0) -> None:
    """Nothing any more."""
    channel.close()


def asked_again(channel: socket.socket) -> None:
    """Nothing before the next command is wanted."""
    channel.recv(1)


def dies(*_: Any) -> None:
    """Nothing any more, and ends."""
    os._exit(0)


def _itself(_: socket.socket) -> None:
    os.execv("/bin/sleep", ["/bin/sleep", "1000"])


def _twins(place: Place) -> None:
    """Two that execute at the same time."""
    confine(place)
    take(place)
    reader, writer = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            os.read(reader, 1)
            os.execv("/bin/sleep", ["/bin/sleep", "1000"])
    os.write(writer, b"12")


def _grandchild(place: Place) -> None:
    """What executes is not the spawner's child."""
    confine(place)
    take(place)
    if os.fork() == 0:
        if os.fork() == 0:
            os.execv("/bin/sleep", ["/bin/sleep", "1000"])
        time.sleep(1000)


def _unjudged(number: int, *files: str) -> Liar:
    """The shell is started though nobody has a listener, but perhaps another file."""

    def liar(place: Place) -> None:
        send(place.channel, WORD.pack(READY, number), [os.open(it, os.O_RDWR) for it in files])
        start(place)

    return liar


def _judged(place: Place) -> None:
    """A listener is handed over that nobody wants."""
    listener, _ = spawner.listen()
    send(place.channel, WORD.pack(READY, spawner.KILLABLE), [listener])


def _another(place: Place) -> None:
    """Some process outside is said to be the shell."""
    confine(place)
    take(place)
    word(STARTED, int(place.cell.environment[VICTIM.encode()]))(place.channel)


UNBEGUN: dict[str, Liar] = {
    "ended": unbegun(word(ENDED, 0)),
    "ended twice": unbegun(several(word(ENDED, 0), word(ENDED, 1))),
    "started init": unbegun(several(word(STARTED, 1), word(ENDED, 0))),
    "started nobody": unbegun(several(word(STARTED, 0), word(ENDED, 0))),
    "started all": unbegun(several(word(STARTED, -1), word(ENDED, 0))),
    "started itself": unbegun(started(os.getpid)),
    "unknown": unbegun(word(77, 3)),
    "ready": unbegun(word(READY, 1)),
    "failed": unbegun(word(FAILED, 1)),
    "short": unbegun(raw(b"\x04")),
    "empty": unbegun(raw(b"")),
    "long": unbegun(raw(b"\xff" * 60_000)),
    "gone": unbegun(gone),
    "dies": unbegun(dies),
    "silent": unbegun(silent),
    "executes": unbegun(_itself),
}
# What these say has started is another process.
OTHERS: dict[str, Liar] = {
    "its keeper": unbegun(started(os.getppid)),
    "somebody": _another,
    "nobody": unbegun(started(lambda: (1 << 22) + 1)),
}
BEGUN: dict[str, Liar] = {
    "then ended": begun(lambda channel, _: word(ENDED, 0)(channel)),
    "then unknown": begun(lambda channel, _: word(77, 0)(channel)),
    "then empty": begun(lambda channel, _: raw(b"")(channel)),
    "then gone": begun(gone),
    "then dies": begun(dies),
    "then silent": begun(silent),
    "then started": begun(lambda channel, _: word(STARTED, 1)(channel)),
}
STATUSES: dict[str, Liar] = {
    f"status {status:#x}": waited(word(ENDED, status))
    for status in (0x7F, 0x137F, 0xFFFF, -1, 1 << 20, -(1 << 31))
}
REASONS: dict[str, Liar] = {
    f"reason {number}": unbegun(
        several(word(NOT_STARTED, number, b"\xff" * 600), asked_again, dies)
    )
    for number in (0, -5, 1 << 30, -(1 << 31))
}
# And what is told of them.
UNREADY: dict[str, tuple[Liar, str]] = {
    "fails": (unconfined(word(FAILED, 1, b"a step")), "a step: Operation not permitted"),
    "fails for no reason": (unconfined(word(FAILED, 0)), "the spawner was ended"),
    "is short": (unconfined(raw(b"\x01")), "the spawner was ended"),
    "is gone": (unconfined(gone), "the spawner was ended"),
    "is dead": (unconfined(dies), "the spawner was ended"),
    "is through": (unconfined(word(ENDED, 0)), "the spawner was ended"),
    "is silent": (unconfined(silent), "no spawner: Resource temporarily unavailable"),
    "has no listener": (_unjudged(spawner.KILLABLE), "the spawner has no listener"),
    "has no number": (_unjudged(77), "the spawner has no listener"),
    "has a file": (_unjudged(spawner.KILLABLE, "/dev/null"), "SECCOMP_IOCTL_NOTIF_SET_FLAGS: "),
}
FORGED: dict[str, Liar] = {"twins": _twins, "grandchild": _grandchild}
# Nothing but time tells of these.
SILENT = ("silent", "is silent", "executes", *FORGED)
LIARS: dict[str, Liar] = {
    **UNBEGUN,
    **BEGUN,
    **STATUSES,
    **REASONS,
    **{name: liar for name, (liar, _) in UNREADY.items()},
    **FORGED,
    **OTHERS,
    "waits": waited(silent),
    "has a listener": _judged,
    "did not start": begun(lambda channel, _: word(NOT_STARTED, 2, b"/x")(channel)),
}
