"""Which filter a policy gets, and that the shipped bytes are the built ones."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool.sandbox import filters, landlock_package, precompute, prepared, seccomp
from codex_multitool.sandbox.policy import (
    DANGER_FULL_ACCESS,
    EXTERNAL_SANDBOX,
    READ_ONLY,
    WORKSPACE_WRITE,
    SandboxPolicy,
)


@pytest.mark.parametrize("abi", range(12))
def test_the_choice(abi: int) -> None:
    sockets = "unix" if abi >= 9 else "pairs"
    kept = "+no-truncate" if abi in (1, 2) else ""
    expected = {
        (READ_ONLY, False): sockets + "+read-only" + kept,
        (READ_ONLY, True): "network+read-only" + kept,
        (WORKSPACE_WRITE, False): sockets + kept,
        (WORKSPACE_WRITE, True): "network" + kept,
        (EXTERNAL_SANDBOX, False): "pairs",  # Landlock is not used there
        (EXTERNAL_SANDBOX, True): None,
        (DANGER_FULL_ACCESS, False): None,
        (DANGER_FULL_ACCESS, True): None,
    }
    for (kind, network), name in expected.items():
        chosen = filters.filter_name(SandboxPolicy(kind, network_access=network), abi)
        assert chosen == name
        assert chosen is None or chosen in filters.NAMES


def test_the_checkout_carries_no_prepared_data() -> None:
    assert prepared.FILTERS == {}
    assert prepared.LANDLOCK_FS == {}


def test_a_filter_is_built_once_per_machine_and_name() -> None:
    first = filters.filter_bytes("x86_64", "pairs")
    assert first == seccomp.build("x86_64", "pairs")
    assert filters.filter_bytes("x86_64", "pairs") is first
    assert filters.filter_bytes("aarch64", "pairs") != first
    assert filters.filter_bytes("m68k", "pairs") is None


def test_the_prepared_module_holds_what_the_packages_say(tmp_path: Path) -> None:
    out = tmp_path / "prepared.py"
    subprocess.run(
        [sys.executable, "-m", "codex_multitool.sandbox.precompute", out],
        cwd=Path(__file__).resolve().parents[2],
        check=True,
    )
    names = runpy.run_path(str(out))
    machine = os.uname().machine
    assert names["LANDLOCK_FS"] == landlock_package.FS
    assert names["FILTERS"] == {
        (machine, name): seccomp.build(machine, name) for name in filters.NAMES
    }


def test_precomputing_needs_a_known_machine_and_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="m68k"):
        precompute.module("m68k")
    assert precompute.main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_filter_is_the_same_where_the_kernel_has_none() -> None:
    """As when a system is built under an emulator, which has no seccomp(2)."""
    script = """
import errno, os, sys, ctypes
import pyseccomp
program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
program.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "seccomp")
program.load()
from codex_multitool.sandbox import seccomp
sys.stdout.buffer.write(seccomp.build(os.uname().machine, "pairs"))
"""
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, check=True)
    assert ran.stdout == seccomp.build(os.uname().machine, "pairs")
