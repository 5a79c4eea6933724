"""Which descriptors go out with a program, and which do not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codex_multitool.escalation.outgoing import Outgoing, sort_out

Open = Callable[..., int]


@pytest.fixture
def opened() -> Iterator[Open]:
    found: list[int] = []

    def open_(path: object, flags: int = os.O_RDONLY) -> int:
        found.append(os.open(str(path), flags | os.O_CLOEXEC))
        return found[-1]

    yield open_
    for fd in found:
        os.close(fd)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    (folder / "file").write_text("in")
    (tmp_path / "file").write_text("out")
    return folder


def identity(fd: int) -> tuple[int, int]:
    return os.fstat(fd).st_dev, os.fstat(fd).st_ino


def test_what_has_no_name_goes(opened: Open, ws: Path) -> None:
    pipe, pair = os.pipe(), socket.socketpair()
    fds = (*pipe, pair[0].fileno(), opened("/dev/null"), opened("/dev/urandom"), opened(ws.parent))
    pairs = tuple((fd, number) for number, fd in enumerate(fds))
    try:
        assert sort_out(pairs, [str(ws)]) == Outgoing(pairs)
    finally:
        for fd in pipe:
            os.close(fd)
        for end in pair:
            end.close()


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND])
def test_what_its_caller_can_write_goes(opened: Open, ws: Path, flags: int) -> None:
    fd = opened(ws.parent / "file", flags)
    assert sort_out([(fd, 1)], [str(ws)]) == Outgoing(((fd, 1),), (identity(fd),))


@pytest.mark.parametrize("number", [0, 1, 2, 7])
def test_what_its_caller_could_have_opened_for_writing_goes(
    opened: Open, ws: Path, number: int
) -> None:
    fd = opened(ws / "file")
    assert sort_out([(fd, number)], [str(ws)]) == Outgoing(((fd, number),), (identity(fd),))
    link = ws.parent / "link"
    link.symlink_to(ws)
    assert sort_out([(fd, number)], [str(link)]).staying == ()


@pytest.mark.parametrize("number", [1, 2, 7])
def test_what_only_we_could_write_stays(opened: Open, ws: Path, number: int) -> None:
    fd = opened(ws.parent / "file")
    staying = ((number, str(ws.parent / "file")),)
    assert sort_out([(fd, number)], [str(ws)]) == Outgoing((), staying=staying)
    assert sort_out([(fd, number)], []) == Outgoing((), staying=staying)
    assert sort_out([(fd, number)], None) == Outgoing(((fd, number),))


def test_as_stdin_it_is_read_through_a_pipe(opened: Open, ws: Path) -> None:
    fd = opened(ws.parent / "file")
    assert sort_out([(fd, 0)], [str(ws)]) == Outgoing((), piped=fd)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write every file")
def test_what_nobody_of_us_can_write_goes(opened: Open, ws: Path) -> None:
    fd = opened("/etc/passwd")
    assert sort_out([(fd, 2)], [str(ws)]).going == ((fd, 2),)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_mere_name_stays_wherever_it_leads(opened: Open, ws: Path, number: int) -> None:
    fd = opened(ws / "file", os.O_PATH)
    assert sort_out([(fd, number)], [str(ws)]).staying == ((number, str(ws / "file")),)


def test_a_named_pipe_goes_as_stdin_alone(opened: Open, ws: Path) -> None:
    fifo = ws.parent / "fifo"
    os.mkfifo(fifo)
    fd = opened(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert sort_out([(fd, 0), (fd, 2)], [str(ws)]) == Outgoing(
        ((fd, 0),), staying=((2, str(fifo)),)
    )
