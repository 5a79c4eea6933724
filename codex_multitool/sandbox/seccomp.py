"""(machine, filter name) -> BPF. libseccomp, through pyseccomp, builds it; nothing is installed.

A call that is not named here is allowed. What is refused answers EPERM, so that a program can say
so and go on. A foreign architecture, x32 included, ends the process: its numbers would mean other
calls (seccomp(2), "Caveats"). No rule notifies a supervisor: that filter is stacked apart.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pyseccomp

_LOW_32 = 0xFFFFFFFF


class Comparison(NamedTuple):
    """One argument compared: `(value & mask) <op> operand`, 64 bits wide."""

    argument: int
    op: int
    operand: int
    mask: int = 0


class Rule(NamedTuple):
    """A call refused with an errno, where every comparison holds."""

    call: str
    errno: int
    where: tuple[Comparison, ...] = ()


def _is_int(argument: int, value: int, mask: int = _LOW_32) -> Comparison:
    """The kernel reads an int: the upper half of the register must not hide a match."""
    return Comparison(argument, pyseccomp.MASKED_EQ, value, mask)


def _is_not(argument: int, value: int) -> Comparison:
    """All 64 bits count: what an odd upper half does is refused."""
    return Comparison(argument, pyseccomp.NE, value)


# Calls that reach into another process, widen what the kernel exposes, or act on the whole
# machine. Landlock stops some of them at the sandbox's edge; here they are refused inside, too.
_REFUSED = (
    # other processes' memory, descriptors and execution
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    # system calls that no filter would see
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
    # programs and handlers inside the kernel
    *("bpf", "userfaultfd", "perf_event_open", "fanotify_init", "lookup_dcookie"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
    # keys of the user's session
    *("keyctl", "add_key", "request_key"),
    # files reached past their path, which Landlock goes by
    "open_by_handle_at",
    # another view of the file system or of the process's surroundings
    *("mount", "umount2", "pivot_root", "chroot", "setns", "mount_setattr"),
    *("open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    # the machine
    *("reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "vhangup", "syslog"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    *("sethostname", "setdomainname", "iopl", "ioperm"),
    # chattr(1) by path
    "file_setattr",
)

# File metadata, changed by path or through a descriptor opened for reading only.
_METADATA = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)

# Shared memory, semaphores and queues of the user's other programs: sysvipc(7), mq_overview(7).
# They have no path for Landlock to go by. With the network off nobody outside is to be talked to.
_SHARED = (
    *("shmget", "shmat", "shmctl", "semget", "semctl", "semop", "semtimedop"),
    *("msgget", "msgctl", "msgsnd", "msgrcv", "mq_open", "mq_unlink"),
)

# linux/sched.h: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
_NEW_NAMESPACES = (
    *(0x00020000, 0x02000000, 0x04000000),
    *(0x08000000, 0x10000000, 0x20000000, 0x40000000),
)
_CLONE_NEWTIME = 0x00000080  # for unshare(2) alone: clone(2) has a signal in its lowest byte

_IOCTLS = (
    0x5412,  # TIOCSTI: types into a terminal
    0x541C,  # TIOCLINUX: pastes into a console
    0x40086602,  # FS_IOC_SETFLAGS: these four need no descriptor open for writing
    0x401C5820,  # FS_IOC_FSSETXATTR
    0x40806685,  # FS_IOC_ENABLE_VERITY
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
)

_SOCK_TYPE_MASK = 0xF  # above it stand SOCK_NONBLOCK and SOCK_CLOEXEC
_SOCK_PACKET = 10  # with AF_INET it still opens an AF_PACKET socket (packet(7))

# Calls newer than libseccomp may be: the numbers of the unified table.
_NEWER_THAN_LIBSECCOMP = {
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}

_ARCHES = {"x86_64": pyseccomp.Arch.X86_64, "aarch64": pyseccomp.Arch.AARCH64}
_OPTIMIZE_BINARY_TREE = 2  # seccomp_attr_set(3): SCMP_FLTATR_CTL_OPTIMIZE


def rules(name: str) -> Iterator[Rule]:
    """What the filter of this name (see filters.NAMES) refuses."""
    sockets, metadata_kept = name.removesuffix("-read-only"), name.endswith("-read-only")
    for call in (*_REFUSED, *(_METADATA if metadata_kept else ())):
        yield Rule(call, errno.EPERM)
    for flag in _NEW_NAMESPACES:
        yield Rule("clone", errno.EPERM, (_is_int(0, flag, flag),))
    for flag in (_CLONE_NEWTIME, *_NEW_NAMESPACES):
        yield Rule("unshare", errno.EPERM, (_is_int(0, flag, flag),))
    # Its flags lie in memory, out of a filter's sight; the C library falls back to clone(2).
    yield Rule("clone3", errno.ENOSYS)
    for request in _IOCTLS:
        yield Rule("ioctl", errno.EPERM, (_is_int(1, request),))
    # Limits of another process of the user: enough to stop the server.
    yield Rule("prlimit64", errno.EPERM, (_is_not(0, 0), _is_not(2, 0)))
    match sockets:
        case "network":
            yield from _network_sockets()
        case "unix":
            yield from _unix_sockets()
        case "pairs":
            yield from _unix_sockets()
            yield from _connected_sockets()
        case _:
            raise ValueError(name)


def _network_sockets() -> Iterator[Rule]:
    """All but AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK: no AF_VSOCK, AF_ALG, AF_PACKET ..."""
    wanted = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
    for call in ("socket", "socketpair"):
        yield Rule(call, errno.EPERM, (Comparison(0, pyseccomp.GT, socket.AF_NETLINK),))
        for family in range(socket.AF_NETLINK):
            if family not in wanted:
                yield Rule(call, errno.EPERM, (_is_int(0, family),))
    yield Rule("socket", errno.EPERM, (_is_int(1, _SOCK_PACKET, _SOCK_TYPE_MASK),))


def _unix_sockets() -> Iterator[Rule]:
    for call in _SHARED:
        yield Rule(call, errno.EPERM)
    for call in ("socket", "socketpair"):
        yield Rule(call, errno.EPERM, (_is_not(0, socket.AF_UNIX),))


def _connected_sockets() -> Iterator[Rule]:
    """Nothing that takes an address, which a filter cannot read, so only pairs are of use.

    A datagram socket, even one of a pair, sends to any address that sendmsg(2) names, and
    sendmsg must stay: it passes descriptors. AF_UNIX takes SOCK_RAW for SOCK_DGRAM (unix(7)).
    """
    for call in ("connect", "bind", "listen", "accept", "accept4", "sendmmsg"):
        yield Rule(call, errno.EPERM)
    yield Rule("sendto", errno.EPERM, (_is_not(4, 0),))
    for call in ("socket", "socketpair"):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
            yield Rule(call, errno.EPERM, (_is_int(1, kind, _SOCK_TYPE_MASK),))


def build(machine: str, name: str) -> bytes | None:
    """The filter as an array of struct sock_filter; None for a machine not known here."""
    arch = _ARCHES.get(machine)
    if arch is None:
        return None
    program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    native = pyseccomp.system_arch()
    if arch != native:
        program.add_arch(arch)
        program.remove_arch(native)
    program.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    program.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, _OPTIMIZE_BINARY_TREE)
    unknown: list[tuple[int, int]] = []
    for rule in rules(name):
        number = pyseccomp.resolve_syscall(arch, rule.call)
        if number == -1:  # __NR_SCMP_ERROR
            unknown.append((_NEWER_THAN_LIBSECCOMP[rule.call], rule.errno))
        elif number >= 0:  # else this architecture has no such call
            where = (_argument(comparison) for comparison in rule.where)
            program.add_rule(pyseccomp.ERRNO(rule.errno), rule.call, *where)
    with os.fdopen(os.memfd_create(name), "r+b") as file:
        program.export_bpf(file)
        file.seek(0)
        return _prologue(arch, unknown) + file.read()


def _argument(comparison: Comparison) -> pyseccomp.Arg:
    argument, op, operand, mask = comparison
    if op == pyseccomp.MASKED_EQ:
        return pyseccomp.Arg(argument, op, mask, operand)
    return pyseccomp.Arg(argument, op, operand)


def _prologue(arch: int, refused: list[tuple[int, int]]) -> bytes:
    """BPF for calls that libseccomp has no name for, to stand before its own program."""
    if not refused:
        return b""
    load, jump_if_equal, give = 0x20, 0x15, 0x06  # linux/bpf_common.h
    instructions = [
        (load, 0, 0, 4),
        (jump_if_equal, 0, 2 * len(refused) + 1, arch),
        (load, 0, 0, 0),
    ]
    for number, code in refused:
        instructions += [(jump_if_equal, 0, 1, number), (give, 0, 0, pyseccomp.ERRNO(code))]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
