"""Registers are changed where they should be, and nowhere else."""

from __future__ import annotations

import struct

import pytest

from codex_multitool.interception.architecture import (
    AARCH64,
    X86_64,
    Architecture,
    architecture,
)

# sys/user.h and asm/ptrace.h, in the kernel's order.
X86_64_NAMES = [
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx"),
    *("rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base"),
    *("ds", "es", "fs", "gs"),
]
AARCH64_NAMES = [*(f"x{n}" for n in range(31)), "sp", "pc", "pstate"]
BOTH = pytest.mark.parametrize(
    ("machine", "names"), [(X86_64, X86_64_NAMES), (AARCH64, AARCH64_NAMES)]
)


def _registers(names: list[str]) -> bytes:
    return struct.pack(f"={len(names)}Q", *range(1000, 1000 + len(names)))


def _changes(names: list[str], after: bytes) -> dict[str, int]:
    words = zip(names, struct.unpack(f"={len(names)}Q", after), strict=True)
    return {name: word for n, (name, word) in enumerate(words) if word != 1000 + n}


def test_a_call_on_x86_64_is_two_bytes_back_and_restarts_nothing() -> None:
    changed = X86_64.calling(_registers(X86_64_NAMES), 0x400002, 322, (3, 4, 5, 6, 0x1000))
    assert _changes(X86_64_NAMES, changed) == {
        "rax": 322,
        "rdi": 3,
        "rsi": 4,
        "rdx": 5,
        "r10": 6,
        "r8": 0x1000,
        "rip": 0x400000,
        "orig_rax": (1 << 64) - 1,
    }


def test_a_call_on_aarch64_is_four_bytes_back() -> None:
    changed = AARCH64.calling(_registers(AARCH64_NAMES), 0x400004, 281, (-100, 4, 5, 6, 0x1000))
    assert _changes(AARCH64_NAMES, changed) == {
        "x8": 281,
        "x0": (1 << 64) - 100,
        "x1": 4,
        "x2": 5,
        "x3": 6,
        "x4": 0x1000,
        "pc": 0x400000,
    }


@BOTH
def test_a_result_is_read_as_a_signed_number(machine: Architecture, names: list[str]) -> None:
    name = "rax" if machine is X86_64 else "x0"
    words = list(struct.unpack(f"={len(names)}Q", _registers(names)))
    words[names.index(name)] = (1 << 64) - 2
    assert machine.result_of(struct.pack(f"={len(names)}Q", *words)) == -2
    assert machine.result_of(_registers(names)) == 1000 + names.index(name)


@BOTH
def test_a_thread_is_at_its_call_behind_it_or_wound_back(
    machine: Architecture, names: list[str]
) -> None:
    at = 1000 + names.index("rip" if machine is X86_64 else "pc")
    registers = _registers(names)
    assert machine.at_call(registers, at)
    assert machine.at_call(registers, at + machine.step)
    assert not machine.at_call(registers, at + 100)


def test_other_machines_have_no_interception() -> None:
    assert architecture("riscv64") is None
    assert architecture("x86_64") is X86_64
