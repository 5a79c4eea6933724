"""The exec filter: every execve and execveat goes to the supervisor, all else passes — pure.

Classic BPF over struct seccomp_data, seccomp(2): `nr` at offset 0, `arch` at 4. A program that
speaks another architecture's system calls (int 0x80, x32) would have other numbers for execve,
so it is killed at its first call.
"""

import struct

from codex_multitool.interception.architecture import Architecture

_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_JUMP_SET = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_JUMP = 0x05  # BPF_JMP | BPF_JA
_RETURN = 0x06  # BPF_RET | BPF_K

_NUMBER, _ARCH = 0, 4

_ENDINGS = 2  # of the filter, behind which another may stand

KILL_PROCESS = 0x8000_0000
USER_NOTIF = 0x7FC0_0000
ALLOW = 0x7FFF_0000


def exec_filter(architecture: Architecture, *, followed: bool = False) -> bytes:
    """The filter as an array of struct sock_filter.

    followed: by another, which decides about all other calls and would let execs pass. One filter
    costs half of two: the kernel compiles each, and asks it about every system call there is.
    """
    body = [
        (_JUMP_EQUAL, architecture.execve, "notify", None),
        (_JUMP_EQUAL, architecture.execveat, "notify", None),
        (_JUMP, _ENDINGS, None, None) if followed else (_RETURN, ALLOW, None, None),
    ]
    if architecture.foreign_bit:
        body.insert(0, (_JUMP_SET, architecture.foreign_bit, "kill", None))
    return _assemble(
        [
            (_LOAD_WORD, _ARCH, None, None),
            (_JUMP_EQUAL, architecture.audit, None, "kill"),
            (_LOAD_WORD, _NUMBER, None, None),
            *body,
        ]
    )


def _assemble(body: list[tuple[int, int, str | None, str | None]]) -> bytes:
    """Body plus the two endings; a jump names its ending, None goes on to the next line."""
    labels = {"notify": len(body), "kill": len(body) + 1}
    lines = [*body, (_RETURN, USER_NOTIF, None, None), (_RETURN, KILL_PROCESS, None, None)]
    return b"".join(
        struct.pack("=HBBI", code, _skip(labels, at, yes), _skip(labels, at, no), operand)
        for at, (code, operand, yes, no) in enumerate(lines)
    )


def _skip(labels: dict[str, int], at: int, label: str | None) -> int:
    return 0 if label is None else labels[label] - at - 1
