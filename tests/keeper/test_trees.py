"""What a command's processes may do to stay, to be many, or to be no children of anybody."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool.config.limits import Limits
from codex_multitool.keeper import protocol
from tests.end_to_end.processes import marked, wait_until
from tests.keeper.driver import CONFINED, FULL, House, Keeper, soon
from tests.keeper.test_spawner_attacked import BOTH, python

# By CLONE_PARENT, clone(2): the child is the caller's sibling.
SIBLING = """
import signal, time
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
def sibling():
    return libc.syscall(number, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)
"""


@pytest.fixture(scope="session")
def forks() -> Iterator[str]:
    """The program of that name."""
    if (gcc := shutil.which("gcc")) is None:
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory(prefix="forks-", dir="/var/tmp") as folder:
        program = Path(folder) / "forks"
        source = Path(__file__).with_name("forks.c")
        subprocess.run([gcc, "-w", "-o", str(program), str(source)], check=True)
        for path in (Path(folder), program):
            path.chmod(0o755)
        yield str(program)


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


@BOTH
def test_ten_thousand_that_nobody_waits_for(
    keeper: Keeper, within: protocol.Sandbox, forks: str
) -> None:
    ran = keeper.run(f"{forks} storm 5000; {forks} storm 5000; /bin/echo x", within)
    assert (ran.text, ran.code) == ("x\n", 0)
    keeper.settled()
    assert keeper.works(within)


@BOTH
def test_a_thousand_that_lose_their_parent_and_end_at_once(
    keeper: Keeper, within: protocol.Sandbox, forks: str
) -> None:
    for _ in range(2):
        assert keeper.run(f"exec {forks} orphans 1000", within).code == 0
        keeper.settled()
    assert keeper.works(within)


@pytest.fixture
def bounded(ordinary: House) -> Keeper:
    """Whose commands cannot use up the machine's processes."""
    return ordinary.keeper(limits=Limits(processes=1000))


# Outside a sandbox nobody can end all at one moment; where a few do what they like, they lose.
@pytest.mark.parametrize(("within", "count"), [(CONFINED, 40), (FULL, 4)], ids=["confined", "full"])
def test_chains_of_forks_end_with_their_time(
    bounded: Keeper, forks: str, within: protocol.Sandbox, count: int
) -> None:
    ran = bounded.run(f"{forks} chains {count} 10", within, timeout=0.1)
    assert ran.done.timed_out
    assert ran.code in (-signal.SIGTERM, -signal.SIGKILL)
    assert "forks" not in str(marked(bounded.mark))
    assert bounded.works(within)


@pytest.mark.parametrize("count", [4, 20])
def test_chains_of_forks_end_with_their_front(bounded: Keeper, forks: str, count: int) -> None:
    bounded.order(f"{forks} chains {count} 10")
    soon(lambda: "forks" in str(marked(bounded.mark)), "the chains")
    bounded.close()
    wait_until(lambda: "forks" not in str(marked(bounded.mark)), "their end")


@BOTH
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exec sleep 1000", -signal.SIGTERM),
        ("trap '' TERM; exec sleep 1000", -signal.SIGKILL),
        ("trap 'exit 9' TERM; sleep 1000 & wait", 9),
        ("kill -STOP $$", -signal.SIGTERM),
        ("trap '' TERM; kill -STOP $$; kill -STOP $$", -signal.SIGKILL),
        ("exec >&- 2>&- </dev/null; setsid sleep 1000 & exec sleep 1000", -signal.SIGTERM),
        ("(sleep 1000 & kill -STOP $!; sleep 1000) & (setsid sleep 1000 &); wait", None),
    ],
)
def test_what_takes_too_long_is_ended_with_all_it_has_started(
    ordinary: House, within: protocol.Sandbox, command: str, code: int | None
) -> None:
    keeper = ordinary.keeper()
    ran = keeper.run(command, within, timeout=0.2)
    assert ran.done.timed_out
    assert ran.code == code or code is None
    assert keeper.left() == []
    assert ran.done.background == ()


def test_what_closes_its_pipes_runs_on_to_its_end(keeper: Keeper) -> None:
    ran = keeper.run("echo x; exec >&- 2>&-; /bin/sleep 0.1; exit 3")
    assert (ran.text, ran.code, ran.done.background) == ("x\n", 3, ())


def test_a_shell_that_becomes_its_last_program_ends_as_that_does(keeper: Keeper) -> None:
    ran = keeper.run("exec /bin/sh -c 'kill -KILL $$'")
    assert ran.code == -signal.SIGKILL
    assert not ran.done.timed_out


@BOTH
def test_a_flood_of_output_keeps_nobody_from_being_judged(
    keeper: Keeper, within: protocol.Sandbox
) -> None:
    command = "yes & for i in {1..50}; do /bin/true; done; kill $!; wait $!; echo; echo x"
    keeper.order(command, within)
    # What is kept is a small part: the rest goes to no file of ours.
    wanted = keeper.until(protocol.WantFile)[-1]
    keeper.tell(protocol.Answer(wanted.number, (None, "not here")))
    ran = keeper.result()
    assert ran.text.endswith("\nx\n")
    assert ran.done.output.left_out > 0


def test_jobs_left_behind_run_on_and_are_named(keeper: Keeper) -> None:
    keeper.order("sleep 1000 & sleep 1001 & exit 5")
    done = keeper.until(protocol.Done)[-1]
    assert (done.over, done.outcome.status) == (False, 5 << 8)
    assert sorted(text for _, text in done.outcome.background) == ["sleep 1000", "sleep 1001"]
    assert {it.command for it in marked(keeper.mark)} == {"sleep 1000", "sleep 1001"}
    keeper.end()
    assert isinstance(keeper.read(), protocol.Over)
