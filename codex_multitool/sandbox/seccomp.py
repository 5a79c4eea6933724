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

from codex_multitool.sandbox import ioctls

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

_SOCK_TYPE_MASK = 0xF  # above it stand SOCK_NONBLOCK and SOCK_CLOEXEC
# Families up to here are known, and of those nobody has sockets: linux/socket.h.
_NEWEST_FAMILY = 45
_NO_FAMILIES = (
    *(socket.AF_UNSPEC, 7, 13, 14),  # BRIDGE, NETBEUI, SECURITY
    *(18, 22, 25, 27, 28),  # ASH, SNA, WANPIPE, IB, MPLS
)
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
_API = 3  # seccomp_api_get(3): KILL_PROCESS


def rules(name: str) -> Iterator[Rule]:
    """What the filter of this name (see filters.NAMES) refuses, ioctls apart."""
    sockets, *more = name.split("+")
    for call in (*_REFUSED, *(_METADATA if "read-only" in more else ())):
        yield Rule(call, errno.EPERM)
    if "no-truncate" in more:
        yield from _truncation()
    for flag in _NEW_NAMESPACES:
        yield Rule("clone", errno.EPERM, (_is_int(0, flag, flag),))
    for flag in (_CLONE_NEWTIME, *_NEW_NAMESPACES):
        yield Rule("unshare", errno.EPERM, (_is_int(0, flag, flag),))
    # Its flags lie in memory, out of a filter's sight; the C library falls back to clone(2).
    yield Rule("clone3", errno.ENOSYS)
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


def _truncation() -> Iterator[Rule]:
    """The ways to empty a file without a descriptor open for writing, which Landlock gives.

    Before ABI 3 it knows of none. open(2) asks the file's mode alone whether O_TRUNC may be; with
    O_RDONLY, and with the access mode 3 (open(2), "Linux"), Landlock then sees no writing. The
    flags of openat2(2) lie in memory. The answers are those of ABI 3, and of a kernel without it.
    """
    yield Rule("truncate", errno.EACCES)
    for call, flags in (("open", 1), ("openat", 2)):
        for access in (os.O_RDONLY, os.O_ACCMODE):
            asked = _is_int(flags, os.O_TRUNC | access, os.O_TRUNC | os.O_ACCMODE)
            yield Rule(call, errno.EACCES, (asked,))
    yield Rule("openat2", errno.ENOSYS)


def _families(*wanted: int) -> Iterator[Rule]:
    """Sockets of these families alone. Those that nobody has answer as socket(2) says."""
    for call in ("socket", "socketpair"):
        for family in range(_NEWEST_FAMILY + 1):
            if family not in wanted:
                answer = errno.EAFNOSUPPORT if family in _NO_FAMILIES else errno.EPERM
                yield Rule(call, answer, (_is_int(0, family),))
        above = Comparison(0, pyseccomp.GT, _NEWEST_FAMILY)
        yield Rule(call, errno.EAFNOSUPPORT, (above,))


def _network_sockets() -> Iterator[Rule]:
    """No AF_VSOCK, AF_ALG, AF_PACKET ..."""
    yield from _families(socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
    yield Rule("socket", errno.EPERM, (_is_int(1, _SOCK_PACKET, _SOCK_TYPE_MASK),))


def _unix_sockets() -> Iterator[Rule]:
    for call in _SHARED:
        yield Rule(call, errno.EPERM)
    yield from _families(socket.AF_UNIX)


def _connected_sockets() -> Iterator[Rule]:
    """Nothing that takes an address, which a filter cannot read, so only pairs are of use.

    A datagram socket, even one of a pair, sends to any address that sendmsg(2) names, and
    sendmsg must stay: it passes descriptors. AF_UNIX takes SOCK_RAW for SOCK_DGRAM (unix(7)).
    What is no descriptor at all is left to the kernel, which answers EBADF.
    """
    descriptor = _is_int(0, 0, 0x8000_0000)
    for call in ("connect", "bind", "listen", "accept", "accept4", "sendmmsg"):
        yield Rule(call, errno.EPERM, (descriptor,))
    yield Rule("sendto", errno.EPERM, (descriptor, _is_not(4, 0)))
    for call in ("socket", "socketpair"):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
            yield Rule(call, errno.EPERM, (_is_int(1, kind, _SOCK_TYPE_MASK),))


def build(machine: str, name: str) -> bytes | None:
    """The filter as an array of struct sock_filter; None for a machine not known here."""
    arch = _ARCHES.get(machine)
    if arch is None:
        return None
    # What libseccomp holds possible it finds out on the kernel it runs on, which need not be the
    # one that the filter is for: an emulated system has no seccomp(2).
    pyseccomp.set_api(_API)
    program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    native = pyseccomp.system_arch()
    if arch != native:
        program.add_arch(arch)
        program.remove_arch(native)
    program.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    program.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, _OPTIMIZE_BINARY_TREE)
    unknown = list[int]()
    for rule in rules(name):
        number = pyseccomp.resolve_syscall(arch, rule.call)
        if number == -1:  # __NR_SCMP_ERROR
            unknown.append(_NEWER_THAN_LIBSECCOMP[rule.call])
        elif number >= 0:  # else this architecture has no such call
            where = (_argument(comparison) for comparison in rule.where)
            program.add_rule(pyseccomp.ERRNO(rule.errno), rule.call, *where)
    ioctl = pyseccomp.resolve_syscall(arch, "ioctl")
    with os.fdopen(os.memfd_create(name), "r+b") as file:
        program.export_bpf(file)
        file.seek(0)
        return _prologue(arch, unknown, ioctl) + file.read()


def _argument(comparison: Comparison) -> pyseccomp.Arg:
    argument, op, operand, mask = comparison
    if op == pyseccomp.MASKED_EQ:
        return pyseccomp.Arg(argument, op, mask, operand)
    return pyseccomp.Arg(argument, op, operand)


def _prologue(arch: int, refused: list[int], ioctl: int) -> bytes:
    """BPF to stand before libseccomp's own program, for what that cannot say.

    refused: calls it has no name for. ioctl: its number; an argument takes one comparison only.
    """
    load, jump_if_equal, mask, give = 0x20, 0x15, 0x54, 0x06  # linux/bpf_common.h
    number_at, arch_at, request_at = 0, 4, 24  # struct seccomp_data; little-endian: the lower half
    lines: list[tuple[int, int, str | None, str | None]] = [
        (load, arch_at, None, None),
        (jump_if_equal, arch, None, "pass"),
        (load, number_at, None, None),
        *((jump_if_equal, number, "refuse", None) for number in refused),
        (jump_if_equal, ioctl, None, "pass"),
        (load, request_at, None, None),
        *((jump_if_equal, request, "refuse", None) for request in ioctls.REFUSED),
        *((jump_if_equal, request, "pass", None) for request in ioctls.HARMLESS),
        (mask, ioctls.TYPE_MASK, None, None),
        *((jump_if_equal, kind, "refuse", None) for kind in ioctls.FILE_SYSTEMS[:-1]),
        (jump_if_equal, ioctls.FILE_SYSTEMS[-1], None, "pass"),
        (give, pyseccomp.ERRNO(errno.EPERM), None, None),
    ]
    places = {None: 0, "refuse": len(lines) - 1, "pass": len(lines)}

    def skip(at: int, to: str | None) -> int:
        return 0 if to is None else places[to] - at - 1

    return b"".join(
        struct.pack("=HBBI", code, skip(at, yes), skip(at, no), operand)
        for at, (code, operand, yes, no) in enumerate(lines)
    )
