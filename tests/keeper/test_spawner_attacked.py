"""Commands against the spawner that has started them: the next command works all the same."""

import pytest

from codex_multitool.keeper import protocol
from tests.keeper.driver import CONFINED, FULL, Keeper

BOTH = pytest.mark.parametrize("within", [CONFINED, FULL], ids=["confined", "full"])


@BOTH
@pytest.mark.parametrize(
    "command",
    [
        "kill -9 $PPID; echo x",
        "kill -9 $PPID; exec /bin/echo x",
        "kill -9 $PPID; /bin/echo x",
        "kill -STOP $PPID; /bin/echo x",
        "(kill -9 $PPID; setsid /bin/echo x) & wait",
        "sh -c 'kill -9 $PPID' & kill -9 $PPID; wait; echo x",
    ],
)
def test_a_command_without_its_spawner_goes_on(
    keeper: Keeper, within: protocol.Sandbox, command: str
) -> None:
    for _ in range(1 if "STOP" in command else 5):
        ran = keeper.run(command, within)
        assert ran.text in ("x\n", "")
        assert keeper.works(within)
