"""LEAF: a mount namespace of this process's own, in which some paths cannot be written."""

import ctypes
import os

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_SLAVE = 1 << 12, 1 << 14, 1 << 19  # linux/mount.h
_MOUNT_SETATTR = 442  # the same on every architecture
_MOUNT_ATTR_RDONLY = 1
_AT_FDCWD = -100
_PR_SET_DUMPABLE = 4

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def unshare_mounts() -> None:
    """Take a mount namespace, in a user namespace where that is what it takes; raises OSError.

    What is mounted outside from now on shows inside, nothing inside shows outside.
    """
    if _libc.unshare(_CLONE_NEWNS) < 0:
        user, group = os.getuid(), os.getgid()
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
        # A process closed to others of its user is closed to itself, too: proc(5).
        _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_long(1))
        # In this order: user_namespaces(7).
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_long(0))
    _check(_libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None))


def bind(path: bytes, *, read_only: bool) -> None:
    """Mount `path` onto itself, which keeps it in its place; raises OSError.

    Whoever can change it meanwhile cannot make it lead elsewhere.
    """
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        here = b"/proc/self/fd/%d" % fd
        if os.readlink(here) != path:
            raise FileNotFoundError(f"{os.fsdecode(path)} was replaced")
        _check(_libc.mount(here, here, None, ctypes.c_ulong(_MS_BIND), None))
    finally:
        os.close(fd)
    if read_only:
        wanted = _MountAttr(attr_set=_MOUNT_ATTR_RDONLY)
        number, directory, flags = map(ctypes.c_long, (_MOUNT_SETATTR, _AT_FDCWD, 0))
        size = ctypes.c_size_t(ctypes.sizeof(wanted))
        _check(_libc.syscall(number, directory, path, flags, ctypes.byref(wanted), size))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
