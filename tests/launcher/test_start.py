"""Programs outside: all that they find, by posix_spawn(3) and by fork(2), and what it costs us.

Each test has a process of its own: what a child is to have is its parent's for a moment.
"""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from codex_multitool.launcher import forked, start
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.placing import defaults
from codex_multitool.launcher.spawn import NotStartedError, Process, Spawn
from codex_multitool.launcher.start import Starter
from tests.keeper.driver import somebody

WAYS = pytest.mark.parametrize("way", ["spawned", "forked"])
ROOT = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
NICE = os.getpriority(os.PRIO_PROCESS, 0)


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """Run this in a fork, and fail as it does."""

    @wraps(test)
    def wrapped(**arguments: Any) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            text = ""
            try:
                os.close(reader)
                for fd in map(int, os.listdir("/proc/self/fd")):
                    if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}"):
                        os.set_inheritable(fd, False)
                test(**arguments)
            except pytest.skip.Exception as skipped:
                text = f"skip: {skipped}"
            except BaseException:  # noqa: BLE001 — all that there is
                text = traceback.format_exc()
            finally:
                os.write(writer, pickle.dumps(text))
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            text = pickle.loads(told.read())
        os.waitpid(child, 0)
        if text.startswith("skip: "):
            pytest.skip(text[6:])
        if text:
            pytest.fail(text, pytrace=False)

    return wrapped


def begin(way: str, spawn: Spawn, started_with: Limits = ()) -> int:
    """Start it in one of the two ways; the process id."""
    if way == "forked":
        return forked.start(spawn, started_with)
    return start._vforked(spawn, started_with)


def described(command: str = "", **more: Any) -> Spawn:
    """What is started, in the root directory unless told otherwise."""
    more.setdefault("workdir", ROOT)
    more.setdefault("descriptors", ())
    more.setdefault("path", b"/bin/bash")
    more.setdefault("argv", [b"bash", b"-c", command.encode()])
    more.setdefault("environment", {b"PATH": b"/usr/bin:/bin"})
    return Spawn(**more)


def output(way: str, command: str = "", started_with: Limits = (), **more: Any) -> str:
    """What it writes to its stdout."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    lent = more.pop("descriptors", ())
    spawn = described(command, descriptors=[(writer, 1), *lent], **more)
    pid = begin(way, spawn, started_with)
    os.close(writer)
    with os.fdopen(reader, errors="surrogateescape") as text:
        found = text.read()
    assert os.waitpid(pid, 0)[1] == 0, found
    return found


def ours() -> dict[str, Any]:
    """What a start might have changed of this process."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "descriptors": sorted(os.listdir("/proc/self/fd"), key=int),
        "inheritable": [os.get_inheritable(int(fd)) for fd in "012"],
        "umask": umask,
        "limits": [resource.getrlimit(kind) for kind in range(_KINDS)],
        "handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
    }


@contextmanager
def harmless() -> Iterator[None]:
    """Nothing of this process is changed, and no child is left."""
    before = ours()
    yield
    assert ours() == before
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)


_KINDS = 16  # RLIM_NLIMITS of the kernel


@WAYS
@alone
def test_its_exact_wait_status_comes_back(way: str) -> None:
    for script, status in (("exit 3", 3 << 8), ("kill -TERM $$", signal.SIGTERM), (":", 0)):
        pid = begin(way, described(script))
        assert os.waitpid(pid, 0)[1] == status


@WAYS
@alone
def test_descriptors_are_at_their_numbers_whatever_ours_are(way: str) -> None:
    first, second = (os.memfd_create(name) for name in ("first", "second"))
    high = os.dup2(os.memfd_create("high"), 300)
    lent = [(second, first), (first, second), (high, 5), (first, 900), (first, 2), (second, high)]
    numbers = (0, 1, 2, 5, 900, first, second, high)
    command = f"for fd in {' '.join(map(str, numbers))}; do readlink /proc/self/fd/$fd; done"
    with harmless():
        found = output(way, command, descriptors=lent).split("\n")
    names = [name.removeprefix("/memfd:").removesuffix(" (deleted)") for name in found]
    names[1] = names[1].partition(":")[0]
    assert names == [
        "/dev/null",
        "pipe",
        *["first", "high", "first", "second", "first", "second"],
        "",
    ]


