"""The descriptors a program would inherit, taken from a caller that is blocked or not."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from codex_multitool.interception.descriptors import (
    Handing,
    Taken,
    available,
    inheritable,
    say,
    take,
    tell,
)

HOLDER = """
import os, socket, sys
path, append = sys.argv[1:]
os.dup2(os.open(path, os.O_RDWR), 70, inheritable=True)
os.lseek(70, 3, os.SEEK_SET)
os.dup2(os.open(append, os.O_WRONLY | os.O_APPEND), 71, inheritable=True)
os.dup2(os.open(path, os.O_RDONLY), 72, inheritable=False)
a, b = socket.socketpair()
os.dup2(a.fileno(), 73, inheritable=True)
reader, writer = os.pipe()
os.dup2(reader, 74, inheritable=True)
os.dup2(writer, 75, inheritable=True)
alone, gone = os.pipe()
os.dup2(alone, 76, inheritable=True)
os.close(gone)
print("ready", flush=True)
sys.stdin.readline()
print(os.lseek(70, 0, os.SEEK_CUR), b.recv(100).decode(), os.read(74, 100).decode(), flush=True)
sys.stdin.readline()
"""


class Holder:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "file"
        self.file.write_text("0123456789")
        self.appended = folder / "appended"
        self.appended.write_text("before ")
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", HOLDER, str(self.file), str(self.appended)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def tells(self) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    holding = Holder(tmp_path)
    yield holding
    holding.process.kill()
    holding.process.communicate()


def _by_number(taken: Taken) -> dict[int, int]:
    return {number: ours for ours, number in taken.pairs}


def test_what_is_close_on_exec_is_not_inherited(holder: Holder) -> None:
    assert set(inheritable(holder.process.pid)) == {0, 1, 2, 70, 71, 73, 74, 75, 76}


def test_the_very_same_open_files(holder: Holder) -> None:
    """Offsets are shared, sockets are connected, nothing is missing."""
    if not available(holder.process.pid):
        pytest.skip("pidfd_getfd is refused here")
    numbers = inheritable(holder.process.pid)
    taken = take(holder.process.pid, numbers, reopen=False)
    assert taken.missing == ()
    ours = _by_number(taken)
    assert set(ours) == set(numbers)
    assert not any(os.get_inheritable(fd) for fd in ours.values())
    assert os.read(ours[70], 3) == b"345"
    os.write(ours[73], b"socket")
    os.write(ours[75], b"pipe")
    assert holder.tells() == ["6", "socket", "pipe"]
    taken.close()


REFUSING = """
import ctypes, os, struct, sys
sys.path.insert(0, sys.argv[1])
from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.descriptors import available, inheritable, take
from codex_multitool.interception.kernel import system_call
EPERM, PIDFD_GETFD = 1, 438
allow, refuse = (6, 0, 0, 0x7FFF0000), (6, 0, 0, 0x50000 | EPERM)
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, PIDFD_GETFD), refuse, allow]
program = b"".join(struct.pack("=HBBI", *line) for line in lines)
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
number = architecture(os.uname().machine).seccomp
system_call("seccomp", number, 1, 0, ctypes.byref(Program(len(lines), program)))
pid = int(sys.argv[2])
assert not available(pid)
assert take(pid, {70: os.O_RDWR}, reopen=False).missing == (70,)
taken = take(pid, inheritable(pid), reopen=True)
ours = {number: fd for fd, number in taken.pairs}
assert os.read(ours[70], 3) == b"345"
os.write(ours[71], b"after")
os.write(ours[75], b"pipe")
assert os.read(ours[76], 1) == b"" and os.get_blocking(ours[76])
print(*taken.missing)
"""


def test_where_that_is_refused_files_and_pipes_are_opened_anew(holder: Holder) -> None:
    """As in Docker's default profile: no sockets, and offsets of their own."""
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-IS", "-c", REFUSING, root, str(holder.process.pid)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
    assert b"73" in ran.stdout.split()
    assert holder.appended.read_text() == "before after"


