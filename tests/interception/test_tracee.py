"""The snapshot of an exec says what the kernel goes on to do with the same exec."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from codex_multitool.interception.program import Kind
from codex_multitool.interception.resolve import AT_FDCWD
from codex_multitool.interception.tracee import (
    AT_EMPTY_PATH,
    AT_EXECVE_CHECK,
    AT_SYMLINK_NOFOLLOW,
    ExecSnapshot,
)
from tests.executables import loader
from tests.interception.supervise import Decision, Errno, Plain, Run, supervise

# Forks for each case of its input and executes it; prints the errnos, null where it was executed.
EXECUTER = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
number, cases = int(sys.argv[1]), json.load(sys.stdin)
for target, path in cases["descriptors"]:
    os.dup2(os.open(path, os.O_RDONLY), target, inheritable=True)
memfd = os.memfd_create("name", 0)
os.write(memfd, open("/bin/true", "rb").read())
os.dup2(memfd, 60, inheritable=True)
for directory, file, flags, argv in cases["execs"]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        words = argv if argv is None else [os.fsencode(w) for w in argv] + [None]
        vector = None if words is None else (ctypes.c_char_p * len(words))(*words)
        path = None if file is None else ctypes.c_char_p(os.fsencode(file))
        long = ctypes.c_long
        libc.syscall(long(number), long(directory), path, vector, None, long(flags))
        os.write(write, b"%d" % ctypes.get_errno())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    told = os.read(read, 10)
    os.close(read)
    print(json.dumps(int(told) if told else None))
"""

EXECVEAT = {"x86_64": 322, "aarch64": 281}
Seen = tuple[object, ...]


def _execute(
    folder: Path, execs: list[Any], descriptors: dict[int, str]
) -> tuple[list[int | None], list[ExecSnapshot]]:
    """Execute each; what the kernel said, and the snapshots."""
    seen: list[ExecSnapshot] = []

    def decide(snapshot: ExecSnapshot) -> Decision:
        if snapshot.envp() and "EXECUTER" in snapshot.envp()[0]:
            return Run()
        seen.append(snapshot)
        return Plain()

    cases = {"descriptors": list(descriptors.items()), "execs": execs}
    number = str(EXECVEAT[os.uname().machine])
    command = [sys.executable, "-IS", "-c", EXECUTER, number]
    with tempfile.TemporaryFile("w+") as stdin:
        json.dump(cases, stdin)
        stdin.seek(0)
        options = {"cwd": folder, "stdin": stdin, "stderr": subprocess.DEVNULL}
        finished = supervise(command, decide, env={"EXECUTER": "1"}, **options)
    said = [json.loads(line) for line in finished.out.splitlines() if line[:1] in b"n0123456789"]
    return said, seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Path:
    """Programs that cannot be executed, each in its own way, and some that can."""
    top = tmp_path_factory.mktemp("execs")
    scripts = {
        "script": "#!/bin/sh\n",
        "no-interpreter": "#!/nonexistent\n",
        "empty-interpreter": "#!\n",
        "relative-interpreter": "#!script\n",
        "directory-interpreter": "#!/bin\n",
        "plain": "true\n",
        "not-executable": "#!/bin/sh\n",
        "loop": "#!./loop\n",
        **{f"nested{n}": f"#!./nested{n + 1}\n" for n in range(7)},
        "nested7": "#!/bin/true\n",
    }
    for name, text in scripts.items():
        (top / name).write_text(text)
        (top / name).chmod(0o755)
    (top / "not-executable").chmod(0o644)
    (top / "link").symlink_to("script")
    (top / "target").symlink_to(programs / "target_a")
    (top / "folder").mkdir()
    (top / "folder/inner").symlink_to("../script")
    return top


