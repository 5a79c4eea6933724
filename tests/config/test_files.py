"""Files read whole, or refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.files import read


def refusal(path: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(str(path), "thing")
    told = str(caught.value)
    assert told.startswith(f"failed to read thing {path}: ")
    return told.removeprefix(f"failed to read thing {path}: ")


def test_a_file_is_its_bytes_and_no_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    assert read(str(path), "thing") is None
    path.write_bytes(b"\xff\r\n")
    assert read(str(path), "thing") == b"\xff\r\n"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    assert refusal(tmp_path) == "Is a directory"
    assert refusal(tmp_path / "pipe") == "not a regular file"
    assert refusal("/dev/null") == "not a regular file"
    assert refusal(tmp_path / "file" / "x") == "Not a directory"
    assert refusal(tmp_path / "loop").startswith("Too many levels")
    assert refusal("a\0b") == "embedded null byte"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0)
    assert refusal(tmp_path / "file") == "Permission denied"


def test_a_huge_file_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 20)
    content = read(str(path), "thing")
    assert content is not None
    assert len(content) == 1 << 20
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(path) == "larger than 1 MiB"


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = os.listdir("/proc/self/fd")
    for path in (tmp_path, tmp_path / "pipe"):
        refusal(path)
    assert os.listdir("/proc/self/fd") == before
