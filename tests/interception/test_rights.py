"""Descriptors that come with a message, and those that come in too great a number."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from codex_multitool.interception import rights


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    before = len(os.listdir("/proc/self/fd"))
    with ours, theirs:
        yield ours, theirs
        assert len(os.listdir("/proc/self/fd")) == before


def test_they_come_close_on_exec_with_the_first_byte(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    assert rights.send(theirs, b"text", [1, 2]) == 4
    data, fds = rights.receive(ours, 3, 2)
    assert (data, len(fds)) == (b"tex", 2)
    assert not any(map(os.get_inheritable, fds))
    for fd, sent in zip(fds, (1, 2), strict=True):
        assert os.path.sameopenfile(fd, sent)
        os.close(fd)
    assert rights.receive(ours, 3, 2) == (b"t", [])


@pytest.mark.parametrize(("most", "sent"), [(1, 2), (1, 3), (2, 3), (3, rights.MOST)])
def test_of_too_many_none_is_kept(
    pair: tuple[socket.socket, socket.socket], most: int, sent: int
) -> None:
    ours, theirs = pair
    rights.send(theirs, b"x", [1] * sent)
    with pytest.raises(OSError, match=f"than {most}"):
        rights.receive(ours, 1, most)


def test_where_none_may_come_none_does(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    rights.send(theirs, b"x", [1])
    assert rights.receive(ours, 1) == (b"x", [])


def test_as_many_as_a_message_can_carry(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    rights.send(theirs, b"x", [1] * rights.MOST)
    _, fds = rights.receive(ours, 1, rights.MOST)
    assert len(fds) == rights.MOST
    for fd in fds:
        os.close(fd)


def test_other_control_messages_are_passed_over(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    rights.send(theirs, b"x", [])
    assert rights.receive(ours, 1, 8) == (b"x", [])