@WAYS
@alone
def test_no_other_descriptor_is_there(way: str) -> None:
    left = os.open("/", os.O_RDONLY)
    assert not os.get_inheritable(left)
    listing = "cd /proc/self/fd; for fd in *; do [ -e $fd ] && echo $fd; done"
    with harmless():
        found = output(way, listing, descriptors=[(left, 77)]).split()
    assert sorted(set(found) - {"255"}, key=int) == ["0", "1", "2", "77"]


@WAYS
@pytest.mark.parametrize("closed", [(), (0,), (0, 1, 2)], ids=str)
@alone
def test_standard_descriptors_are_there_though_ours_may_not_be(
    way: str, closed: tuple[int, ...]
) -> None:
    out = os.memfd_create("out")
    for fd in closed:
        os.close(fd)
    spawn = described("echo x; readlink /proc/self/fd/[02]", descriptors=[(out, 1)])
    assert os.waitpid(begin(way, spawn), 0)[1] == 0
    assert os.pread(out, 100, 0) == b"x\n/dev/null\n/dev/null\n"


def settable(mask: str) -> int:
    """A mask of /proc without 32 and 33, which only the threads library can set: signal(7)."""
    return int(mask, 16) & ~(3 << 31)


def signals(way: str, **more: Any) -> dict[str, int]:
    text = output(way, path=b"/bin/cat", argv=[b"cat", b"/proc/self/status"], **more)
    lines = (line.split(":") for line in text.splitlines() if line.startswith("Sig"))
    return {name: settable(mask) for name, mask in lines if name != "SigQ"}


def mask(*numbers: int) -> int:
    return sum(1 << number - 1 for number in numbers)


@WAYS
@alone
def test_signals_are_as_asked_and_not_as_ours(way: str) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGCHLD})
    none = {"SigPnd": 0, "SigBlk": 0, "SigIgn": 0, "SigCgt": 0}
    with harmless():
        assert signals(way) == none
        blocked, ignored = [signal.SIGUSR2, 40], [signal.SIGPIPE, signal.SIGINT, 64]
        wanted = none | {"SigBlk": mask(*blocked), "SigIgn": mask(*ignored)}
        assert signals(way, blocked=blocked, ignored=ignored) == wanted
        assert signals(way) == none


@alone
def test_one_that_ignores_its_children_does_not_take_ours_along() -> None:
    spawn = described("exit 4", ignored=[signal.SIGCHLD])
    assert start._needs_fork(spawn)
    other = begin("spawned", described("exit 5"))
    pid = Starter(()).start(spawn).pid
    assert {os.waitpid(it, 0)[1] for it in (pid, other)} == {4 << 8, 5 << 8}
    assert signals("forked", ignored=[signal.SIGCHLD])["SigIgn"] == mask(signal.SIGCHLD)


@WAYS
@alone
def test_its_umask_is_as_asked_or_ours(way: str) -> None:
    os.umask(0o027)
    with harmless():
        assert output(way, "umask") == "0027\n"
        assert output(way, "umask", umask=0o135) == "0135\n"
        assert output(way, "umask", umask=0) == "0000\n"


@alone
def test_a_lower_priority_is_taken_and_a_higher_is_not() -> None:
    if NICE > 16:
        pytest.skip("there is no lower priority")
    asked = described("nice", nice=NICE + 3)
    assert start._needs_fork(asked)
    assert not start._needs_fork(described("nice", nice=NICE))
    with harmless():
        assert output("forked", "nice", nice=NICE + 3) == f"{NICE + 3}\n"
        assert output("forked", "nice", nice=NICE - 1) == f"{NICE}\n"
        assert output("spawned", "nice", nice=NICE) == f"{NICE}\n"


@WAYS
@alone
def test_limits_are_those_that_we_were_started_with(way: str) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2000), hard))
    many = [os.open("/", os.O_PATH) for _ in range(100)]
    started_with = ((resource.RLIMIT_NOFILE, 64, hard), (resource.RLIMIT_STACK, 1 << 23, -1))
    with harmless():
        # Fewer than we have open.
        found = output(way, "ulimit -Sn; ulimit -Ss", started_with, descriptors=[(many[-1], 9)])
    assert found == f"64\n{1 << 13}\n"


