"""What a command's processes may do to stay, to be many, or to be no children of anybody."""

from __future__ import annotations

from codex_multitool.keeper import protocol
from tests.keeper.driver import Keeper
from tests.keeper.test_spawner_attacked import BOTH, python

# By CLONE_PARENT, clone(2): the child is the caller's sibling.
SIBLING = """
import signal, time
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
def sibling():
    return libc.syscall(number, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)
"""


@BOTH
def test_a_sibling_of_the_shell_does_not_outlive_its_command(
    keeper: Keeper, within: protocol.Sandbox
) -> None:
    keeper.order(python(f"{SIBLING}if sibling() == 0: time.sleep(1000)"), within)
    done = keeper.until(protocol.Done)[-1]
    assert not done.over
    assert len(done.outcome.background) == 1
    keeper.end()
    keeper.until(protocol.Over)
    assert keeper.works(within)
    # One that has gone by then, and nobody waits for; and many, of siblings.
    for code in ("if sibling() == 0: os._exit(0)", "for _ in range(5): sibling()"):
        assert keeper.run(python(f"{SIBLING}{code}\nos._exit(4)"), within).code == 4
        assert keeper.works(within)
