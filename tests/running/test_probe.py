"""The trial of kernel interception, as a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool import roles
from codex_multitool.keeper import zygote
from codex_multitool.running.probe import Probe
from tests.executables import ROOT, built
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
print(Probe().begin().refusal())
"""


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def children() -> bytes:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_bytes()


def test_it_leaves_nothing_behind() -> None:
    before = descriptors(), children()
    Probe().begin().refusal()
    assert (descriptors(), children()) == before


def test_one_that_is_not_asked_is_ended() -> None:
    before = descriptors(), children()
    probe = Probe().begin()
    probe.close()
    probe.close()
    assert (descriptors(), children()) == before


# Below a process to which all that is orphaned comes, and which waits until nothing is left.
ORPHANS = """
import os, signal, time
import _prctl
from codex_multitool.running.probe import Probe
_prctl.prctl(_prctl.PR_SET_CHILD_SUBREAPER, 1)
for turn in range(300):
    probe = Probe().begin()
    time.sleep(turn % 100 * 0.00005)  # all the while in which it forks
    probe.close()
signal.alarm(30)
try:
    while True:
        os.wait()
except ChildProcessError:
    print("none is left")
"""


def test_one_that_is_ended_whenever_leaves_no_orphan() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHANS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "none is left\n"


def test_one_that_the_zygote_begins_is_answered_and_ends_with_it() -> None:
    for asked in (True, False):
        before, others = descriptors(), set(children().split())
        probe = Probe()
        control = zygote.start((), probe)
        (pid,) = set(children().split()) - others
        if asked:
            assert probe.refusal() == kernel_refusal()
        probe.close()
        control.close()
        os.waitpid(int(pid), 0)
        assert descriptors() == before


def test_an_answer_that_never_comes_is_a_refusal() -> None:
    probe = Probe()
    probe.left_to_others()
    assert probe.refusal() == "the trial of it was ended"


def test_a_listener_around_us_is_named() -> None:
    if kernel_refusal() is not None:
        pytest.skip(f"no kernel interception here: {kernel_refusal()}")
    done = subprocess.run(
        [sys.executable, "-c", TAKEN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("another program listens to the execs")


def test_a_sandbox_around_us_is_named_at_once() -> None:
    if kernel_refusal() is not None:
        pytest.skip(f"no kernel interception here: {kernel_refusal()}")
    read_only = ["--sandbox-policy-cwd=/", '--sandbox-policy={"type":"read-only"}', "--"]
    asked = "from codex_multitool.running.probe import Probe; print(Probe().begin().refusal())"
    done = subprocess.run(
        [built() / roles.LINUX_SANDBOX, *read_only, sys.executable, "-c", asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout[:10], done.stderr) == ("ptrace(2) ", "")  # not that it does not answer
