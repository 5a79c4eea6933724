"""What differs between the machines: system call numbers and registers — pure.

Registers are the bytes of the NT_PRSTATUS regset: struct user_regs_struct on x86-64 (sys/user.h),
struct user_pt_regs on aarch64 (asm/ptrace.h); all their members are 64-bit words.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

# Of our filters all but this one answer with an errno: seccomp(2).
FOREIGN = "SIGSYS ends what makes system calls of another architecture, like i386"

_WORD = 0xFFFF_FFFF_FFFF_FFFF


class Architecture(NamedTuple):
    """One machine.

    audit: its AUDIT_ARCH. result, number, arguments, instruction: where these are in the
    registers, as indices of words. restart: the word that tells the kernel which interrupted call
    to restart (orig_rax), None where the registers do not show it. step: bytes of the system call
    instruction. foreign_bit: in the call's number, what marks another ABI of the same audit value.
    """

    audit: int
    execve: int
    execveat: int
    exit_group: int
    seccomp: int
    words: int
    result: int
    number: int
    arguments: tuple[int, int, int, int, int, int]
    instruction: int
    restart: int | None
    step: int
    foreign_bit: int

    def calling(self, registers: bytes, after: int, number: int, arguments: Sequence[int]) -> bytes:
        """`registers` changed so that the thread's next instruction is this system call.

        after: address of the instruction that follows a system call instruction.
        """
        words = self._unpack(registers)
        words[self.number] = number
        for index, value in zip(self.arguments, arguments, strict=False):
            words[index] = value & _WORD
        words[self.instruction] = after - self.step
        if self.restart is not None:
            words[self.restart] = _WORD  # -1: no call to restart
        return self._pack(words)

    def returning(self, registers: bytes, after: int, result: int) -> bytes:
        """`registers` changed so that the system call before `after` has returned `result`."""
        words = self._unpack(registers)
        words[self.result] = result & _WORD
        words[self.instruction] = after
        if self.restart is not None:
            words[self.restart] = _WORD
        return self._pack(words)

    def at_call(self, registers: bytes, after: int) -> bool:
        """Whether the thread is at this system call: behind it, or wound back to redo it."""
        return self._unpack(registers)[self.instruction] in (after, after - self.step)

    def result_of(self, registers: bytes) -> int:
        """The result register, as the signed number a system call returns."""
        word = self._unpack(registers)[self.result]
        return word - (1 << 64) if word >> 63 else word

    def _unpack(self, registers: bytes) -> list[int]:
        return list(struct.unpack(f"={self.words}Q", registers))

    def _pack(self, words: list[int]) -> bytes:
        return struct.pack(f"={self.words}Q", *words)


X86_64 = Architecture(
    audit=0xC000_003E,
    execve=59,
    execveat=322,
    exit_group=231,
    seccomp=317,
    words=27,
    result=10,
    number=10,
    arguments=(14, 13, 12, 7, 9, 8),  # rdi rsi rdx r10 r8 r9
    instruction=16,
    restart=15,
    step=2,
    foreign_bit=0x4000_0000,  # __X32_SYSCALL_BIT
)

AARCH64 = Architecture(
    audit=0xC000_00B7,
    execve=221,
    execveat=281,
    exit_group=94,
    seccomp=277,
    words=34,
    result=0,
    number=8,
    arguments=(0, 1, 2, 3, 4, 5),
    instruction=32,
    restart=None,
    step=4,
    foreign_bit=0,
)

ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64}  # by uname(2) machine


def architecture(machine: str) -> Architecture | None:
    """The architecture of this uname(2) machine; None where interception is not available."""
    return ARCHITECTURES.get(machine)
