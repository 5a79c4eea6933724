"""Commands against the spawner that has started them: the next command works all the same."""

import shutil
import signal
from collections.abc import Iterator
from shlex import quote

import pytest

from codex_multitool.keeper import protocol
from codex_multitool.launcher.spawner import END_ALL
from tests.keeper.conftest import tidy
from tests.keeper.driver import (
    CONFINED,
    FULL,
    GoneError,
    House,
    Keeper,
    signals_are_kept,
    somebody,
)

PYTHON = shutil.which("python3", path="/usr/bin:/bin")
BOTH = pytest.mark.parametrize("within", [CONFINED, FULL], ids=["confined", "full"])

# What a process has that another of its user can change, and what it starts inherits.
PROBE = """
import ctypes, os, resource
print(os.getpriority(0, 0), os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)
print(sorted(os.sched_getaffinity(0)))
number = {"x86_64": 252, "aarch64": 31}[os.uname().machine]
print(ctypes.CDLL(None).syscall(number, 1, 0))
print([resource.getrlimit(kind) for kind in range(16)])
"""
HEAD = """
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
spawner = os.getppid()
"""
CHANGES = {
    "nice": "os.setpriority(os.PRIO_PROCESS, spawner, os.getpriority(0, 0) + 1)",
    "nice of the group": "os.setpriority(os.PRIO_PGRP, spawner, os.getpriority(0, 0) + 1)",
    "idle": "os.sched_setscheduler(spawner, os.SCHED_IDLE, os.sched_param(0))",
    "batch": "os.sched_setscheduler(spawner, os.SCHED_BATCH, os.sched_param(0))",
    "processors": "os.sched_setaffinity(spawner, {min(os.sched_getaffinity(0))})",
    "disk": "libc.syscall({'x86_64': 251, 'aarch64': 30}[os.uname().machine], 1, spawner, 3 << 13)",
}
LIMITS = ("RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_STACK")


def python(code: str) -> str:
    """A command that executes this; `spawner` is the process id of what has started its shell."""
    if PYTHON is None:
        pytest.skip("no python3 that every user can execute")
    # The shell is its child, and becomes the program.
    return f"exec {PYTHON} -ISc {quote(HEAD + code)} 2>&1"


@BOTH
@pytest.mark.parametrize(
    "command",
    [
        "kill -9 $PPID; echo x",
        "kill -9 $PPID; exec /bin/echo x",
        "kill -9 $PPID; /bin/echo x",
        "kill -TERM $PPID; kill -HUP $PPID; kill -SEGV $PPID; /bin/echo x",
        "(kill -9 $PPID; setsid /bin/echo x) & wait",
        "(kill -9 $PPID) 2>&- & kill -9 $PPID 2>&-; wait; echo x",
    ],
)
def test_a_command_without_its_spawner_goes_on(
    keeper: Keeper, within: protocol.Sandbox, command: str
) -> None:
    for _ in range(3):
        # One that ends together with its spawner may have been waited for by that.
        ran = keeper.run(command, within)
        assert (ran.text, ran.code) in [("x\n", 0), ("x\n", -9)]
        assert keeper.works(within)


@BOTH
def test_one_that_stops_its_spawner_ends_all_the_same(
    ordinary: House, within: protocol.Sandbox
) -> None:
    keeper = ordinary.keeper()
    with tidy(keeper):
        ran = keeper.run("kill -STOP $PPID; /bin/echo x", within)
        assert (ran.text, ran.code) == ("x\n", 0)
        assert keeper.works(within)


@BOTH
def test_no_signal_to_its_spawner_outlasts_a_command(
    keeper: Keeper, within: protocol.Sandbox
) -> None:
    for number in set(map(int, signal.valid_signals())) - {signal.SIGSTOP}:
        ran = keeper.run(f"kill -{number} $PPID; sleep 0; echo x", within)
        # That by which its keeper has it end all of its sandbox does just that.
        assert ran.text == "x\n" or (number == END_ALL and ran.code == -signal.SIGKILL)
    assert keeper.works(within)