def test_a_thread_that_is_not_the_leader(tmp_path: Path) -> None:
    script = (
        "import os, sys, threading\n"
        f"os.dup2(os.open({str(tmp_path)!r}, os.O_RDONLY), 70, inheritable=True)\n"
        "def run():\n"
        "    print(threading.get_native_id(), flush=True)\n"
        "    sys.stdin.read()\n"
        "threading.Thread(target=run).start()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        tid = int(process.stdout.readline())
        assert tid != process.pid
        assert 70 in inheritable(tid)
        taken = take(tid, {70: os.O_RDONLY}, reopen=True)
        assert os.path.samestat(os.fstat(taken.pairs[0][0]), tmp_path.stat())
        taken.close()
        process.communicate()


def test_a_process_that_has_gone() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    with pytest.raises(FileNotFoundError):
        inheritable(process.pid)
    assert take(process.pid, {0: 0}, reopen=True) == Taken((), (0,))


def test_descriptors_that_are_handed_over() -> None:
    ours, theirs = socket.socketpair()
    for number in (0, 77):
        socket.send_fds(theirs, [b"%d\n" % number], [2])
    ours.setblocking(False)
    handing = Handing()
    assert handing.receive(ours)
    theirs.close()
    assert not handing.receive(ours)
    assert [number for _, number in handing.pairs] == [0, 77]
    for fd, _ in handing.pairs:
        assert os.path.sameopenfile(fd, 2)
        assert not os.get_inheritable(fd)
    handing.close()
    ours.close()


@pytest.mark.parametrize(
    ("text", "fds"),
    [(b"x\n", 1), (b"-1\n", 1), (b"3\n", 0), (b"3\n", 2), (b"70000\n", 1), (b"1" * 40, 1)],
)
def test_anything_else_on_that_socket_is_refused(text: bytes, fds: int) -> None:
    ours, theirs = socket.socketpair()
    before = os.listdir("/proc/self/fd")
    if fds:
        socket.send_fds(theirs, [text], [2] * fds)
    else:
        theirs.sendall(text)
    theirs.close()
    ours.setblocking(False)
    handing = Handing()
    with pytest.raises(PermissionError):
        handing.receive(ours)
    handing.close()
    assert len(os.listdir("/proc/self/fd")) == len(before) - 1
    ours.close()


def test_no_more_descriptors_are_taken_than_a_program_could_get() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    handing = Handing()
    for number in range(1024):
        socket.send_fds(theirs, [b"%d\n" % number], [2])
        assert handing.receive(ours)
    socket.send_fds(theirs, [b"1024\n"], [2])
    with pytest.raises(OSError, match="too many"):
        handing.receive(ours)
    handing.close()
    theirs.close()
    ours.close()


def test_a_caller_is_told_what_it_takes_and_holds_up_nobody(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    if not tell(writer, b"said\n"):
        pytest.skip("this kernel has no RWF_NOWAIT for pipes (Linux 6.4)")
    assert os.read(reader, 10) == b"said\n"
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, TEXT):
            pass
    os.set_blocking(writer, True)
    assert not tell(writer, b"unheard\n")
    os.close(reader)
    assert not tell(writer, b"nobody\n")
    os.close(writer)
    master, terminal = os.openpty()
    assert tell(terminal, b"seen\n")
    assert os.read(master, 10) == b"seen\r\n"
    termios.tcflow(terminal, termios.TCOOFF)
    assert not tell(terminal, b"stopped\n")
    os.close(master)
    os.close(terminal)
    with (tmp_path / "file").open("wb", buffering=0) as file:
        assert tell(file.fileno(), b"written\n")
    assert (tmp_path / "file").read_bytes() == b"written\n"


TEXT = b"x" * 6000


class Sink:
    """A process that has open as 2 what a test says to."""

    def __init__(self, stderr: int | None) -> None:
        closed = "import os, sys; os.close(2); " if stderr is None else "import sys; "
        script = closed + "print('ready', flush=True); sys.stdin.readline()"
        self.process = subprocess.Popen(
            [sys.executable, "-IS", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def said(self, text: bytes = TEXT, *, valid: bool = True) -> int:
        try:
            return say(self.process.pid, 2, text, valid=lambda: valid)
        finally:
            self.process.communicate()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Its two ends: one page of room."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 2 * 4096)
    os.write(writer, b"-" * 4096)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_pipe_is_told_what_it_takes_at_once(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    said = Sink(writer).said()
    if said == 0:
        pytest.skip("this kernel has no RWF_NOWAIT for pipes (Linux 6.4), or no pidfd_getfd")
    assert said == 4096
    assert Sink(writer).said() == 0  # full; it blocks, yet nobody waits
    assert os.get_blocking(writer)
    assert os.read(reader, 9000) == b"-" * 4096 + TEXT[:4096]
    assert Sink(writer).said(b"a line\n") == 7
    assert Sink(writer).said(b"a line\n", valid=False) == 0
    assert os.read(reader, 9000) == b"a line\n"
    assert Sink(reader).said() == 0


def test_where_nobody_hears_all_is_said() -> None:
    if not available(os.getpid()):
        pytest.skip("no pidfd_getfd here")
    assert Sink(subprocess.DEVNULL).said() == len(TEXT)
    assert Sink(None).said() == len(TEXT)


def test_what_might_act_on_the_writer_is_not_written_to(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ours, theirs = socket.socketpair()
    with open(tmp_path / "file", "ab") as file, ours, theirs:
        assert Sink(file.fileno()).said() == 0
        assert Sink(theirs.fileno()).said() == 0
        assert Sink(writer).said() == 0  # nor does SIGPIPE come
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(1)
    os.close(writer)
    assert (tmp_path / "file").read_bytes() == b""
