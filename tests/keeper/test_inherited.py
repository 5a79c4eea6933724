"""What a command finds when it starts, whoever has started it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_multitool.config.limits import Limits
from codex_multitool.keeper import protocol
from codex_multitool.keeper.spawners import SOCKET_NUMBER
from tests.keeper.conftest import tidy
from tests.keeper.driver import CONFINED, FULL, House, Keeper, comm, needs_listeners, parent, soon
from tests.keeper.test_killed import running
from tests.keeper.test_spawner_attacked import BOTH

WRAPPED = {"wrapper": "/bin/false"}
MODES = pytest.mark.parametrize("mode", [{}, WRAPPED], ids=["kernel", "wrapper"])


def settable(mask: str) -> int:
    """A mask of /proc without 32 and 33, which only the threads library can set: signal(7)."""
    return int(mask, 16) & ~(3 << 31)


def status(keeper: Keeper, within: protocol.Sandbox = CONFINED, **more: object) -> dict[str, str]:
    """What /proc/PID/status says of the command's first process."""
    text = keeper.run(("/bin/cat", "/proc/self/status"), within, **more).text
    return dict(line.split(":\t", 1) for line in text.splitlines())


@MODES
@BOTH
def test_its_signals_are_all_as_they_were_before_anybody(
    house: House, within: protocol.Sandbox, mode: dict[str, str]
) -> None:
    found = status(house.keeper(**mode), within)
    masks = {settable(found[name]) for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")}
    assert masks == {0}


@MODES
@BOTH
def test_what_it_shall_ignore_it_ignores_and_the_next_does_not(
    house: House, within: protocol.Sandbox, mode: dict[str, str]
) -> None:
    keeper = house.keeper(**mode)
    numbers = (signal.SIGINT, signal.SIGPIPE, signal.SIGUSR1, signal.SIGCHLD)
    wanted = sum(1 << number - 1 for number in numbers)
    ignored = tuple(map(int, numbers))
    assert settable(status(keeper, within, ignored=ignored)["SigIgn"]) == wanted
    assert settable(status(keeper, within)["SigIgn"]) == 0
    # A spawner that ignored it, too, would lose those that end at that moment.
    for _ in range(50):
        assert keeper.run(("/bin/true",), within, ignored=(int(signal.SIGCHLD),)).code == 0
    assert keeper.works(within)


@pytest.mark.parametrize(
    ("mode", "numbers"), [({}, "0 1 2"), (WRAPPED, f"0 1 2 {SOCKET_NUMBER}")], ids=str
)
@BOTH
def test_it_has_its_own_descriptors_and_no_other(
    house: House, within: protocol.Sandbox, mode: dict[str, str], numbers: str
) -> None:
    keeper = house.keeper(**mode)
    # Patterns are expanded in the shell's own process, with a descriptor for the listing.
    listing = "cd /proc/self/fd; for fd in *; do [ -e $fd ] && echo $fd $(readlink $fd); done"
    found = dict(line.split(" ", 1) for line in keeper.run(listing, within).text.splitlines())
    found.pop("255", None)  # bash's own
    assert " ".join(sorted(found, key=int)) == numbers
    assert found["0"] == "/dev/null"
    assert found["1"].startswith("pipe:")
    assert found["2"].startswith("pipe:")
    assert len(set(found.values())) == len(found)


@BOTH
def test_descriptors_that_come_along_are_its_own(house: House, within: protocol.Sandbox) -> None:
    keeper = house.keeper()
    with tidy(keeper):
        question, asking = os.pipe()
        answering, answer = os.pipe()
        os.write(asking, b"word\n")
        null = os.open(os.devnull, os.O_RDWR)
        ran = keeper.run("read -r x; echo $x >&2", within, question, null, answer)
        for fd in (question, asking, null, answer):
            os.close(fd)
        assert (ran.text, ran.code) == ("", 0)
        with os.fdopen(answering) as text:
            assert text.read() == "word\n"


@MODES
def test_its_environment_is_what_is_ordered(house: House, mode: dict[str, str]) -> None:
    keeper = house.keeper(**mode)
    given = dict(house.environment)
    before = sandbox_environment(keeper, CONFINED)
    assert {name: before[name] for name in given} == given
    known = ("CODEX_", "EXEC_WRAPPER", "BASH_EXEC_WRAPPER")
    assert {name for name in before if not name.startswith((*given, *known))} == set()
    assert before["CODEX_SANDBOX_NETWORK_DISABLED"] == "1"
    assert "CODEX_SANDBOX_NETWORK_DISABLED" not in sandbox_environment(keeper, FULL)
    odd = {"PATH": "/nowhere:/usr/bin", "ODD": "a=b\n\udcff", "EMPTY": ""}
    after = sandbox_environment(keeper, CONFINED, environment=odd)
    assert {name: after[name] for name in odd} == odd
    assert sandbox_environment(keeper, CONFINED) == before
    if mode:
        numbers = {after[name] for name in before if name.endswith("_SOCKET")}
        assert numbers == {str(SOCKET_NUMBER)}


def sandbox_environment(keeper: Keeper, within: protocol.Sandbox, **more: Any) -> dict[str, str]:
    """Of a command, read from outside: it may hold any bytes."""
    keeper.order(("/bin/sleep", "1000"), within, **more)
    pid = soon(lambda: running(keeper.mark, "/bin/sleep 1000"), "its process")
    found = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")[:-1]
    keeper.end()
    keeper.result()
    return {name: value for name, _, value in (it.partition("=") for it in found)}


@MODES
@BOTH
def test_it_is_the_leader_of_a_session_without_terminal(
    house: House, within: protocol.Sandbox, mode: dict[str, str]
) -> None:
    ran = house.keeper(**mode).run("echo $$; cut -d' ' -f 1,4-8 /proc/$$/stat", within)
    pid, stat = ran.text.splitlines()
    process, spawner, group, session, terminal, foreground = stat.split()
    assert {process, group, session} == {pid}
    assert (terminal, foreground) == ("0", "-1")
    assert spawner != pid


@BOTH
def test_its_parent_is_a_spawner_by_name(keeper: Keeper, within: protocol.Sandbox) -> None:
    ran = keeper.run("read -r name < /proc/$PPID/comm; echo $PPID $name", within)
    pid, name = ran.text.split()
    assert name == "codex-spawner"
    assert parent(int(pid)) == keeper.pid
    assert comm(keeper.pid) == "codex-keeper"


@BOTH
def test_its_folder_is_what_is_ordered(
    keeper: Keeper, house: House, folder: Path, within: protocol.Sandbox
) -> None:
    here = folder / "some folder\n"
    here.mkdir()
    house.own(here)
    assert keeper.run("/bin/pwd; pwd", within, workdir=str(here)).text == f"{here}\n{here}\n"
    link = folder / "link"
    link.symlink_to(here)
    assert keeper.run("/bin/pwd", within, workdir=str(link)).text == f"{here}\n"
    assert keeper.run("/bin/pwd", within).text == "/\n"
    os.rmdir(here)
    for path in (here, folder / "file", "/root/nowhere"):
        (folder / "file").touch()
        refused = keeper.run("echo x", within, workdir=str(path)).refused
        assert refused is not None
        assert refused.workdir
        assert refused.text.startswith(f"workdir {path}: ")


def test_a_folder_that_nobody_may_enter_is_an_error(ordinary: House) -> None:
    if ordinary.uid is None:
        pytest.skip("we own what we can make")
    keeper = ordinary.keeper()
    refused = keeper.run("echo x", workdir="/root").refused
    assert refused is not None
    assert refused.workdir
    assert refused.text == "workdir /root: Permission denied"
    assert keeper.works()


@MODES
def test_its_mask_and_priority_are_ours_and_new_privileges_are_none(
    house: House, mode: dict[str, str]
) -> None:
    keeper = house.keeper(**mode)
    umask = os.umask(0)
    os.umask(umask)
    for within in (CONFINED, FULL):
        text = keeper.run("umask; nice", within).text
        assert text.split() == [f"{umask:04o}", str(os.getpriority(os.PRIO_PROCESS, 0))]
    assert status(keeper)["NoNewPrivs"] == "1"
    # Without privilege an exec filter takes them, too: seccomp(2).
    outside = status(keeper, FULL)["NoNewPrivs"]
    assert outside == ("0" if house.root or mode else "1")
    assert status(keeper, FULL)["Seccomp"] == ("0" if mode else "2")


def test_root_keeps_few_capabilities_in_a_sandbox_and_all_outside(house: House) -> None:
    keeper = house.keeper()
    own = status(keeper, FULL)["CapEff"]
    if not house.root:
        assert int(own, 16) == 0
    confined = int(status(keeper)["CapEff"], 16)
    assert confined & ~int(own, 16) == 0
    assert confined & (1 << 19 | 1 << 21) == 0  # CAP_SYS_PTRACE, CAP_SYS_ADMIN


def limits(keeper: Keeper, within: protocol.Sandbox) -> dict[str, tuple[str, str]]:
    """By the names of /proc/PID/limits: soft and hard."""
    found = {}
    for line in keeper.run(("/bin/cat", "/proc/self/limits"), within).text.splitlines()[1:]:
        found[line[:25].strip()] = (line[26:46].strip(), line[47:67].strip())
    return found


@MODES
def test_its_limits_are_those_of_whoever_has_started_us(house: House, mode: dict[str, str]) -> None:
    keeper = house.keeper(**mode)
    ours = {}
    with open("/proc/self/limits") as file:
        for line in file.read().splitlines()[1:]:
            ours[line[:25].strip()] = (line[26:46].strip(), line[47:67].strip())
    # A process of ours that is closed to others has more descriptors, and no core files.
    assert limits(keeper, FULL) == ours
    ours["Max core file size"] = ("0", "0")
    assert limits(keeper, CONFINED) == ours


@MODES
@BOTH
def test_limits_of_the_configuration_hold_in_every_command(
    house: House, within: protocol.Sandbox, mode: dict[str, str]
) -> None:
    wanted = Limits(
        memory=1 << 30, processes=300, cpu_seconds=50, file_size=1 << 20, open_files=100
    )
    keeper = house.keeper(**mode, limits=wanted)
    for _ in range(2):
        found = limits(keeper, within)
        assert found["Max data size"] == (str(1 << 30), str(1 << 30))
        assert found["Max cpu time"] == ("50", "52")
        assert found["Max file size"] == (str(1 << 20), str(1 << 20))
        assert found["Max open files"] == ("100", "100")
        soft, hard = found["Max processes"]
        assert soft == hard
        assert 300 < int(soft) < 300 + 5000
    refused = keeper.run("/bin/sh -c 'ulimit -n 200' || echo refused", within)
    if not house.root:
        assert "refused" in refused.text
    ran = keeper.run("exec /bin/dd if=/dev/zero of=/dev/shm/x bs=1M count=2", FULL)
    Path("/dev/shm/x").unlink(missing_ok=True)
    assert ran.code == -signal.SIGXFSZ
    assert "max_file_size" in ran.done.notes[0]
    assert keeper.works(within)


def oddly() -> None:
    """As a server may be started."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGCHLD, signal.SIGTERM})
    os.umask(0o027)
    os.nice(1)
    os.chdir("/usr")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 22))


@pytest.fixture(scope="module")
def odd() -> Iterator[House]:
    """A house whose front was started in an odd way."""
    needs_listeners()
    house = House(prepare=oddly)
    yield house
    house.close()


@MODES
@BOTH
def test_whoever_starts_us_oddly_starts_commands_no_other_way(
    odd: House, within: protocol.Sandbox, mode: dict[str, str]
) -> None:
    keeper = odd.keeper(**mode)
    found = status(keeper, within)
    assert {settable(found[name]) for name in ("SigBlk", "SigIgn", "SigCgt")} == {0}
    assert found["Umask"] == "0027"
    ran = keeper.run("ulimit -Sn; ulimit -Ss; ulimit -Hs; nice; /bin/pwd", within)
    nice = os.getpriority(os.PRIO_PROCESS, 0) + 1
    assert ran.text.split() == ["64", "1024", "4096", str(nice), "/"]
    assert keeper.works(within)
    keeper.order("trap 'exit 5' TERM; sleep 1000 & wait", within)
    soon(lambda: running(keeper.mark, "sleep 1000"), "its process")
    keeper.end()
    assert keeper.result().code == 5
    odd.release()