@BOTH
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_it_changes_of_its_spawner_is_not_the_next_commands(
    keeper: Keeper, within: protocol.Sandbox, change: str
) -> None:
    before = keeper.run(python(PROBE), within)
    ran = keeper.run(python(f"{change}\nprint('changed', ctypes.get_errno())"), within)
    assert (ran.text, ran.code) == ("changed 0\n", 0)
    assert keeper.run(python(PROBE), within).text == before.text
    assert before.code == 0


@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_its_spawner_are_out_of_reach_or_not_the_next_commands(
    keeper: Keeper, limit: str
) -> None:
    code = f"resource.prlimit(spawner, resource.{limit}, (1, 1))"
    assert "PermissionError" in keeper.run(python(code)).text
    before = keeper.run(python(PROBE), FULL)
    assert keeper.run(python(code), FULL).text == ""
    assert keeper.run(python(PROBE), FULL).text == before.text


def test_a_user_whose_processes_are_all_slowed_down_still_gets_the_next_command(
    keeper: Keeper,
) -> None:
    if keeper.uid is None:
        pytest.skip("it would be our own processes")
    for within in (CONFINED, FULL):
        assert keeper.run(python("os.setpriority(os.PRIO_USER, 0, 19)"), within).text == ""
        assert keeper.works(within)


LOOKS = {
    "trace": "assert libc.ptrace(16, spawner, 0, 0) < 0, 'attached'",
    "seize": "assert libc.ptrace(0x4206, spawner, 0, 0) < 0, 'seized'",
    "read": "assert libc.process_vm_readv(spawner, piece, 1, piece, 1, 0) < 0",
    "environ": "open(f'/proc/{spawner}/environ').read()",
    "fd": "os.readlink(f'/proc/{spawner}/fd/0')",
    "mem": "open(f'/proc/{spawner}/mem', 'r+b')",
    "memory read": "open(f'/proc/{spawner}/mem', 'rb')",
    "maps": "open(f'/proc/{spawner}/maps').read(1)",
    "cwd": "os.readlink(f'/proc/{spawner}/cwd')",
    "root": "os.listdir(f'/proc/{spawner}/root/')",
    "descriptors": "assert libc.syscall(438, os.pidfd_open(spawner), 3, 0) < 0, 'taken'",
    "oom": "open(f'/proc/{spawner}/oom_score_adj', 'w').write('1000')",
    "dump": "open(f'/proc/{spawner}/coredump_filter', 'w').write('ff')",
    "group": "open(f'/proc/{spawner}/autogroup', 'w').write('19')",
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_nobody_looks_into_a_spawner_or_traces_it(house: House, look: str) -> None:
    keeper = house.keeper()
    code = f"""
import errno
piece = (ctypes.c_ulong * 2)(id(os), 8)
try:
    {look}
except PermissionError:
    print("refused")
else:
    print("refused" if ctypes.get_errno() == errno.EPERM else "done")
"""
    # Root outside any sandbox is kept from nothing.
    for within in (CONFINED,) if house.root else (CONFINED, FULL):
        assert keeper.run(python(code), within).text == "refused\n"


def test_in_a_sandbox_that_keeps_its_signals_all_that_it_can_kill_is_killed(
    ordinary: House,
) -> None:
    if not signals_are_kept():
        pytest.skip("Landlock keeps signals from ABI 6 on")
    keeper = ordinary.keeper()
    with tidy(keeper):
        for command in ("kill -9 -1; echo x", "(kill -9 -1) & wait; echo x"):
            keeper.run(command)
            assert keeper.works()
            keeper.run("kill -STOP -1; echo x", timeout=0.5)
            assert keeper.works()


@pytest.fixture
def doomed() -> Iterator[House]:
    """A house of its own, whose user has no other process."""
    uid = somebody()
    if uid is None:
        pytest.skip("it would be our own processes")
    house = House(uid)
    yield house
    house.close()


def test_where_nothing_keeps_it_from_ending_all_of_its_user_the_front_sees_that(
    doomed: House,
) -> None:
    keeper = doomed.keeper()
    keeper.order("kill -9 -1", FULL)
    with pytest.raises(GoneError):
        keeper.result()