@WAYS
@alone
def test_a_descriptor_may_have_a_number_beyond_its_limit(way: str) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = ((resource.RLIMIT_NOFILE, 20, hard),)
    high = os.memfd_create("high")
    for number in (19, 20, 50):
        command = f"ulimit -n; readlink /proc/self/fd/{number}"
        with harmless():
            found = output(way, command, few, descriptors=[(high, number)])
        assert found.startswith("20\n/memfd:high")


@WAYS
@alone
def test_its_own_limits_are_set_even_if_we_may_not_take_them_back(way: str) -> None:
    wanted = [(resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_FSIZE, 1000, 2000)]
    # Those of a program that has been started are set from outside: it waits for that.
    script = "read -r _ <&5; ulimit -Sc; ulimit -Hc; grep ^Max.file.size /proc/self/limits"
    reader, writer = os.pipe2(os.O_CLOEXEC)
    out = os.memfd_create("out", os.MFD_CLOEXEC)
    with harmless():
        spawn = described(script, descriptors=[(out, 1), (reader, 5)], limits=wanted)
        pid = begin(way, spawn)
        os.write(writer, b"\n")
        assert os.waitpid(pid, 0)[1] == 0
    assert os.pread(out, 1000, 0).split() == b"0 0 Max file size 1000 2000 bytes".split()


@alone
def test_a_starter_gives_back_all_limits_but_that_of_cores() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    out = os.memfd_create("out", os.MFD_CLOEXEC)
    starter = Starter(((resource.RLIMIT_CORE, hard, hard), (resource.RLIMIT_STACK, 1 << 20, -1)))
    for more in ({}, {"ignored": [signal.SIGCHLD]}):
        spawn = described("ulimit -Sc; ulimit -Ss", descriptors=[(out, 1)], **more)
        assert os.waitpid(starter.start(spawn).pid, 0)[1] == 0
    assert os.pread(out, 100, 0) == b"0\n1024\n" * 2


@WAYS
@alone
def test_its_folder_may_be_one_that_nobody_finds_any_more(way: str) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        gone = Path(folder).resolve() / "gone"
        gone.mkdir(mode=0o311)
        workdir = os.open(gone, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        with harmless():
            assert output(way, "/bin/pwd", workdir=workdir) == f"{gone}\n"
            gone.rmdir()
            where = "readlink /proc/self/cwd"
            assert output(way, where, workdir=workdir) == f"{gone} (deleted)\n"


@WAYS
@alone
def test_a_folder_that_cannot_be_entered_is_an_error(way: str) -> None:
    user = somebody()
    folder = tempfile.mkdtemp(dir="/var/tmp")
    os.chmod(folder, 0)
    workdir = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.rmdir(folder)
    if user is not None:
        os.setgroups([])
        os.setresuid(user, user, user)
    with harmless(), pytest.raises(PermissionError):
        begin(way, described(workdir=workdir))


@WAYS
@alone
def test_a_program_may_be_a_descriptor(way: str) -> None:
    cat = os.open("/bin/cat", os.O_RDONLY | os.O_CLOEXEC)
    with harmless():
        found = output(
            way,
            path=b"/no/such/cat",
            program=cat,
            argv=[b"another", b"/proc/self/cmdline", b"/proc/self/comm"],
        )
        assert found.startswith("another\0/proc/self/cmdline\0/proc/self/comm\0")
        assert os.readlink(f"/proc/self/fd/{cat}") == os.path.realpath("/bin/cat")


@WAYS
@alone
def test_a_descriptor_of_a_program_is_not_left_to_it(way: str) -> None:
    ls = os.open("/bin/ls", os.O_RDONLY | os.O_CLOEXEC)
    with harmless():
        found = output(way, path=b"/x", program=ls, argv=[b"ls", b"/proc/self/fd"])
    # With that of the listing.
    assert found.split() == ["0", "1", "2", "3"]


@WAYS
@pytest.mark.parametrize("high", [False, True], ids=["low", "high"])
@alone
def test_a_script_may_be_a_descriptor_and_its_interpreter_opens_it(way: str, high: bool) -> None:
    script = os.memfd_create("script")
    os.write(script, b'#!/bin/bash -e\necho "$1"; read -r line <&8; echo "$line"\n')
    if high:
        script = os.dup2(script, 200, inheritable=False)
    text = os.memfd_create("text")
    os.write(text, b"word\n")
    os.lseek(text, 0, os.SEEK_SET)
    with harmless():
        found = output(
            way,
            path=b"/no/such",
            program=script,
            script=True,
            argv=[b"script", b"first"],
            descriptors=[(text, 8)],
        )
        assert not os.get_inheritable(script)
    assert found == "first\nword\n"


FAILURES = {
    "missing": errno.ENOENT,
    "plain": errno.EACCES,
    "noise": errno.ENOEXEC,
    "interpreter": errno.ENOENT,
    "long": errno.E2BIG,
}


@WAYS
@pytest.mark.parametrize("kind", FAILURES)
@alone
def test_why_it_is_not_executed_is_an_errno(way: str, kind: str) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder) / kind
        if kind != "missing":
            path.write_text("#!/no/such\n" if kind == "interpreter" else "noise")
            path.chmod(0o644 if kind == "plain" else 0o755)
        spawn = described(path=os.fsencode(path), argv=[b"x" * (1 << 18 if kind == "long" else 1)])
        with harmless(), pytest.raises(OSError) as caught:  # noqa: PT011 — its errno is looked at
            begin(way, spawn)
        assert caught.value.errno == FAILURES[kind]
        with harmless(), pytest.raises(NotStartedError) as told:
            Starter(()).start(spawn)
        assert told.value.errno == FAILURES[kind]
        assert str(told.value) == f"execve: {os.strerror(FAILURES[kind])}"


