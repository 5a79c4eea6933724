"""Keepers, zygotes, fronts and spawners that are ended: what they had goes, and nothing else."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator

import pytest

from codex_multitool.keeper import spawners
from codex_multitool.keeper.shell import Shell
from tests.end_to_end.processes import marked, wait_until
from tests.keeper.driver import (
    FULL,
    GoneError,
    House,
    Keeper,
    RefusedError,
    children,
    needs_listeners,
    parent,
    somebody,
    soon,
    state,
)

# Each has left its shell, its session, or its parent; none ends by itself.
ESCAPES = """
trap '' TERM HUP INT
setsid sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 &
(setsid sh -c 'trap "" TERM; sleep 1000 & sleep 1000' &)
sleep 1000 & kill -STOP $!
echo started
sleep 1000
"""
ESCAPED = 6


def until_escaped(mark: str) -> None:
    def sleeping() -> bool:
        return sum("sleep 1000" in it.command for it in marked(mark)) >= ESCAPED

    wait_until(sleeping, "the processes of the command")


def running(mark: str, command: str) -> int:
    """The process that is this command; 0 if there is none."""
    return next((it.pid for it in marked(mark) if it.command == command), 0)


def until_waited_for(keeper: Keeper, pid: int) -> None:
    wait_until(lambda: pid not in children(keeper.pid), f"{pid} being waited for")


def none_left(mark: str, keepers: int = 0) -> None:
    """keepers: how many processes of other commands there may be."""
    wait_until(lambda: len(marked(mark)) <= keepers, f"no process left: {marked(mark)}")


@pytest.fixture
def own() -> Iterator[House]:
    """A house that may be harmed."""
    needs_listeners()
    house = House()
    yield house
    house.close()


def test_what_a_killed_keeper_leaves_is_ended(house: House) -> None:
    keeper, other = house.keeper(), house.keeper()
    other.order("exec sleep 1001")
    keeper.order(ESCAPES)
    until_escaped(house.mark)
    soon(lambda: running(house.mark, "sleep 1001"), "the other's process")
    os.kill(keeper.pid, signal.SIGKILL)
    with pytest.raises(GoneError):
        keeper.result()
    wait_until(lambda: not any("1000" in it.command for it in marked(house.mark)), "its end")
    assert [it.command for it in marked(house.mark)] == ["sleep 1001"]
    other.end()
    assert other.result().code == -signal.SIGTERM
    assert other.works()
    assert house.keeper().works()
    assert keeper.pid not in children(house.zygote)


@pytest.mark.parametrize("number", ["TERM", "HUP", "INT", "QUIT", "PIPE", "TSTP", "XFSZ"])
def test_what_a_terminal_or_a_user_sends_does_not_end_a_keeper(
    ordinary: House, number: str
) -> None:
    keeper = ordinary.keeper()
    find = "read -r _ _ _ keeper _ < <(sed 's/.*)/x x/' /proc/$PPID/stat)"
    assert keeper.run(f"{find}; kill -{number} $keeper; echo x", FULL).text == "x\n"
    assert keeper.works()
    keeper.settled()


def test_a_command_that_kills_its_keeper_ends_with_it(ordinary: House) -> None:
    keeper = ordinary.keeper()
    find = "read -r _ _ _ keeper _ < <(sed 's/.*)/x x/' /proc/$PPID/stat)"
    keeper.order(f"{find}; setsid sleep 1000 & kill -9 $keeper; exec sleep 1000", FULL)
    with pytest.raises(GoneError):
        keeper.result()
    none_left(ordinary.mark)
    assert ordinary.keeper().works()


def test_without_a_zygote_commands_go_on_and_end_with_their_front(own: House) -> None:
    keeper = own.keeper()
    keeper.order(ESCAPES)
    until_escaped(own.mark)
    os.kill(own.zygote, signal.SIGKILL)
    soon(lambda: parent(keeper.pid) != own.zygote, "another parent of the keeper's")
    with pytest.raises((BrokenPipeError, ConnectionResetError, GoneError)):
        own.keeper()
    keeper.end()
    assert keeper.result().code == -signal.SIGKILL
    assert keeper.works()
    keeper.order(ESCAPES)
    until_escaped(own.mark)
    own.leave()
    none_left(own.mark)


def test_a_front_that_goes_leaves_nothing(own: House) -> None:
    for _ in range(2):
        own.keeper().order(ESCAPES)
    until_escaped(own.mark)
    own.leave()
    none_left(own.mark)
    soon(lambda: not children(own.front), "the zygote's end")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_front_leaves_nothing(number: int) -> None:
    needs_listeners()
    reader, writer = os.pipe()
    front = os.fork()
    if front == 0:
        try:
            house = House()
            house.keeper().order(ESCAPES)
            until_escaped(house.mark)
            os.write(writer, house.mark.encode())
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as told:
        mark = told.read(32)
    assert len(marked(mark)) >= ESCAPED
    os.kill(front, number)
    os.waitpid(front, 0)
    none_left(mark)


def test_a_spawner_that_ends_between_commands_leaves_no_zombie(keeper: Keeper) -> None:
    for number in (signal.SIGKILL, signal.SIGSEGV):
        (spawner,) = keeper.spawners()
        os.kill(spawner, number)
        until_waited_for(keeper, spawner)
        assert keeper.works()


def test_a_spawner_that_is_stopped_between_commands_is_woken(keeper: Keeper) -> None:
    (spawner,) = keeper.spawners()
    os.kill(spawner, signal.SIGSTOP)
    soon(lambda: state(spawner) == "T", "its being stopped")
    assert keeper.works()
    assert keeper.spawners() == [spawner]


def test_a_spawner_that_ends_while_its_command_runs_costs_that_nothing(keeper: Keeper) -> None:
    keeper.order("sleep 1000 & wait; /bin/echo x; exit 7")
    sleep = soon(lambda: running(keeper.mark, "sleep 1000"), "its process")
    (spawner,) = keeper.spawners()
    os.kill(spawner, signal.SIGKILL)
    until_waited_for(keeper, spawner)
    os.kill(sleep, signal.SIGPIPE)  # of which a shell says nothing
    ran = keeper.result()
    assert (ran.text, ran.code) == ("x\n", 7)
    assert keeper.works()


def ending(moment: str, times: int) -> Callable[[], None]:
    """In a house's processes: the first spawners are killed at this moment."""

    def prepare() -> None:
        left = [times]
        tell, first = spawners.Spawner.tell, Shell.first

        def kill(it: spawners.Spawner) -> None:
            if left[0]:
                left[0] -= 1
                os.kill(it.pid, signal.SIGKILL)
                os.waitid(os.P_PID, it.pid, os.WEXITED | os.WNOWAIT)

        def telling(self: spawners.Spawner, *request: object) -> None:
            if moment == "before it is told":
                kill(self)
            tell(self, *request)  # type: ignore[arg-type]
            if moment == "when it is told":
                kill(self)

        def beginning(self: Shell, notification: object) -> bool:
            if moment == "before the exec is known":
                kill(self._spawner)
            found = first(self, notification)  # type: ignore[arg-type]
            if moment == "before the exec is answered":
                kill(self._spawner)
            return found

        spawners.Spawner.tell = telling  # type: ignore[method-assign, assignment]
        Shell.first = beginning  # type: ignore[method-assign]

    return prepare


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "moment", ["before it is told", "when it is told", "before the exec is known"]
)
def test_a_spawner_that_ends_before_its_command_begins_is_replaced_once(
    moment: str, times: int
) -> None:
    needs_listeners()
    house = House(prepare=ending(moment, times))
    keeper = house.keeper()
    ran = keeper.run("echo x >&2; echo x")
    if times == 1:
        assert ran.text == "x\nx\n"
    else:
        assert ran.refused is not None
        assert ran.refused.text == "the process that starts commands was ended, twice"
    assert keeper.works()
    keeper.settled()
    house.close()


