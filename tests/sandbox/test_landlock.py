"""The plan for each ABI, against the numbers of linux/landlock.h."""

import pytest

from codex_multitool.sandbox import landlock
from codex_multitool.sandbox.landlock_package import FS
from codex_multitool.sandbox.policy import (
    DANGER_FULL_ACCESS,
    EXTERNAL_SANDBOX,
    READ_ONLY,
    WORKSPACE_WRITE,
    SandboxPolicy,
)

ABIS = range(landlock.NEWEST_ABI + 1)
OFF = SandboxPolicy(WORKSPACE_WRITE)
ON = SandboxPolicy(WORKSPACE_WRITE, network_access=True)

# ABI: handled file system rights, network rights, scopes, flags; network off.
LADDER = {
    1: (0x1FFF, 0, 0, 0),
    2: (0x3FFF, 0, 0, 0),
    3: (0x7FFF, 0, 0, 0),
    4: (0x7FFF, 0b11, 0, 0),
    5: (0xFFFF, 0b11, 0, 0),
    6: (0xFFFF, 0b11, 0b11, 0),
    7: (0xFFFF, 0b11, 0b11, 0b10),
    8: (0xFFFF, 0b11, 0b11, 0b10),
    9: (0x1FFFF, 0b11, 0b11, 0b10),
    10: (0x1FFFF, 0b1111, 0b11, 0b10),
}


def made(policy: SandboxPolicy, roots: tuple[str, ...], abi: int) -> landlock.Plan:
    plan = landlock.plan(policy, roots, abi)
    assert plan is not None
    return plan


@pytest.mark.parametrize("abi", LADDER)
def test_the_ladder(abi: int) -> None:
    for kind in (READ_ONLY, WORKSPACE_WRITE):
        plan = made(SandboxPolicy(kind), (), abi)
        assert (plan.handled_fs, plan.handled_net, plan.scoped, plan.restrict_flags) == LADDER[abi]


@pytest.mark.parametrize("abi", LADDER)
def test_with_the_network_on_neither_ports_nor_socket_files_are_handled(abi: int) -> None:
    plan = made(ON, (), abi)
    fs, _, scoped, flags = LADDER[abi]
    assert (plan.handled_fs, plan.handled_net) == (fs & 0xFFFF, 0)
    assert (plan.scoped, plan.restrict_flags) == (scoped, flags)


@pytest.mark.parametrize("abi", ABIS)
def test_full_write_asks_for_nothing(abi: int) -> None:
    for kind in (DANGER_FULL_ACCESS, EXTERNAL_SANDBOX):
        assert landlock.plan(SandboxPolicy(kind), ("/a",), abi) is None


def test_without_landlock_there_is_no_plan() -> None:
    assert landlock.plan(OFF, ("/a",), 0) is None


@pytest.mark.parametrize("abi", LADDER)
def test_a_rule_names_only_rights_that_are_handled(abi: int) -> None:
    for policy in (OFF, ON, SandboxPolicy(READ_ONLY)):
        plan = made(policy, ("/a", "/b"), abi)
        for _, rights in (*plan.fixed, *plan.roots):
            assert rights
            assert rights & ~plan.handled_fs == 0


@pytest.mark.parametrize("abi", LADDER)
def test_roots_get_all_but_devices_and_foreign_sockets(abi: int) -> None:
    plan = made(OFF, ("/a", "/b"), abi)
    make_devices = 1 << 6 | 1 << 11
    resolve_unix = 1 << 16
    expected = plan.handled_fs & ~make_devices & ~resolve_unix
    assert plan.roots == (("/a", expected), ("/b", expected))
    assert made(OFF, (), abi).roots == ()


READ_ALL = {"/": 0xD}
DEVICES = {
    "/dev/null": 0xC006,
    "/dev/zero": 0x8006,
    "/dev/full": 0x8006,
    "/dev/random": 0x6,
    "/dev/urandom": 0x6,
    "/dev/tty": 0x8006,
}
SHARED = {"/dev/ptmx": 0x8006, "/dev/pts": 0x8006, "/dev/shm": 0x412E}


def test_what_is_granted_beside_the_roots() -> None:
    assert dict(made(SandboxPolicy(READ_ONLY), (), 10).fixed) == READ_ALL | DEVICES
    assert dict(made(OFF, (), 10).fixed) == READ_ALL | DEVICES | SHARED
    assert dict(made(ON, (), 5).fixed) == READ_ALL | DEVICES | SHARED


def test_shared_memory_takes_files_alone() -> None:
    rights = SHARED["/dev/shm"]
    named = {name for name, bit in FS.items() if rights & bit}
    assert named == {"READ_FILE", "READ_DIR", "WRITE_FILE", "TRUNCATE", "MAKE_REG", "REMOVE_FILE"}


def test_the_package_numbers_the_rights_as_the_kernel_does() -> None:
    names = (
        *("EXECUTE", "WRITE_FILE", "READ_FILE", "READ_DIR", "REMOVE_DIR", "REMOVE_FILE"),
        *("MAKE_CHAR", "MAKE_DIR", "MAKE_REG", "MAKE_SOCK", "MAKE_FIFO", "MAKE_BLOCK", "MAKE_SYM"),
        *("REFER", "TRUNCATE", "IOCTL_DEV"),
    )
    assert {name: FS[name] for name in names} == {name: 1 << bit for bit, name in enumerate(names)}
    assert landlock.FILE_RIGHTS == 0x1C007


def test_the_structures() -> None:
    plan = landlock.Plan(0x0102030405060708, 3, 1, 0, (), ())
    assert plan.attributes() == (
        (0x0102030405060708).to_bytes(8, "little")
        + (3).to_bytes(8, "little")
        + (1).to_bytes(8, "little")
    )
    assert landlock.path_beneath(0xC006, 7) == (0xC006).to_bytes(8, "little") + b"\7\0\0\0"


@pytest.mark.parametrize("abi", ABIS)
def test_who_guards_unix_sockets(abi: int) -> None:
    assert landlock.guards_unix_sockets(OFF, abi) == (abi >= 9)
    assert not landlock.guards_unix_sockets(ON, abi)
    assert not landlock.guards_unix_sockets(SandboxPolicy(EXTERNAL_SANDBOX), abi)