@pytest.mark.parametrize("more", [{}, {"ignored": [signal.SIGCHLD]}], ids=["spawned", "forked"])
@alone
def test_where_no_process_is_to_be_had_that_is_said(more: dict[str, Any]) -> None:
    user = somebody()
    if user is None:
        pytest.skip("the number of our own processes is not ours to say")
    os.setgroups([])
    os.setresuid(user, user, user)
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    spawn = described(":", **more)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, most))
    with harmless(), pytest.raises(NotStartedError, match="no process can be started: Resource"):
        Starter(()).start(spawn)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    assert os.waitpid(Starter(()).start(spawn).pid, 0)[1] == 0


@WAYS
@alone
def test_it_leads_a_session(way: str) -> None:
    pid = begin(way, described("sleep 1000 & wait"))
    assert (os.getpgid(pid), os.getsid(pid)) == (pid, pid)
    os.killpg(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


@alone
def test_its_environment_is_what_is_given() -> None:
    environment = {b"A": b"b=c\n\xff", b"EMPTY": b""}
    for way in ("spawned", "forked"):
        found = output(way, path=b"/usr/bin/env", argv=[b"env", b"-0"], environment=environment)
        assert os.fsencode(found) == b"A=b=c\n\xff\0EMPTY=\0"


@alone
def test_a_starter_knows_which_have_ended_and_signals_those_that_have_not() -> None:
    starter = Starter(())
    processes: list[Process] = [starter.start(described("exec sleep 1000")) for _ in range(2)]
    first, second = processes
    assert starter.running() == {first.pid, second.pid}
    first.signal(signal.SIGTERM)
    starter.ended(*os.waitpid(first.pid, 0))
    assert (first.ended.is_set, first.status) == (True, signal.SIGTERM)
    assert starter.running() == {second.pid}
    first.kill()  # its number may be another's
    starter.ended(first.pid, 0)
    assert first.status == signal.SIGTERM
    second.kill()
    starter.ended(*os.waitpid(second.pid, 0))
    assert second.status == signal.SIGKILL
    starter.ended(1, 0)
    assert starter.running() == set()


def test_all_signals_have_a_default_but_those_to_be_ignored() -> None:
    assert len(defaults(())) == len(signal.valid_signals()) - 2
    assert set(defaults(())) - set(defaults([1, 13])) == {1, 13}