CASES = [
    *[(AT_FDCWD, name, 0, ["a0", "a1"]) for name in ("script", "./script", "missing", "plain")],
    *[(AT_FDCWD, name, 0, ["x"]) for name in ("no-interpreter", "empty-interpreter", "folder")],
    *[(AT_FDCWD, name, 0, ["x"]) for name in ("relative-interpreter", "directory-interpreter")],
    *[(AT_FDCWD, name, 0, ["x"]) for name in ("not-executable", "loop", "script/", "script/x")],
    *[(AT_FDCWD, f"nested{n}", 0, ["x"]) for n in range(8)],
    *[(AT_FDCWD, name, 0, ["x"]) for name in ("", "a" * 255, "a" * 256, "b/" * 2047 + "b")],
    (AT_FDCWD, "b/" * 2048, 0, ["x"]),
    (AT_FDCWD, None, 0, ["x"]),
    (AT_FDCWD, "script", 0, None),
    (AT_FDCWD, "target", 0, None),
    (AT_FDCWD, "target", 0, []),
    (AT_FDCWD, "script", 0, ["w" * 131071]),
    (AT_FDCWD, "script", 0, ["w" * 131072]),
    (AT_FDCWD, "script", 0, ["\udcff\udcfe"]),
    (AT_FDCWD, "link", 0, ["x"]),
    (AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, ["x"]),
    (AT_FDCWD, "target", AT_SYMLINK_NOFOLLOW, ["x"]),
    (AT_FDCWD, "folder/inner", AT_SYMLINK_NOFOLLOW, ["x"]),
    (AT_FDCWD, "script", AT_SYMLINK_NOFOLLOW, ["x"]),
    (AT_FDCWD, "", AT_EMPTY_PATH, ["x"]),
    (AT_FDCWD, "script", AT_EMPTY_PATH, ["x"]),
    (AT_FDCWD, "script", 0x40, ["x"]),
    (50, "script", 0, ["x"]),
    (50, "folder/inner", 0, ["x"]),
    (50, "/bin/true", 0, ["x"]),
    (51, "", AT_EMPTY_PATH, ["x"]),
    (51, "", 0, ["x"]),
    (51, "script", 0, ["x"]),
    (52, "", AT_EMPTY_PATH, ["x"]),
    (52, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, ["x"]),
    (60, "", AT_EMPTY_PATH, ["x"]),
    (99, "", AT_EMPTY_PATH, ["x"]),
    (99, "script", 0, ["x"]),
    (99, "/bin/true", 0, ["x"]),
    (AT_FDCWD, "/proc/self/exe", 0, ["x", "-c", ""]),
    (AT_FDCWD, "/proc/thread-self/exe", 0, ["x", "-c", ""]),
    (AT_FDCWD, "/proc/self/fd/52", 0, ["x"]),
    (AT_FDCWD, "/dev/fd/60", 0, ["x"]),
    (AT_FDCWD, "/dev/fd/99", 0, ["x"]),
]


def test_the_errno_is_the_kernels(folder: Path, programs: Path) -> None:
    descriptors = {50: str(folder), 51: str(folder / "script"), 52: str(programs / "target_a")}
    said, seen = _execute(folder, [list(case) for case in CASES], descriptors)
    assert len(said) == len(CASES) == len(seen)
    wrong = [
        (case[1] and case[1][:40], case[0], case[2], "kernel", kernel, "snapshot", snapshot.errno)
        for case, kernel, snapshot in zip(CASES, said, seen, strict=True)
        if kernel != snapshot.errno
    ]
    assert wrong == []


def _one(folder: Path, *exec_: object, descriptors: dict[int, str] | None = None) -> ExecSnapshot:
    _, seen = _execute(folder, [list(exec_)], descriptors or {})
    return seen[0]


def test_what_an_exec_asks_for(folder: Path) -> None:
    snapshot = _one(folder, AT_FDCWD, "./script", 0, ["zero", "\udcff", ""])
    assert (snapshot.file, snapshot.argv, snapshot.flags) == ("./script", ("zero", "\udcff", ""), 0)
    assert snapshot.cwd == str(folder)
    assert snapshot.tid == snapshot.tgid
    assert snapshot.program is not None
    assert snapshot.program.path == str(folder / "script")
    assert snapshot.program.interpreter == ("/bin/sh", None)
    assert [program.path for program in snapshot.interpreters] == [os.path.realpath("/bin/sh")]
    assert snapshot.argv_executed() == ("/bin/sh", "./script", "\udcff", "")
    assert snapshot.linker is not None
    assert (snapshot.linker.path, snapshot.linker.kind) == (os.path.realpath(loader()), Kind.LOADER)
    assert _one(folder, AT_FDCWD, "no_loader", 0, ["x"]).linker is None


