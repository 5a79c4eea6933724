"""The filters, run instruction by instruction: what they answer to every call, per machine."""

import errno
import os
import socket
import struct

import pyseccomp
import pytest

from codex_multitool.sandbox import filters, ioctls, seccomp

ALLOW = pyseccomp.ALLOW
KILL = pyseccomp.KILL_PROCESS
EPERM = pyseccomp.ERRNO(errno.EPERM)
EACCES = pyseccomp.ERRNO(errno.EACCES)
EAFNOSUPPORT = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
ENOSYS = pyseccomp.ERRNO(errno.ENOSYS)

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
X32_BIT = 0x40000000
HIGH = 1 << 32
NO_CALL = 1000

MACHINES = sorted(ARCH)
EVERY = [(machine, name) for machine in MACHINES for name in filters.NAMES]
every_filter = pytest.mark.parametrize(("machine", "name"), EVERY)


def run(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel's interpreter returns for struct seccomp_data (seccomp(2))."""
    words = [word & (2**64 - 1) for word in arguments] + [0] * (6 - len(arguments))
    packet = struct.pack("<iIQ6Q", number, arch, 0, *words)
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        match code:
            case 0x20:  # ld [k]
                (accumulator,) = struct.unpack_from("<I", packet, operand)
            case 0x54:  # and #k
                accumulator &= operand
            case 0x05:  # ja
                position += operand
            case 0x15:  # jeq
                position += if_true if accumulator == operand else if_false
            case 0x25:  # jgt
                position += if_true if accumulator > operand else if_false
            case 0x35:  # jge
                position += if_true if accumulator >= operand else if_false
            case 0x06:  # ret #k
                return int(operand)
            case _:
                raise AssertionError(f"instruction {code:#x}")


class Filter:
    """A built filter that can be asked by the name of a call."""

    def __init__(self, machine: str, name: str) -> None:
        program = seccomp.build(machine, name)
        assert program is not None
        self.program = program
        self.machine = machine
        self.arch = ARCH[machine]

    def number(self, call: str) -> int:
        newer = {
            "setxattrat": 463,
            "removexattrat": 466,
            "open_tree_attr": 467,
            "file_setattr": 469,
        }
        number = pyseccomp.resolve_syscall(self.arch, call)
        return newer[call] if number == -1 else int(number)

    def __call__(self, call: str, *arguments: int) -> int:
        return run(self.program, self.arch, self.number(call), arguments)


@every_filter
def test_calls_are_refused_as_listed_and_no_others(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    unconditional: dict[int, int] = {}
    conditional = set()
    for rule in seccomp.rules(name):
        if rule.where:
            conditional.add(filtered.number(rule.call))
        else:
            unconditional[filtered.number(rule.call)] = pyseccomp.ERRNO(rule.errno)
    for number in range(NO_CALL):
        if number not in conditional:
            answer = run(filtered.program, filtered.arch, number)
            assert answer == unconditional.get(number, ALLOW), number


@every_filter
def test_a_foreign_architecture_ends_the_process(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    others = {I386, ARM, *ARCH.values()} - {filtered.arch}
    for number in (0, 1, 11, 221, 463, 469, NO_CALL):
        assert {run(filtered.program, arch, number) for arch in others} == {KILL}


@pytest.mark.parametrize("name", filters.NAMES)
def test_x32_ends_the_process(name: str) -> None:
    filtered = Filter("x86_64", name)
    for number in (0, 41, 59, 463, 520):
        assert run(filtered.program, filtered.arch, X32_BIT | number) == KILL


@every_filter
@pytest.mark.parametrize(
    "call",
    [
        *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "io_uring_setup"),
        *("io_uring_enter", "io_uring_register", "bpf", "userfaultfd", "keyctl", "add_key"),
        *("request_key", "open_by_handle_at", "perf_event_open", "kexec_load", "init_module"),
        *("finit_module", "mount", "umount2", "pivot_root", "move_mount", "fsopen", "fsmount"),
        *("open_tree", "open_tree_attr", "mount_setattr", "setns", "chroot", "reboot", "swapon"),
        *("acct", "settimeofday", "quotactl", "kcmp", "file_setattr"),
    ],
)
def test_calls_that_no_command_needs_are_refused(machine: str, name: str, call: str) -> None:
    assert Filter(machine, name)(call) == EPERM


@every_filter
def test_ordinary_calls_are_allowed(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    for call in ("read", "write", "openat", "execve", "execveat", "mmap", "seccomp", "prctl"):
        assert filtered(call) == ALLOW
    # Pairs and what is done with them: node's execSync, Python's pools, descriptors passed on.
    for call in ("getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown"):
        assert filtered(call, 3) == ALLOW
    for call in ("sendmsg", "recvmsg", "recvfrom", "recvmmsg"):
        assert filtered(call, 3) == ALLOW
    assert filtered("socketpair", socket.AF_UNIX, socket.SOCK_STREAM) == ALLOW
    assert filtered("sendto", 3, 0x7FFF_0000, 10, 0, 0) == ALLOW


@every_filter
@pytest.mark.parametrize("junk", [0, HIGH, 0xFFFF_FFFF << 32])
def test_an_ioctl_is_known_by_its_lower_half(machine: str, name: str, junk: int) -> None:
    filtered = Filter(machine, name)
    for request in (0x5412, 0x541C, 0x40086602, 0x401C5820, 0x40806685, 0x800C6613):
        assert filtered("ioctl", 0, request | junk) == EPERM
    for request in (0x5401, 0x5413, 0x5441, 0x80045430, 0x40045431):
        assert filtered("ioctl", 0, request | junk) == ALLOW


@every_filter
def test_ioctls_of_file_systems_are_refused_by_their_type(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    requests = [kind << 8 | low for kind in range(256) for low in (0x2, 0x4008_0009)]
    for request in (*requests, *ioctls.REFUSED, *ioctls.HARMLESS):
        expected = EPERM if ioctls.refused(request) else ALLOW
        assert filtered("ioctl", 0, request) == expected, hex(request)
    assert all(ioctls.refused(kind | number) for kind in ioctls.FILE_SYSTEMS for number in (0, 255))


# linux/btrfs.h, ext4.h, f2fs.h, ocfs2_ioctl.h, bcachefs_ioctl.h, msdos_fs.h, fs/xfs/xfs_fs.h
@pytest.mark.parametrize(
    "request_number",
    [
        *(0x5000940E, 0x50009417, 0x50009418, 0x50009401),  # SUBVOL_CREATE, SNAP_CREATE_V2, ...
        *(0x5000940F, 0x5000943F, 0x40089413, 0x81009432),  # SNAP_DESTROY, its V2, flags, labels
        *(0xC028660F, 0x40086604, 0x6609, 0x40086610),  # ext4: MOVE_EXT, SETVERSION, MIGRATE
        *(0xF501, 0xF502, 0xF519),  # F2FS: atomic writes
        *(0x40186F04, 0x40286F06),  # OCFS2: REFLINK, MOVE_EXT
        *(0x4020BC10, 0x4020BC11),  # bcachefs: a subvolume made, and removed
        *(0xC0C0586D, 0x4004587D, 0xC0045877),  # XFS: SWAPEXT, GOINGDOWN, FIFREEZE
        *(0x40087602, 0x40047211),
    ],
)
def test_what_changes_files_through_a_descriptor_for_reading_is_refused(
    request_number: int,
) -> None:
    assert ioctls.refused(request_number)


@pytest.mark.parametrize(
    "request_number",
    [
        *(0x80086601, 0xC020660B, 0x801C581F, 0x80087601),  # lsattr(1), filefrag(8)
        *(0x40049409, 0x4020940D, 0xC0189436),  # cp --reflink, dedupe
        *(0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460),  # terminals, FIO*
        *(0x2, 0x1260, 0x80081272, 0x8912, 0x8910, 0x8905, 0xB701, 0xC0502100),
    ],
)
def test_what_programs_ask_of_files_terminals_and_sockets_is_not(request_number: int) -> None:
    assert not ioctls.refused(request_number)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", filters.NAMES)
@pytest.mark.parametrize("junk", [0, HIGH])
def test_where_landlock_sees_no_truncation_the_filter_does(
    machine: str, name: str, junk: int
) -> None:
    filtered = Filter(machine, name)
    kept = name.endswith("+no-truncate")
    assert filtered("truncate", 0x7FFF_0000, 0) == (EACCES if kept else ALLOW)
    assert filtered("openat2", -100, 0x7FFF_0000, 0x7FFF_1000, 24) == (ENOSYS if kept else ALLOW)
    for access in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_ACCMODE):
        # With a mode for writing, Landlock has been asked for the right to write.
        refused = kept and access in (os.O_RDONLY, os.O_ACCMODE)
        for more in (0, os.O_CREAT, os.O_CLOEXEC | os.O_NONBLOCK, 0o100000):
            flags = access | os.O_TRUNC | more | junk
            expected = EACCES if refused else ALLOW
            assert filtered("openat", -100, 0x7FFF_0000, flags) == expected
            assert filtered("openat", -100, 0x7FFF_0000, flags & ~os.O_TRUNC) == ALLOW
            if machine == "x86_64":
                assert filtered("open", 0x7FFF_0000, flags) == expected
    assert filtered("ftruncate", 3, 0) == ALLOW


@every_filter
@pytest.mark.parametrize("junk", [0, HIGH])
def test_a_new_namespace_is_refused_however_it_is_asked_for(
    machine: str, name: str, junk: int
) -> None:
    filtered = Filter(machine, name)
    sigchld, vm, thread = 17, 0x100, 0x3D0F00
    for flag in (0x20000, *(1 << bit for bit in range(25, 31))):
        assert filtered("clone", flag | sigchld | junk) == EPERM
        assert filtered("unshare", flag | vm | junk) == EPERM
    assert filtered("unshare", 0x80) == EPERM
    assert filtered("clone3", 0x7FFF_0000, 88) == ENOSYS
    for flags in (sigchld, vm | 0x4000 | sigchld, thread, 0x01000000 | sigchld, 0x80 | vm):
        assert filtered("clone", flags | junk) == ALLOW
    for flags in (0x200, 0x400, 0x40000):  # CLONE_FS, CLONE_FILES, CLONE_SYSVSEM
        assert filtered("unshare", flags | junk) == ALLOW


@every_filter
def test_limits_of_another_process_are_refused(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    assert filtered("prlimit64", 1, 7, 0x7FFF_0000, 0) == EPERM
    assert filtered("prlimit64", -1, 7, 0x7FFF_0000, 0) == EPERM
    assert filtered("prlimit64", 1, 7, 0, 0x7FFF_0000) == ALLOW
    assert filtered("prlimit64", 0, 7, 0x7FFF_0000, 0) == ALLOW


@every_filter
def test_sockets_by_family(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    allowed = {1, 2, 10, 16} if name.startswith("network") else {1}
    nobodys = {0, 7, 13, 14, 18, 22, 25, 27, 28, *range(46, 64), -1, 9999}
    for family in (-1, *range(64), 9999):
        refusal = EAFNOSUPPORT if family in nobodys else EPERM
        expected = ALLOW if family in allowed else refusal
        for call in ("socket", "socketpair"):
            assert filtered(call, family, socket.SOCK_STREAM) == expected, family
    for family in (40, 38, 17, 31):  # AF_VSOCK, AF_ALG, AF_PACKET, AF_BLUETOOTH
        refusal = filtered("socket", family | HIGH, socket.SOCK_STREAM)
        assert refusal in (EPERM, EAFNOSUPPORT)


@pytest.mark.parametrize("machine", MACHINES)
def test_with_the_network_on_packet_sockets_are_refused_under_their_old_name(machine: str) -> None:
    filtered = Filter(machine, "network")
    assert filtered("socket", socket.AF_INET, 10) == EPERM
    assert filtered("socket", socket.AF_INET, 10 | socket.SOCK_CLOEXEC) == EPERM
    assert filtered("socket", socket.AF_INET, socket.SOCK_DGRAM) == ALLOW
    assert filtered("socket", socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) == ALLOW
    for call in ("connect", "bind", "listen", "accept", "accept4", "sendmmsg"):
        assert filtered(call, 3, 0x7FFF_0000, 16) == ALLOW
    assert filtered("sendto", 3, 0x7FFF_0000, 10, 0, 0x7FFF_0000, 16) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_where_landlock_tells_unix_sockets_apart_they_may_be_used(machine: str) -> None:
    filtered = Filter(machine, "unix")
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        assert filtered("socket", socket.AF_UNIX, kind) == ALLOW
    for call in ("connect", "bind", "listen", "accept", "accept4"):
        assert filtered(call, 3, 0x7FFF_0000, 16) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["pairs", "pairs+read-only", "pairs+no-truncate"])
def test_where_it_cannot_nothing_takes_an_address(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    for call in ("connect", "bind", "listen", "accept", "accept4", "sendmmsg"):
        for descriptor in (0, 3, 3 | HIGH, 0x7FFF_FFFF):
            assert filtered(call, descriptor, 0x7FFF_0000, 16) == EPERM
        for none in (-1, -100, 0xFFFF_FFFF):  # EBADF, which the kernel says itself
            assert filtered(call, none, 0x7FFF_0000, 16) == ALLOW
    for address in (0x7FFF_0000, HIGH, 1):
        assert filtered("sendto", 3, 0x7FFF_0000, 10, 0, address, 16) == EPERM
    assert filtered("sendto", -1, 0x7FFF_0000, 10, 0, 0x7FFF_0000, 16) == ALLOW
    for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK, HIGH):
        for call in ("socket", "socketpair"):
            assert filtered(call, socket.AF_UNIX, socket.SOCK_STREAM | flags) == ALLOW
            assert filtered(call, socket.AF_UNIX, socket.SOCK_SEQPACKET | flags) == ALLOW
            assert filtered(call, socket.AF_UNIX, socket.SOCK_DGRAM | flags) == EPERM
            assert filtered(call, socket.AF_UNIX, socket.SOCK_RAW | flags) == EPERM


@every_filter
def test_with_the_network_off_nothing_is_shared_with_programs_outside(
    machine: str, name: str
) -> None:
    filtered = Filter(machine, name)
    expected = ALLOW if name.startswith("network") else EPERM
    for call in ("shmget", "shmat", "shmctl", "semget", "semctl", "semop", "semtimedop"):
        assert filtered(call, 3) == expected
    for call in ("msgget", "msgctl", "msgsnd", "msgrcv", "mq_open", "mq_unlink"):
        assert filtered(call, 3) == expected


@every_filter
def test_metadata_is_kept_under_read_only_alone(machine: str, name: str) -> None:
    filtered = Filter(machine, name)
    expected = EPERM if "+read-only" in name else ALLOW
    for call in ("fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "utimensat"):
        assert filtered(call, 3) == expected
    for call in ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "setxattrat"):
        assert filtered(call, 3) == expected


def test_a_machine_without_a_table_has_no_filter() -> None:
    assert seccomp.build("riscv64", "pairs") is None


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="everything"):
        seccomp.build("x86_64", "everything")
