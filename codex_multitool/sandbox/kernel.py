"""Raw system calls: one function per call, no opinions.

Success is judged by the return value; errno is read only after a failure. What an error means
is the caller's business. Pointers go in as `bytes`, which the caller keeps alive.
"""

import os
import sys

# `ctypes` would import struct, types and forty C types, 2.7 ms of a start of 15 ms, to reach the
# same few names.
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_USE_ERRNO, Array, CFuncPtr, _SimpleCData, dlopen, dlsym
from _ctypes import get_errno as _get_errno

LANDLOCK_CREATE_RULESET_VERSION = 1 << 0
LANDLOCK_CREATE_RULESET_ERRATA = 1 << 1
LANDLOCK_RULE_PATH_BENEATH = 1

SECCOMP_SET_MODE_FILTER = 1
SECCOMP_GET_ACTION_AVAIL = 2
SECCOMP_RET_ERRNO = 0x00050000

# Landlock came with the unified table (Linux 5.13): the same numbers on every architecture.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PRCTL = {"x86_64": 157, "aarch64": 167}
_PR_CAPBSET_DROP = 24
_CAPGET = {"x86_64": 125, "aarch64": 90}
_CAPSET = {"x86_64": 126, "aarch64": 91}

# struct __user_cap_header_struct: _LINUX_CAPABILITY_VERSION_3, and 0 for the calling thread.
_CAPABILITIES_OF_THIS_THREAD = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)

_ENOSYS = 38


class KernelError(Exception):
    """A system call failed."""

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: {os.strerror(errno)}")
        self.call = call
        self.errno = errno


class _Long(_SimpleCData):  # type: ignore[type-arg]  # not subscriptable when run
    _type_ = "l"


class _Pointer(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Word(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "I"


class _SixWords(Array):  # type: ignore[type-arg]
    _type_ = _Word
    _length_ = 6


class _Function(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Long


_syscall: _Function | None = None


def load() -> _Function:
    """Find syscall(2), as the first call does: for a process whose forks shall not have to."""
    global _syscall
    if _syscall is None:
        program = dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]  # dlopen(3): NULL, ourselves
        _syscall = _Function(dlsym(program, "syscall"))
    return _syscall


def _call(name: str, number: int, *arguments: int | bytes | _SixWords | None) -> int:
    """syscall(2); integers are passed as long, so none is cut to 32 bits."""
    words = [_Long(word) if isinstance(word, int) else word for word in arguments]
    result = int((_syscall or load())(_Long(number), *words))
    if result < 0:
        raise KernelError(name, _get_errno())
    return result


def landlock_create_ruleset(attributes: bytes | None, flags: int) -> int:
    """landlock_create_ruleset(2): a ruleset descriptor (close-on-exec), or what `flags` asks."""
    size = 0 if attributes is None else len(attributes)
    return _call("landlock_create_ruleset", _LANDLOCK_CREATE_RULESET, attributes, size, flags)


def landlock_add_rule(ruleset: int, rule_type: int, attributes: bytes, flags: int = 0) -> None:
    """landlock_add_rule(2)."""
    _call("landlock_add_rule", _LANDLOCK_ADD_RULE, ruleset, rule_type, attributes, flags)


def landlock_restrict_self(ruleset: int, flags: int) -> None:
    """landlock_restrict_self(2)."""
    _call("landlock_restrict_self", _LANDLOCK_RESTRICT_SELF, ruleset, flags)


def seccomp_get_action_avail(action: int) -> None:
    """seccomp(2) SECCOMP_GET_ACTION_AVAIL: returns if filters may answer so."""
    _call(
        "seccomp", _seccomp_number(), SECCOMP_GET_ACTION_AVAIL, 0, action.to_bytes(4, sys.byteorder)
    )


def seccomp_set_mode_filter(program: bytes, flags: int) -> int:
    """seccomp(2) SECCOMP_SET_MODE_FILTER: 0, or the listener's descriptor if `flags` asks it.

    program: an array of struct sock_filter.
    """
    # struct sock_fprog: unsigned short len, padding to the pointer's alignment, pointer.
    pointer = bytes(_Pointer(program))
    count = (len(program) // 8).to_bytes(2, sys.byteorder)
    fprog = count.ljust(len(pointer), b"\0") + pointer
    return _call("seccomp", _seccomp_number(), SECCOMP_SET_MODE_FILTER, flags, fprog)


def drop_from_bounding_set(capability: int) -> None:
    """prctl(2) PR_CAPBSET_DROP, of any number: python-prctl takes those that it knows."""
    _call("prctl", _number("prctl", _PRCTL), _PR_CAPBSET_DROP, capability, 0, 0, 0)


def capget() -> tuple[int, int, int]:
    """capget(2) of this thread: its effective, permitted and inheritable capabilities, as bits."""
    words = _SixWords()
    _call("capget", _number("capget", _CAPGET), _CAPABILITIES_OF_THIS_THREAD, words)
    low, high = words[:3], words[3:]
    effective, permitted, inheritable = (a | b << 32 for a, b in zip(low, high, strict=True))
    return effective, permitted, inheritable


def capset(effective: int, permitted: int, inheritable: int) -> None:
    """capset(2) for this thread."""
    sets = (effective, permitted, inheritable)
    data = b"".join(
        (each >> shift & 0xFFFF_FFFF).to_bytes(4, sys.byteorder)
        for shift in (0, 32)
        for each in sets
    )
    _call("capset", _number("capset", _CAPSET), _CAPABILITIES_OF_THIS_THREAD, data)


def _seccomp_number() -> int:
    return _number("seccomp", _SECCOMP)


def _number(call: str, numbers: dict[str, int]) -> int:
    number = numbers.get(os.uname().machine)
    if number is None or sys.maxsize < 1 << 32:  # a 32-bit process has other numbers
        raise KernelError(call, _ENOSYS)
    return number
