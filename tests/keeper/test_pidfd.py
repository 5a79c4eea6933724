"""How a process ended that is not our child, before and after somebody reaps it."""

import os
import signal

import pytest

from codex_multitool.keeper import pidfd


@pytest.mark.parametrize(
    ("ending", "status"),
    [(lambda: os._exit(3), 3 << 8), (lambda: os.kill(os.getpid(), signal.SIGSYS), signal.SIGSYS)],
)
def test_a_zombie_tells(ending: object, status: int) -> None:
    assert callable(ending)
    child = os.fork()
    if child == 0:
        try:
            ending()
        finally:
            os._exit(1)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    found = pidfd.zombie_status(child)
    os.waitpid(child, 0)
    assert found is not None
    assert found & ~0x80 == status  # whether it dumped core is the machine's matter
    assert pidfd.zombie_status(child) is None
    assert pidfd.zombie_status(os.getpid()) is None