def test_a_script_by_its_descriptor_is_known_by_that(folder: Path) -> None:
    fds = {50: str(folder), 51: str(folder / "script")}
    by_directory = _one(folder, 50, "script", 0, ["zero", "one"], descriptors=fds)
    assert by_directory.argv_executed() == ("/bin/sh", "/dev/fd/50/script", "one")
    by_itself = _one(folder, 51, "", AT_EMPTY_PATH, ["zero", "one"], descriptors=fds)
    assert by_itself.argv_executed() == ("/bin/sh", "/dev/fd/51", "one")


def test_an_interpreter_that_is_a_script(folder: Path) -> None:
    snapshot = _one(folder, AT_FDCWD, "nested5", 0, ["x", "one"])
    assert snapshot.argv_executed() == ("/bin/true", "./nested7", "./nested6", "nested5", "one")
    assert snapshot.executed is not None
    assert snapshot.executed.path == os.path.realpath("/bin/true")


def test_a_memfd_is_known_as_one(folder: Path) -> None:
    snapshot = _one(folder, 60, "", AT_EMPTY_PATH, ["x"])
    assert snapshot.program is not None
    assert (snapshot.program.memfd, snapshot.program.path) == (True, None)


def _loader() -> str:
    for folder in (Path("/lib64"), Path("/lib")):
        for found in folder.glob("ld-linux-*.so.*"):
            return str(found)
    pytest.skip("no glibc loader here")


def test_the_loader_is_seen_through(folder: Path) -> None:
    true = os.path.realpath("/bin/true")
    snapshot = _one(folder, AT_FDCWD, _loader(), 0, ["x", "--argv0", "ls", true, "word"])
    assert snapshot.loaded is not None
    assert snapshot.loaded.argv == (true, "word")
    assert snapshot.loaded.program is not None
    assert snapshot.loaded.program.path == true
    assert not snapshot.loaded.preload


def test_a_mere_check_is_no_exec(folder: Path) -> None:
    """AT_EXECVE_CHECK, Linux 6.14: the kernel answers, and the caller runs on."""
    cases = [[AT_FDCWD, name, AT_EXECVE_CHECK, ["x"]] for name in ("script", "plain", "missing")]
    said, seen = _execute(folder, cases, {})
    assert [snapshot.flags for snapshot in seen] == [AT_EXECVE_CHECK] * 3
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if release >= (6, 14):
        # A file of any content may be meant for an interpreter: ENOEXEC is not said.
        assert said == [0, 0, 2]
        assert [snapshot.errno for snapshot in seen] == [None, None, 2]


def test_envp_is_read_when_wanted(folder: Path) -> None:
    found: list[tuple[str, ...]] = []

    def decide(snapshot: ExecSnapshot) -> Decision:
        found.append(snapshot.envp())
        return Errno(13)

    environment = {"A": "1", "B": "\udcff"}
    supervise(["/bin/true"], decide, env=environment, cwd=folder, stderr=subprocess.DEVNULL)
    assert {"A=1", "B=\udcff"} <= set(found[0])


@pytest.mark.parametrize(("folders", "expected"), [(32, None), (33, errno.ELOOP)])
def test_a_loader_that_would_look_everywhere_is_refused(
    folder: Path, folders: int, expected: int | None
) -> None:
    """It might find what we have not looked for."""
    places = ":".join(f"/nowhere/{number}" for number in range(folders))
    snapshot = _one(folder, AT_FDCWD, _loader(), 0, ["x", "--library-path", places, "name"])
    assert snapshot.errno == expected
