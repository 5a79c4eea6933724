"""What a file is, from its first bytes; for scripts, as the kernel itself takes them."""

from __future__ import annotations

import glob
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool.interception.program import Kind, Program, examine, script_interpreter
from tests.executables import loader

LONG = b"/" + b"i" * 252  # with `#!` it ends just before the cut of 256 bytes


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"#!/bin/sh\n", ("/bin/sh", None)),
        (b"#!/bin/sh", ("/bin/sh", None)),
        (b"#! \t/bin/sh \t\n", ("/bin/sh", None)),
        (b"#!/bin/sh -e\n", ("/bin/sh", "-e")),
        (b"#!/bin/sh\t -e  -x \nexit\n", ("/bin/sh", "-e  -x")),
        (b"#!sh\n", ("sh", None)),
        (b"#!/bin/\xff\n", (os.fsdecode(b"/bin/\xff"), None)),
        (b"#!/bin/sh -e\0-x\n", ("/bin/sh", "-e")),
        (b"#!\n", None),
        (b"#!  \t \n/bin/sh\n", None),
        (b"#!", None),
        (b"#!" + LONG, ("/" + "i" * 252, None)),  # NUL behind it: a file of just that size
        (b"#!" + LONG + b"i", None),
        (b"#!" + LONG + b"ii and more\n", None),
        (b"#!/bin/sh " + b"a" * 300 + b"\n", ("/bin/sh", "a" * 245)),
        (b"#!" + b" " * 300 + b"/bin/sh\n", None),
    ],
)
def test_the_first_line_of_a_script(head: bytes, found: tuple[str, str | None] | None) -> None:
    assert script_interpreter(head[:256]) == found


@pytest.mark.parametrize(
    "line",
    [
        b"#!%s\n",
        b"#! \t%s \t\n",
        b"#!%s -e\n",
        b"#!%s\t -e  -x \n",
        b"#!%s -e\0-x\n",
        b"#!%s",
        b"#!%s " + b"a" * 300 + b"\n",
        b"#!%s a\tb\n",
    ],
)
def test_the_kernel_gives_an_interpreter_the_same_words(tmp_path: Path, line: bytes) -> None:
    """An interpreter that is a script itself tells the words it was given."""
    teller = tmp_path / "teller"
    teller.write_text('#!/bin/sh\nfor w in "$@"; do printf "%s\\n" "$w"; done\n')
    script = tmp_path / "script"
    script.write_bytes(line.replace(b"%s", os.fsencode(teller)))
    teller.chmod(0o755)
    script.chmod(0o755)
    found = script_interpreter(script.read_bytes()[:256])
    assert found is not None
    words = [*([found[1]] if found[1] is not None else []), str(script)]
    told = subprocess.run([script], stdout=subprocess.PIPE, check=True).stdout
    assert told == "".join(word + "\n" for word in words).encode()


def _examine(path: Path | str) -> Program:
    program = examine(str(path), os.open(path, os.O_PATH | os.O_CLOEXEC))
    os.close(program.fd)
    return program


def test_an_elf_program() -> None:
    program = _examine(os.path.realpath(sys.executable))
    assert (program.kind, program.path) == (Kind.ELF, os.path.realpath(sys.executable))
    assert program.regular
    assert not program.deleted
    assert program.interpreter == (loader(), None)


@pytest.mark.parametrize("others", [0, 3, 300, 1300])
@pytest.mark.parametrize("name", [b"/lib/ld.so", b"./a b", b"\xff", b"/" + b"x" * 2000])
def test_the_loader_that_an_elf_program_names(tmp_path: Path, others: int, name: bytes) -> None:
    """Wherever it stands; with more headers than the kernel reads it is no program."""
    header = struct.pack("=16s", b"\x7fELF\x02\x01\x01") + struct.pack(
        "=HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, others + 1, 0, 0, 0
    )
    at = 64 + 56 * (others + 1)
    null = struct.pack("=IIQQQQQQ", 0, 0, 0, 0, 0, 0, 0, 0)
    named = struct.pack("=IIQQQQQQ", 3, 4, at, 0, 0, len(name) + 1, len(name) + 1, 1)
    file = tmp_path / "file"
    file.write_bytes(header + null * others + named + name + b"\0rest")
    file.chmod(0o755)
    expected = (os.fsdecode(name), None) if others < 1170 else None
    assert _examine(file).interpreter == expected


def test_a_static_program_is_not_a_loader(programs: Path) -> None:
    assert _examine(programs / "target_a").kind is Kind.ELF
    assert _examine(programs / "target_a").interpreter is None


def test_the_loader_is_known_by_its_content(tmp_path: Path) -> None:
    found = [*glob.glob("/lib*/ld-linux-*.so.*"), *glob.glob("/lib/ld-musl-*.so.1")]
    if not found:
        pytest.skip("no loader known here")
    copy = tmp_path / "git"
    copy.write_bytes(Path(found[0]).read_bytes())
    copy.chmod(0o755)
    assert _examine(copy).kind is Kind.LOADER
    shorter = copy.read_bytes()[:200]
    copy.write_bytes(shorter)  # cut within its program headers
    assert _examine(copy).kind is Kind.ELF


@pytest.mark.parametrize(
    "content", [b"", b"echo hello\n", b"#!\n", b"\x7fEL", b"MZ" + bytes(100)], ids=repr
)
def test_anything_else_is_enoexec(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert _examine(file).kind is Kind.OTHER


def test_what_is_no_executable_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"#!/bin/sh\n")
    assert not _examine(file).regular
    assert not _examine(tmp_path).regular
    os.mkfifo(tmp_path / "fifo", 0o755)
    assert not _examine(tmp_path / "fifo").regular


def test_a_memfd_and_a_deleted_file_have_no_path(tmp_path: Path) -> None:
    memfd = os.memfd_create("name")
    program = examine("name", memfd)
    assert (program.path, program.memfd, program.deleted) == (None, True, True)
    os.close(memfd)
    file = tmp_path / "file"
    file.touch()
    fd = os.open(file, os.O_PATH)
    file.unlink()
    Path(f"{file} (deleted)").touch()  # what readlink says, to mislead
    program = examine("file", fd)
    assert (program.path, program.memfd, program.deleted) == (None, False, True)
    os.close(fd)


def test_a_leased_file_does_not_hold_us_up(tmp_path: Path) -> None:
    """Opening it to read would wait for its holder, up to lease-break-time: 45 s."""
    script = (
        "import fcntl, os, signal, sys\n"
        "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n"
        "print('leased', flush=True)\n"
        "sys.stdin.read()\n"
    )
    file = tmp_path / "file"
    file.write_bytes(b"#!/bin/sh\n")
    command = [sys.executable, "-IS", "-c", script, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"leased\n"
        assert _examine(file).kind is Kind.UNREADABLE
        holder.communicate()
