"""Commands in great numbers, one after the other and all at once: nothing of them is left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.processes import marked, wait_until
from tests.keeper.driver import CONFINED, FULL, House, Keeper, Ran, below, children

IN_A_ROW = 1000
AT_ONCE = 64
GROWTH = 512  # KiB; a leak of a small object in each command would show


def memory(keeper: Keeper) -> int:
    """KiB of its own, in use."""
    lines = Path(f"/proc/{keeper.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def files() -> set[str]:
    """What lies where anything of ours could be left."""
    return {name for folder in ("/tmp", "/var/tmp", "/dev/shm") for name in os.listdir(folder)}


def test_a_thousand_in_a_row_leave_nothing(ordinary: House) -> None:
    keeper = ordinary.keeper()

    def turn(count: int) -> tuple[int, list[int], int]:
        for _ in range(count):
            assert keeper.run(("/bin/sh", "-c", "/bin/true; exit 3")).code == 3
            assert keeper.run(("/bin/false",), FULL).code == 1
        keeper.settled()
        return len(keeper.descriptors()), sorted(below(keeper.pid)), memory(keeper)

    *before, least = turn(IN_A_ROW // 10)
    *after, most = turn(IN_A_ROW // 2)
    assert after == before
    assert most < least + GROWTH


def test_many_kinds_in_turn_leave_nothing(ordinary: House, folder: Path) -> None:
    keeper = ordinary.keeper()
    kinds: list[Callable[[], Ran]] = [
        lambda: keeper.run("kill -9 $PPID", FULL),
        lambda: keeper.run("kill -9 $PPID"),
        lambda: keeper.run(("/no/such",)),
        lambda: keeper.run("x", workdir="/no/such"),
        lambda: keeper.run("sleep 1000", timeout=0.0),
        lambda: keeper.run("exec sleep 1000", timeout=0.02),
        lambda: keeper.run("setsid true & true & setsid -f true"),
        lambda: keeper.run(("/bin/echo", "x" * 300_000)),
        lambda: keeper.run(("/bin/true", *("x" * 1000,) * 100)),
    ]

    def turn() -> None:
        for kind in kinds:
            kind()
        assert keeper.works(CONFINED)
        assert keeper.works(FULL)
        keeper.settled()

    for _ in range(7):  # more commands than a keeper lets go by before it collects what they left
        turn()
    before = (len(keeper.descriptors()), memory(keeper), files())
    for _ in range(20):
        turn()
    assert len(keeper.descriptors()) == before[0]
    assert len(keeper.spawners()) == 2
    assert memory(keeper) < before[1] + GROWTH
    assert {name for name in files() - before[2] if "keeper" in name} == set()
    assert list(folder.iterdir()) == []


def test_many_keepers_at_once_leave_nothing(house: House) -> None:
    house.keeper().works()
    house.release()
    before = len(os.listdir(f"/proc/{house.zygote}/fd"))
    keepers = [house.keeper() for _ in range(AT_ONCE)]
    for keeper in keepers:
        keeper.order("trap 'exit 4' TERM; /bin/sleep 1000 & wait", size=100)

    def sleeping() -> int:
        return sum(it.command == "/bin/sleep 1000" for it in marked(house.mark))

    wait_until(lambda: sleeping() == AT_ONCE, "all at work")
    for keeper in keepers:
        assert keeper.pid in children(house.zygote)
        keeper.end()
    assert {keeper.result().code for keeper in keepers} == {4}
    for keeper in keepers:
        keeper.order("/bin/true; exit 5")
    assert {keeper.result().code for keeper in keepers} == {5}
    house.release()
    assert len(os.listdir(f"/proc/{house.zygote}/fd")) == before
    assert children(house.zygote) == []
    assert sleeping() == 0
