"""prepare(): what it makes, what it reports, and that it leaves no descriptor behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool.sandbox.enforce import prepare
from codex_multitool.sandbox.filters import filter_bytes
from codex_multitool.sandbox.policy import (
    DANGER_FULL_ACCESS,
    EXTERNAL_SANDBOX,
    READ_ONLY,
    WORKSPACE_WRITE,
    SandboxPolicy,
)
from codex_multitool.sandbox.status import ABSENT, REFUSED, WRITABLE_ROOT
from tests.sandbox.confined import ROOT, landlock_abi, require_abi

pytestmark = require_abi(3)

OFF = {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_confinement_owns_one_descriptor(tmp_path: Path) -> None:
    before = open_descriptors()
    confinement = prepare(SandboxPolicy(WORKSPACE_WRITE), [str(tmp_path), "/tmp"])
    assert confinement.ruleset is not None
    assert not os.get_inheritable(confinement.ruleset)
    assert len(open_descriptors()) == len(before) + 1
    confinement.close()
    confinement.close()
    assert open_descriptors() == before


def test_what_each_policy_needs() -> None:
    machine = os.uname().machine
    pairs = "pairs" if landlock_abi() < 9 else "unix"
    cases = [
        (SandboxPolicy(READ_ONLY), True, f"{pairs}+read-only", OFF),
        (SandboxPolicy(READ_ONLY, network_access=True), True, "network+read-only", {}),
        (SandboxPolicy(WORKSPACE_WRITE), True, pairs, OFF),
        (SandboxPolicy(WORKSPACE_WRITE, network_access=True), True, "network", {}),
        (SandboxPolicy(EXTERNAL_SANDBOX), False, "pairs", OFF),
        (SandboxPolicy(EXTERNAL_SANDBOX, network_access=True), False, None, {}),
        (SandboxPolicy(DANGER_FULL_ACCESS), False, None, {}),
    ]
    for policy, landlocked, name, environment in cases:
        confinement = prepare(policy, ())
        assert (confinement.ruleset is not None) == landlocked
        assert confinement.filter == (name and filter_bytes(machine, name))
        assert confinement.environment == environment
        confinement.close()


def test_a_root_that_is_not_granted_is_reported(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "out").symlink_to("/")
    roots = [str(inside), str(tmp_path / "missing"), str(inside / "out")]
    before = open_descriptors()
    confinement = prepare(SandboxPolicy(WORKSPACE_WRITE), roots)
    found = [entry for entry in confinement.status if entry.name == WRITABLE_ROOT]
    assert [entry.state for entry in found] == [ABSENT, REFUSED]
    assert found[0].detail == f"{tmp_path}/missing: No such file or directory"
    assert found[1].detail.startswith(f"{inside}/out: a symbolic link inside {inside} leads out")
    confinement.close()
    assert open_descriptors() == before


def test_a_root_out_of_reach_is_reported() -> None:
    confinement = prepare(SandboxPolicy(WORKSPACE_WRITE), ["/etc/passwd/beneath", "/" + "a" * 300])
    details = [entry.detail for entry in confinement.status if entry.name == WRITABLE_ROOT]
    assert [detail.partition(": ")[2] for detail in details] == [
        "Not a directory",
        "File name too long",
    ]
    confinement.close()


def test_many_roots_cost_no_descriptors(tmp_path: Path) -> None:
    folders = [tmp_path / str(index) for index in range(200)]
    for folder in folders:
        folder.mkdir()
    before = open_descriptors()
    for _ in range(5):
        prepare(SandboxPolicy(WORKSPACE_WRITE), list(map(str, folders))).close()
    assert open_descriptors() == before


def test_the_report_is_about_this_kernel() -> None:
    confinement = prepare(SandboxPolicy(READ_ONLY), ())
    states = {entry.name: entry.state for entry in confinement.status}
    assert states["file-writes"] == states["file-metadata"] == states["network"] == "enforced"
    assert states["signals"] == ("enforced" if landlock_abi() >= 6 else "absent")
    assert "file-writes" in repr(confinement.status[0])
    confinement.close()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("ruleset=-1", "landlock_restrict_self: Bad file descriptor"),
        ("filter=bytes(8)", "seccomp: Invalid argument"),
    ],
)
def test_restrict_says_which_call_failed(broken: str, message: str) -> None:
    script = f"""
from codex_multitool.sandbox.enforce import Confinement, SandboxError, restrict
try:
    restrict(Confinement({broken}))
except SandboxError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{message}\n"
