"""What a spawner says is checked; if it lies, the next one is another."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from codex_multitool.keeper import protocol
from tests.keeper import liars
from tests.keeper.driver import House, Keeper, needs_listeners

TWICE = "the process that starts commands was ended, twice"
MEANWHILE = "the process that starts commands was ended meanwhile"

Mode = dict[str, str]
KeeperOf = Callable[..., Keeper]

MODES = pytest.mark.parametrize("mode", [{}, {"wrapper": "/bin/false"}], ids=["kernel", "wrapper"])


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A house whose keepers may have spawners that lie."""
    needs_listeners()
    found = House(prepare=liars.lie)
    yield found
    found.close()


@pytest.fixture
def keeper_of(house: House) -> Iterator[KeeperOf]:
    """A keeper whose first spawners are such liars; later ones are honest."""
    made: list[Keeper] = []

    def make(name: str, mode: Mode, times: int = 1) -> Keeper:
        made.append(house.keeper(shell=f"{name}:{times}", **mode))
        return made[-1]

    yield make
    for keeper in made:
        assert keeper.works()
        keeper.settled()
    house.release()


def refused(keeper: Keeper, command: str = "echo x") -> str:
    """What is told of a command that is refused."""
    ran = keeper.run(command)
    assert ran.refused is not None, ran
    return ran.refused.text


@MODES
@pytest.mark.parametrize("liar", liars.UNBEGUN)
def test_what_has_not_begun_has_not_ended(keeper_of: KeeperOf, liar: str, mode: Mode) -> None:
    # Where the kernel does not tell, it may have begun, and is not tried again.
    keeper = keeper_of(liar, mode, times=1 if mode else 2)
    assert refused(keeper) == (MEANWHILE if mode else TWICE)


def test_one_that_lies_once_costs_nothing(keeper_of: KeeperOf) -> None:
    assert keeper_of("ended", {}).works()


@MODES
@pytest.mark.parametrize("liar", liars.BEGUN)
def test_how_it_ends_is_the_kernels_word(keeper_of: KeeperOf, liar: str, mode: Mode) -> None:
    ran = keeper_of(liar, mode).run("/bin/echo x; /bin/sleep 0.05; exit 5")
    if ran.refused is None:
        assert (ran.text, ran.code) == ("x\n", 5)
    else:  # it had gone before it was heard
        assert (mode != {}, liar, ran.refused.text) == (True, "then dies", MEANWHILE)


@MODES
@pytest.mark.parametrize("liar", [*liars.STATUSES, "waits"])
def test_a_status_that_is_none_is_not_told(keeper_of: KeeperOf, liar: str, mode: Mode) -> None:
    # It has been waited for: before Linux 6.15 nobody can tell how it ended.
    ran = keeper_of(liar, mode).run("echo x; exit 6")
    assert ran.text == "x\n"
    assert ran.code in (6, -signal.SIGKILL)


@MODES
def test_what_is_said_not_to_have_started_does_not_run(keeper_of: KeeperOf, mode: Mode) -> None:
    keeper = keeper_of("did not start", mode)
    assert refused(keeper, "setsid sleep 1000 & sleep 1000") == "/x: No such file or directory"


@pytest.mark.parametrize("liar", liars.REASONS)
def test_any_number_may_be_the_reason(keeper_of: KeeperOf, liar: str) -> None:
    assert refused(keeper_of(liar, {})).startswith("\ufffd")


@pytest.mark.parametrize("liar", liars.OTHERS)
def test_another_process_is_not_harmed(house: House, keeper_of: KeeperOf, liar: str) -> None:
    """In wrapper mode the spawner says which it is that it has started."""
    victim = subprocess.Popen(["/bin/sleep", "1000"], process_group=0)
    try:
        house.environment[liars.VICTIM] = str(victim.pid)
        keeper = keeper_of(liar, {"wrapper": "/bin/false"})
        keeper.order("echo x")
        for number in (signal.SIGTERM, signal.SIGKILL):
            keeper.tell(protocol.Signal(number))
        ran = keeper.result()
        # It may have begun, and nobody can tell how it ended.
        assert (ran.text, ran.code) == ("", -signal.SIGKILL)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.parametrize("liar", liars.OTHERS)
def test_where_the_kernel_tells_who_has_started_nobody_else_is_heard(
    house: House, keeper_of: KeeperOf, liar: str
) -> None:
    house.environment[liars.VICTIM] = str(os.getpid())
    assert refused(keeper_of(liar, {}, times=2)) == TWICE


@pytest.mark.parametrize(("liar", "text"), [(it, text) for it, (_, text) in liars.UNREADY.items()])
def test_what_is_not_confined_and_listened_to_starts_nothing(
    keeper_of: KeeperOf, liar: str, text: str
) -> None:
    keeper = keeper_of(liar, {})
    keeper.settled()
    before = len(keeper.descriptors())
    assert refused(keeper).startswith(text)
    keeper.settled()
    assert len(keeper.descriptors()) == before


def test_what_is_not_asked_for_is_not_taken(keeper_of: KeeperOf) -> None:
    keeper = keeper_of("has a listener", {"wrapper": "/bin/false"})
    assert refused(keeper) == "the spawner has a listener"


@pytest.mark.parametrize("liar", liars.FORGED)
def test_only_the_spawners_only_child_is_the_commands_shell(keeper_of: KeeperOf, liar: str) -> None:
    assert refused(keeper_of(liar, {}, times=2)) == TWICE