def test_a_spawner_that_ends_when_its_command_begins_costs_that_nothing() -> None:
    needs_listeners()
    house = House(prepare=ending("before the exec is answered", 1))
    keeper = house.keeper()
    ran = keeper.run("echo x; exit 4")
    assert (ran.text, ran.code) == ("x\n", 4)
    assert keeper.works()
    keeper.settled()
    house.close()


@pytest.fixture
def limited() -> Iterator[House]:
    """A user's whose processes can be counted."""
    needs_listeners()
    uid = somebody()
    if uid is None:
        pytest.skip("the number of our own processes is not ours to say")
    house = House(uid)
    yield house
    house.close()


NO_PROCESS = "no process can be started: Resource temporarily unavailable"


def limit_processes(house: House, pid: int, most: int | None) -> None:
    """As its own user, who needs no privilege. most: None for as many as there may be."""
    child = os.fork()
    if child == 0:
        try:
            house.become()
            _, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
            resource.prlimit(pid, resource.RLIMIT_NPROC, (most or hard, hard))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_where_no_process_is_to_be_had_only_that_command_fails(limited: House) -> None:
    keeper = limited.keeper()

    def fails(pid: int, run: Callable[[], str]) -> None:
        limit_processes(limited, pid, 1)
        assert run() == NO_PROCESS
        limit_processes(limited, pid, None)

    def refused() -> str:
        ran = keeper.run("echo x")
        assert ran.refused is not None
        assert ran.refused.errno
        return ran.refused.text

    def no_keeper() -> str:
        with pytest.raises(RefusedError) as told:
            limited.keeper()
        return str(told.value)

    for _ in range(2):
        fails(limited.zygote, no_keeper)
    fails(keeper.pid, refused)
    assert keeper.works()
    fails(keeper.spawners()[0], refused)
    assert keeper.works()
    keeper.settled()
