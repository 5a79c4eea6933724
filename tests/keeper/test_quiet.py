"""Whether there is anything to be watched: told by the front, heard by its keepers, and no more."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from codex_multitool.escalation.protected import Change
from codex_multitool.escalation.watch import Finding
from codex_multitool.keeper import protocol
from codex_multitool.keeper.frames import Decoder, encode
from codex_multitool.keeper.front import Front
from codex_multitool.keeper.quiet import Quiet, heard, made, never
from codex_multitool.keeper.watching import TheirAbsence, TheirWatch
from codex_multitool.loop import Loop, Task


def test_what_is_told_is_heard_in_forks_too() -> None:
    quiet = Quiet()
    hear = heard(quiet.descriptor)
    assert not hear()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(hear())
    quiet.tell(True)
    os.write(writer, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    for it in (True, False, True):
        quiet.tell(it)
        assert hear() is it
    quiet.close()
    assert not hear()
    os.close(reader)
    os.close(writer)


def test_who_hears_it_cannot_tell_it() -> None:
    quiet = Quiet()
    with pytest.raises(PermissionError):
        mmap.mmap(quiet.descriptor, mmap.PAGESIZE)
    with pytest.raises(PermissionError):
        os.write(quiet.descriptor, b"\1")
    with pytest.raises(PermissionError):
        os.truncate(quiet.descriptor, 0)
    page = mmap.mmap(quiet.descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ)
    libc = ctypes.CDLL(None, use_errno=True)
    # The mapping at its address, as mprotect(2) takes it.
    libc.mmap.restype = ctypes.c_void_p
    size, shared = ctypes.c_size_t(mmap.PAGESIZE), mmap.MAP_SHARED
    at = libc.mmap(None, size, mmap.PROT_READ, shared, quiet.descriptor, ctypes.c_long(0))
    both = mmap.PROT_READ | mmap.PROT_WRITE
    assert libc.mprotect(ctypes.c_void_p(at), size, both) == -1
    assert ctypes.get_errno() == errno.EACCES
    libc.munmap(ctypes.c_void_p(at), size)
    page.close()
    os.close(quiet.descriptor)


def test_without_one_there_is_always_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_multitool.keeper.quiet._SEALS", 1 << 30)
    before = os.listdir("/proc/self/fd")
    assert made() is None
    assert os.listdir("/proc/self/fd") == before
    assert never() is False


class Talk:
    """A keeper's end of its socket, and the front's, which answers as it is told."""

    def __init__(self) -> None:
        self.loop = Loop()
        theirs, self.front = socket.socketpair()
        self.quiet = True
        talk = Front(theirs, self.loop, lambda *_: None, lambda: None)
        self.watch = TheirWatch(talk, lambda: self.quiet)
        self.theirs = theirs

    def heard(self) -> list[Any]:
        """What the front heard."""
        try:
            return Decoder().feed(self.front.recv(1 << 16, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return []

    def answered(self, task: Task[Any], value: Any) -> Any:
        """What a task comes to that has one question, answered by this."""
        found: list[Any] = []

        def kept() -> Task[None]:
            found.append((yield from task))

        running = self.loop.start(kept())
        self.loop.turn()
        (message,) = self.heard()
        self.front.sendall(encode(protocol.Answer(message.number, value)))
        self.loop.run(running.done)
        return found[0]


@pytest.fixture
def talk() -> Iterator[Talk]:
    made = Talk()
    yield made
    made.theirs.close()
    made.front.close()


def test_where_nothing_is_watched_nothing_is_asked(talk: Talk) -> None:
    run = talk.loop.result
    assert run(talk.watch.look("/w")) == Finding()
    for leaving in (talk.watch.leaving, talk.watch.leaving_unchanged):
        absence = run(leaving("/w", ("x",), None))
        assert isinstance(absence, TheirAbsence)
        run(absence.over())
        absence.lost()
    assert talk.heard() == []


def test_where_something_is_watched_the_front_is_asked(talk: Talk) -> None:
    talk.quiet = False
    assert talk.answered(talk.watch.look("/w"), ((), 1)) == Finding((), 1)
    change = Change("wrote", "/w/.envrc")
    finding = talk.answered(talk.watch.leaving_unchanged("/w", ("x",), 7), ((change,), 2))
    assert finding == Finding((change,), 2)
    absence = talk.answered(talk.watch.leaving_unchanged("/w", ("x",), 7), 3)
    talk.quiet = True  # what has begun is seen through
    assert talk.answered(absence.over(), None) is None
    absence.lost()
    assert talk.heard() == []
