"""(policy, roots, ABI) -> what to ask of Landlock. Plain data; no system call is made here.

Rights are handled as far as the kernel's ABI goes (linux/landlock.h) and granted by hierarchy:
what a rule gives, everything beneath its path has. Reading is never limited. The `landlock`
package gives the file system rights up to ABI 5, what came later stands here.
"""

import sys

from codex_multitool.sandbox import prepared
from codex_multitool.sandbox.policy import WORKSPACE_WRITE, SandboxPolicy

if prepared.LANDLOCK_FS:
    _FS = prepared.LANDLOCK_FS
else:
    from codex_multitool.sandbox.landlock_package import FS as _FS

NEWEST_ABI = 10

EXECUTE = _FS["EXECUTE"]
WRITE_FILE = _FS["WRITE_FILE"]
READ_FILE = _FS["READ_FILE"]
READ_DIR = _FS["READ_DIR"]
REMOVE_DIR = _FS["REMOVE_DIR"]
REMOVE_FILE = _FS["REMOVE_FILE"]
MAKE_CHAR = _FS["MAKE_CHAR"]
MAKE_DIR = _FS["MAKE_DIR"]
MAKE_REG = _FS["MAKE_REG"]
MAKE_SOCK = _FS["MAKE_SOCK"]
MAKE_FIFO = _FS["MAKE_FIFO"]
MAKE_BLOCK = _FS["MAKE_BLOCK"]
MAKE_SYM = _FS["MAKE_SYM"]
REFER = _FS["REFER"]
TRUNCATE = _FS["TRUNCATE"]
IOCTL_DEV = _FS["IOCTL_DEV"]
RESOLVE_UNIX = 1 << 16

NET_BIND_TCP = 1 << 0
NET_CONNECT_TCP = 1 << 1
NET_BIND_UDP = 1 << 2
NET_CONNECT_SEND_UDP = 1 << 3

SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0
SCOPE_SIGNAL = 1 << 1

RESTRICT_SELF_LOG_NEW_EXEC_ON = 1 << 1

_READ = EXECUTE | READ_FILE | READ_DIR

_FS_BY_ABI = (
    (
        1,
        _READ
        | WRITE_FILE
        | (REMOVE_DIR | REMOVE_FILE)
        | (MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM),
    ),
    (2, REFER),
    (3, TRUNCATE),
    (5, IOCTL_DEV),
)
# A device node that a root process makes in its workspace would be the disk itself: no writable
# root gives MAKE_CHAR or MAKE_BLOCK, and no ordinary program asks for them.
_ROOT = (_READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | REFER | TRUNCATE | IOCTL_DEV) | (
    MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
)

# The rights that a rule on anything but a directory may name; others are EINVAL.
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX

# Nodes that keep nothing and show nobody anything, and the caller's own terminal, which the
# command has on its standard streams anyway. IOCTL_DEV lets isatty(3) and tcsetattr(3) answer as
# programs expect; the ioctls of the random devices are for administrators.
_DEVICES = (
    ("/dev/null", READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV),
    ("/dev/zero", READ_FILE | WRITE_FILE | IOCTL_DEV),
    ("/dev/full", READ_FILE | WRITE_FILE | IOCTL_DEV),
    ("/dev/random", READ_FILE | WRITE_FILE),
    ("/dev/urandom", READ_FILE | WRITE_FILE),
    ("/dev/tty", READ_FILE | WRITE_FILE | IOCTL_DEV),
)

# What workspace-write gives beyond its roots, so that openpty(3), sem_open(3) and shm_open(3)
# work. Both reach others of the same user, and no rule could be narrower: openpty needs write and
# ioctl on the slave, whose node does not exist yet, so only the directory can be named, and with
# it the user's other terminals (TIOCSTI is refused by the filter). read-only gives neither.
_SHARED = (
    ("/dev/ptmx", READ_FILE | WRITE_FILE | IOCTL_DEV),
    ("/dev/pts", READ_FILE | WRITE_FILE | IOCTL_DEV),
    ("/dev/shm", READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | REMOVE_FILE),
)


class Plan:
    """A ruleset and the flags to restrict with. `fixed` paths may be absent; so may `roots`."""

    __slots__ = ("fixed", "handled_fs", "handled_net", "restrict_flags", "roots", "scoped")

    def __init__(
        self,
        handled_fs: int,
        handled_net: int,
        scoped: int,
        restrict_flags: int,
        fixed: tuple[tuple[str, int], ...],
        roots: tuple[tuple[str, int], ...],
    ) -> None:
        self.handled_fs = handled_fs
        self.handled_net = handled_net
        self.scoped = scoped
        self.restrict_flags = restrict_flags
        self.fixed = fixed
        self.roots = roots

    def attributes(self) -> bytes:
        """struct landlock_ruleset_attr; a kernel with a shorter one takes zeros after its end."""
        fields = (self.handled_fs, self.handled_net, self.scoped)
        return b"".join(field.to_bytes(8, sys.byteorder) for field in fields)


def path_beneath(rights: int, descriptor: int) -> bytes:
    """struct landlock_path_beneath_attr, which is packed."""
    return rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)


def plan(policy: SandboxPolicy, roots: tuple[str, ...], abi: int) -> Plan | None:
    """What to ask of a kernel with this ABI; None if nothing can be or is to be limited.

    The errata of a kernel change nothing here: each known one limits more than it should.
    """
    if policy.full_write or abi < 1:
        return None
    handled = sum(rights for since, rights in _FS_BY_ABI if since <= abi)
    fixed = (("/", _READ), *_DEVICES, *(_SHARED if policy.kind == WORKSPACE_WRITE else ()))
    return Plan(
        # Handled and granted nowhere: a socket file bound inside the domain stays reachable, one
        # that others bound (docker.sock, D-Bus, ssh-agent) does not.
        handled | (RESOLVE_UNIX if guards_unix_sockets(policy, abi) else 0),
        0 if policy.full_network else _net(abi),
        SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL if abi >= 6 else 0,
        # Denials are logged once the command is exec'ed, or the log would never show one.
        RESTRICT_SELF_LOG_NEW_EXEC_ON if abi >= 7 else 0,
        tuple((path, rights & handled) for path, rights in fixed),
        tuple((path, _ROOT & handled) for path in roots),
    )


def guards_unix_sockets(policy: SandboxPolicy, abi: int) -> bool:
    """Whether Landlock itself keeps a command without network from sockets of outside."""
    return abi >= 9 and not policy.full_network and not policy.full_write


def sees_truncation(policy: SandboxPolicy, abi: int) -> bool:
    """Whether Landlock itself keeps a command from emptying files, as far as the policy asks."""
    return policy.full_write or abi >= 3 or abi < 1


def _net(abi: int) -> int:
    tcp = NET_BIND_TCP | NET_CONNECT_TCP if abi >= 4 else 0
    return tcp | (NET_BIND_UDP | NET_CONNECT_SEND_UDP if abi >= 10 else 0)
