"""A file behind a pipe: what is read of it, and how far its offset goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool.escalation.feeding import Feeding
from codex_multitool.loop import Loop


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """A file of 300,000 bytes, of which ten have been read."""
    path = tmp_path / "file"
    path.write_bytes(bytes(range(250)) * 1200)
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 10)
    yield fd
    os.close(fd)


def test_all_of_it_can_be_read_and_has_been_then(file: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    loop = Loop()
    feeding = Feeding(loop, file)
    os.set_blocking(feeding.reader, False)
    found = b""
    while True:
        try:
            part = os.read(feeding.reader, 1 << 20)
        except BlockingIOError:
            loop.turn()
            continue
        if not part:
            break
        found += part
    assert found == (bytes(range(250)) * 1200)[10:]
    feeding.end()
    assert os.lseek(file, 0, os.SEEK_CUR) == 300_000
    feeding.end()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_what_was_not_read_is_there_for_the_next(file: int, turns: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    loop = Loop()
    feeding = Feeding(loop, file)
    os.set_blocking(feeding.reader, False)
    loop.at(0, lambda: None)
    for _ in range(turns):
        loop.turn()
        loop.at(0, lambda: None)
    read = len(os.read(feeding.reader, 7)) if turns > 1 else 0
    feeding.end()
    assert os.lseek(file, 0, os.SEEK_CUR) == 10 + read
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    loop = Loop()
    feeding = Feeding(loop, fd)
    os.set_blocking(feeding.reader, True)
    loop.at(0, lambda: None)
    loop.turn()
    assert os.read(feeding.reader, 1) == b""
    feeding.end()
    os.close(fd)
