"""The trial of kernel interception, as a process."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codex_multitool.running.probe import Probe
from tests.end_to_end.processes import wait_until
from tests.executables import ROOT
from tests.machine import kernel_refusal

# In a process of its own, which takes the one listener there may be, and lets everything pass.
TAKEN = """
import os, struct
from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.listener import install
from codex_multitool.running.probe import Probe
allow_all = struct.pack("=HBBI", 6, 0, 0, 0x7fff0000)
try:
    install(architecture(os.uname().machine), allow_all)
except Exception:
    import _prctl
    _prctl.prctl(_prctl.PR_SET_NO_NEW_PRIVS, 1)
    install(architecture(os.uname().machine), allow_all)
print(Probe().refusal())
"""


ENDED = (["(codex-trial)", "Z"], ["(codex-trial)", "X"])


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def children() -> bytes:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_bytes()


def test_it_leaves_nothing_behind() -> None:
    before = descriptors(), children()
    Probe().refusal()
    assert (descriptors(), children()) == before


def test_one_that_is_not_asked_is_ended() -> None:
    before = descriptors(), children()
    probe = Probe()
    probe.close()
    probe.close()
    assert (descriptors(), children()) == before


def trials() -> set[str]:
    """Process ids of what trials are made of, but for what has ended: proc_pid_stat(5)."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if (text := stat.read_text()).split()[1:3] not in ENDED and "(codex-trial)" in text:
                found.add(stat.parent.name)
    return found


def test_one_that_is_ended_whenever_leaves_no_orphan() -> None:
    before = trials()
    for turn in range(300):
        probe = Probe()
        time.sleep(turn % 100 * 0.00005)  # all the while in which it forks
        probe.close()
    wait_until(lambda: trials() <= before, "the end of all that the trials began")


def test_a_listener_around_us_is_named() -> None:
    if kernel_refusal() is not None:
        pytest.skip(f"no kernel interception here: {kernel_refusal()}")
    done = subprocess.run(
        [sys.executable, "-c", TAKEN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("another program listens to the execs")
