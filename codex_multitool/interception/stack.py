"""LEAF: what the kernel has laid on a new program's stack: create_elf_tables, fs/binfmt_elf.c.

From the stack pointer up: argc, the pointers to argv, a null, those to envp, a null, the auxiliary
vector of getauxval(3); then their strings, those of argv in one piece. AT_EXECFN points to the path
that was executed, copied before it was opened. The memory is the new program's alone: at its exec
stop nobody else has written there.
"""

import struct

from codex_multitool.interception.kernel import (
    MOST_BYTES,
    KernelError,
    process_vm_readv,
    stack_pointer,
)

_PAGE = 4096
_WORD = 8
# All but the strings: of most programs, of nearly all. Beyond that it tells nothing.
_SIZES = (2048, MOST_BYTES // 2)
_AT_NULL, _AT_EXECFN = 0, 31  # include/uapi/linux/auxvec.h


def executed_as(tid: int, path: bytes, argc: int, command_line: bytes) -> bool:
    """Whether the thread, at its exec stop, was executed by this path, with these arguments.

    command_line: the arguments, each with its NUL. False, too, where that is not to be seen: of
    another architecture's program, of one that may not be read, of an endless environment.
    """
    try:
        stack = stack_pointer(tid)
        for size in _SIZES:
            places = find(_words(tid, stack, size), argc)
            if places is not None:
                first, name = places
                wanted = (first, len(command_line)), (name, len(path) + 1)
                return process_vm_readv(tid, wanted) == command_line + path + b"\0"
    except KernelError:
        pass
    return False


def find(words: tuple[int, ...], argc: int) -> tuple[int, int] | None:
    """Where argv's strings and AT_EXECFN's are; None if argc is another, or there are more words.

    words: what lies on the stack, from its pointer on.
    """
    try:
        if words[0] != argc or words[1 + argc] != 0:
            return None
        vector = words.index(0, 2 + argc) + 1
        keys = words[vector::2]
        execfn = keys.index(_AT_EXECFN, 0, keys.index(_AT_NULL))
        return words[1], words[vector + 2 * execfn + 1]
    except (IndexError, ValueError):
        return None


def _words(tid: int, address: int, size: int) -> tuple[int, ...]:
    """The words from `address` on, fewer where the stack ends."""
    end = address + size
    starts = (address, *range((address & -_PAGE) + _PAGE, end, _PAGE))
    pieces = [(at, min(end, (at & -_PAGE) + _PAGE) - at) for at in starts]
    text = process_vm_readv(tid, pieces)
    count = len(text) // _WORD
    return struct.unpack_from(f"={count}Q", text)
