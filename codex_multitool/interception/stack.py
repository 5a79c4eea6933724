"""LEAF: what the kernel has laid on a new program's stack: create_elf_tables, fs/binfmt_elf.c.

From the stack pointer up: argc, the pointers to argv, a null, those to envp, a null, the auxiliary
vector of getauxval(3); then their strings, those of argv in one piece. AT_EXECFN points to the path
that was executed, copied before it was opened. The memory is the new program's alone: at its exec
stop nobody else has written there.
"""

from collections.abc import Sequence

from codex_multitool.interception.kernel import KernelError, process_vm_readv, stack_pointer

_PAGE = 4096
_WORD = 8
# Of all but the strings, which lie a random way above: of most programs, of many, of nearly all.
_SIZES = (640, 2 * _PAGE, 16 * _PAGE)
_AT_NULL, _AT_EXECFN = 0, 31  # include/uapi/linux/auxvec.h


def executed_as(tid: int, path: bytes, command_line: bytes) -> bool:
    """Whether the thread, at its exec stop, was executed by this path, with these arguments.

    command_line: the arguments, each with its NUL. False, too, where that is not to be seen: of
    another architecture's program, of one that may not be read, of an endless environment.
    """
    try:
        pointer = stack_pointer(tid)
    except KernelError:
        return False
    argc = command_line.count(b"\0")
    for size in _SIZES:
        places = find(_words(tid, pointer, size), argc)
        if places is not None:
            first, name = places
            shown = process_vm_readv(tid, first, len(command_line), name, len(path) + 1)
            return shown == command_line + path + b"\0"
    return False


def find(words: Sequence[int], argc: int) -> tuple[int, int] | None:
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


def _words(tid: int, address: int, size: int) -> list[int]:
    """The words from `address` on, fewer where the stack ends."""
    within = min(size, _PAGE - address % _PAGE)
    pieces = [address, within]
    for more in range(within, size, _PAGE):
        pieces += address + more, min(size - more, _PAGE)
    content = process_vm_readv(tid, *pieces)
    return memoryview(content[: len(content) & -_WORD]).cast("Q").tolist()
