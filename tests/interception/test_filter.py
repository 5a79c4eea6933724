"""The filter's answers, by running it in a small BPF machine, and by the kernel itself."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path

import pytest

from codex_multitool.interception.architecture import AARCH64, X86_64, Architecture
from codex_multitool.interception.filter import ALLOW, KILL_PROCESS, USER_NOTIF, exec_filter
from tests.interception.supervise import Run, supervise

I386_AUDIT = 0x4000_0003
X32 = 0x4000_0000


def _answer(program: bytes, number: int, audit: int) -> int:
    """What the program returns for a call; only the instructions it uses are understood."""
    memory = {0: number, 4: audit}
    lines = list(struct.iter_unpack("=HBBI", program))
    at, accumulator = 0, 0
    while True:
        code, yes, no, operand = lines[at]
        at += 1
        if code == 0x20:
            accumulator = memory[operand]
        elif code == 0x15:
            at += yes if accumulator == operand else no
        elif code == 0x45:
            at += yes if accumulator & operand else no
        elif code == 0x05:
            at += operand
        elif code == 0x06:
            return int(operand)
        else:
            raise AssertionError(hex(code))


@pytest.mark.parametrize(
    ("machine", "number", "audit", "answer"),
    [
        (X86_64, 59, X86_64.audit, USER_NOTIF),
        (X86_64, 322, X86_64.audit, USER_NOTIF),
        (X86_64, 0, X86_64.audit, ALLOW),
        (X86_64, 231, X86_64.audit, ALLOW),
        (X86_64, 221, X86_64.audit, ALLOW),
        (X86_64, 59 | X32, X86_64.audit, KILL_PROCESS),
        (X86_64, 520 | X32, X86_64.audit, KILL_PROCESS),
        (X86_64, 0xFFFF_FFFF, X86_64.audit, KILL_PROCESS),
        (X86_64, 11, I386_AUDIT, KILL_PROCESS),
        (X86_64, 59, AARCH64.audit, KILL_PROCESS),
        (AARCH64, 221, AARCH64.audit, USER_NOTIF),
        (AARCH64, 281, AARCH64.audit, USER_NOTIF),
        (AARCH64, 59, AARCH64.audit, ALLOW),
        (AARCH64, 221, 0x4000_0028, KILL_PROCESS),
    ],
)
def test_only_native_execs_are_notified(
    machine: Architecture, number: int, audit: int, answer: int
) -> None:
    assert _answer(exec_filter(machine), number, audit) == answer


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_what_follows_decides_about_all_but_execs(machine: Architecture) -> None:
    refused = 0x0005_0001  # SECCOMP_RET_ERRNO | EPERM
    program = exec_filter(machine, followed=True) + struct.pack("=HBBI", 0x06, 0, 0, refused)
    for number in (machine.execve, machine.execveat):
        assert _answer(program, number, machine.audit) == USER_NOTIF
    for number in (0, machine.exit_group, machine.seccomp):
        assert _answer(program, number, machine.audit) == refused
    assert _answer(program, machine.execve, I386_AUDIT) == KILL_PROCESS
    if machine.foreign_bit:
        assert _answer(program, X32 | machine.execve, machine.audit) == KILL_PROCESS


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="int 0x80 and x32 are x86-64's")
@pytest.mark.parametrize("abi", ["i386", "x32"])
def test_an_exec_by_a_foreign_abi_dies(programs: Path, abi: str) -> None:
    finished = supervise([str(programs / "foreign"), abi], lambda _: Run())
    assert finished.status == -signal.SIGSYS
    assert finished.out == b"alive\n"
    assert len(finished.asked) == 1
