"""What a command may use in the kernel's terms, and what is told of one that used it up."""

import os
import resource
import signal

import pytest

from codex_multitool.config.limits import Limits
from codex_multitool.running.limits import ended_by, kernel_limits, process_limit

NONE = Limits(processes=None)


def test_without_limits_nothing_is_asked_of_the_kernel() -> None:
    assert kernel_limits(NONE) == process_limit(NONE) == ()


def test_each_limit_is_one_of_the_kernels() -> None:
    assert kernel_limits(Limits(1 << 30, None, 5, 7000, 64)) == (
        (resource.RLIMIT_DATA, 1 << 30, 1 << 30),
        (resource.RLIMIT_CPU, 5, 7),
        (resource.RLIMIT_FSIZE, 7000, 7000),
        (resource.RLIMIT_NOFILE, 64, 64),
    )


def test_processes_count_beyond_those_there_are() -> None:
    ((kind, soft, hard),) = process_limit(Limits(processes=10))
    assert kind == resource.RLIMIT_NPROC
    assert soft == hard
    processes = sum(name.isdecimal() for name in os.listdir("/proc"))
    assert soft > 10 + processes // 2  # some may have ended meanwhile


def test_a_limit_of_processes_that_lasts_is_the_same_though_some_come_and_go() -> None:
    ((_, most, _),) = process_limit(Limits(processes=10))
    ((_, lasting, _),) = process_limit(Limits(processes=10), lasting=True)
    assert (lasting - 10) % 256 == 0
    assert most - 64 <= lasting < most + 256 + 64  # others may begin or end meanwhile


def test_the_largest_values_fit_the_kernel() -> None:
    largest = (1 << 63) - 1
    limits = Limits(largest, largest, largest, largest, largest)
    for kind, soft, hard in (*kernel_limits(limits), *process_limit(limits)):
        assert soft <= hard <= largest, kind


SET = Limits(cpu_seconds=5, file_size=7000)


@pytest.mark.parametrize("status", [signal.SIGXCPU, (128 + signal.SIGXCPU) << 8])
def test_a_limit_that_ends_a_command_is_named(status: int) -> None:
    told = ended_by(SET, status)
    assert (
        told == "ended by SIGXCPU, at its limit `codex_multitool.max_cpu_seconds`: 5 s of CPU time"
    )
    assert ended_by(NONE, status) is None


def test_so_is_the_limit_of_files() -> None:
    told = ended_by(SET, (128 + signal.SIGXFSZ) << 8)
    assert told is not None
    assert "`codex_multitool.max_file_size`: files of 7000 bytes" in told


@pytest.mark.parametrize("status", [0, 1 << 8, 255 << 8, 128 << 8, signal.SIGKILL, 64])
def test_any_other_end_is_not_a_limits(status: int) -> None:
    assert ended_by(SET, status) is None


@pytest.mark.parametrize("status", [signal.SIGSYS, (128 + signal.SIGSYS) << 8])
def test_a_call_of_another_architecture_is_told(status: int) -> None:
    assert "another architecture" in str(ended_by(NONE, status))
