"""Execs of one command are judged to the end of its last process; nothing of that is the next's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.keeper import protocol
from tests.end_to_end.processes import wait_until
from tests.keeper.driver import CONFINED, FULL, House, Keeper, children, comm
from tests.keeper.test_spawner_attacked import BOTH

RULES = """
prefix_rule(pattern=["/bin/false"], decision="forbidden", justification="never")
prefix_rule(pattern=["/bin/chmod"], decision="prompt")
prefix_rule(pattern=["/bin/sleep"], decision="allow")
"""
FORBIDDEN = "/bin/false"
ASKED = "/bin/chmod --version"
DENIED = "Execution denied: "


@pytest.fixture(scope="module")
def judgement() -> Judgement:
    return Judgement(parse([Source("my.rules", RULES)]))


@pytest.fixture
def keeper(house: House, judgement: Judgement) -> Keeper:
    """A keeper that works by rules."""
    return house.keeper(judgement=judgement)


def asked(keeper: Keeper) -> protocol.Ask:
    """The question that it puts next."""
    message: Any = None
    while not isinstance(message, protocol.Ask):
        message = keeper.read()
    return message


@BOTH
def test_a_forbidden_program_is_denied_in_every_command(
    keeper: Keeper, within: protocol.Sandbox
) -> None:
    for _ in range(3):
        ran = keeper.run(f"{FORBIDDEN}; echo $?; exec {FORBIDDEN}", within)
        assert ran.text.startswith(DENIED)
        (decision,) = ran.done.decisions
        assert (decision.decision, decision.times) == ("deny", 2)
    assert keeper.works(within)


@BOTH
def test_jobs_left_behind_are_judged_until_they_end(
    keeper: Keeper, within: protocol.Sandbox, folder: Path
) -> None:
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    late = f"while ! [ -e {folder}/go ]; do sleep 0.02; done; exec {FORBIDDEN}"
    keeper.order(f"({late}) & exit 0", within, null, null, writer)
    os.close(writer)
    done = keeper.until(protocol.Done)[-1]
    assert not done.over
    assert len(done.outcome.background) >= 1
    (folder / "go").touch()
    keeper.until(protocol.Over)
    with os.fdopen(reader) as stderr:
        assert stderr.read().startswith(f"{DENIED}Execution forbidden by policy: never; ")
    os.close(null)
    assert keeper.works(within)


@BOTH
def test_a_question_of_one_command_is_not_the_next_ones(
    keeper: Keeper, within: protocol.Sandbox
) -> None:
    keeper.order(f"{ASKED}; echo x", within)
    question = asked(keeper)
    keeper.end()
    told = keeper.until(protocol.Done)
    assert protocol.Withdrawn(question.number) in told or not told[-1].over
    if not told[-1].over:
        told += keeper.until(protocol.Over)
    assert protocol.Withdrawn(question.number) in told
    # Too late, and to nobody.
    keeper.tell(protocol.Answer(question.number, ("accept", None)))
    keeper.order(f"{ASKED} >&- 2>&- && echo $?; echo x", within)
    another = asked(keeper)
    assert another.number != question.number
    keeper.tell(protocol.Answer(question.number, ("accept", None)))
    keeper.tell(protocol.Answer(another.number, ("decline", None)))
    ran = keeper.result()
    assert ran.text == "x\n"
    assert [it.decision for it in ran.done.decisions] == ["deny"]
    assert keeper.works(within)


@BOTH
def test_a_question_stops_the_clock(keeper: Keeper, within: protocol.Sandbox) -> None:
    keeper.order(f"{ASKED} >/dev/null; echo x", within, timeout=0.5)
    question = asked(keeper)
    # More than there was, if it went on.
    time.sleep(0.7)
    keeper.tell(protocol.Answer(question.number, ("accept", None)))
    ran = keeper.result()
    assert (ran.text, ran.done.timed_out) == ("x\n", False)


def test_what_was_learnt_of_one_sandbox_is_not_used_in_another(keeper: Keeper) -> None:
    for within in (CONFINED, FULL, CONFINED):
        ran = keeper.run(f"/bin/true; {FORBIDDEN}; /bin/true", within)
        assert ran.text.startswith(DENIED)
        assert keeper.works(within)


@pytest.mark.parametrize("last", [protocol.Ask, protocol.Leaving, protocol.Returned])
def test_a_front_that_goes_while_it_is_asked_leaves_nothing(
    house: House, judgement: Judgement, last: type[Any]
) -> None:
    keeper = house.keeper(judgement=judgement)
    command = f"{ASKED}; /bin/true" if last is protocol.Ask else "/bin/sleep 0.1; /bin/true"
    keeper.order(command, CONFINED, watched=True)
    while not isinstance(message := keeper.read(), last):
        if isinstance(message, protocol.Look):
            keeper.tell(protocol.Answer(message.number, ((), 0)))
        elif isinstance(message, protocol.Leaving):
            keeper.tell(protocol.Answer(message.number, message.number))  # its end is waited for
    keeper.close()
    # The zygote, which ends keepers that stay, is there: it ends by itself.
    wait_until(lambda: not Path(f"/proc/{keeper.pid}").exists(), "the keeper's end")


def test_a_front_that_goes_while_a_program_is_outside_leaves_nothing(
    house: House, judgement: Judgement
) -> None:
    keeper = house.keeper(judgement=judgement)
    keeper.order("/bin/sleep 1000; /bin/true", CONFINED, watched=True)
    while not isinstance(message := keeper.read(), protocol.Leaving):
        pass
    keeper.tell(protocol.Answer(message.number, message.number))
    wait_until(lambda: "sleep" in map(comm, children(keeper.pid)), "the program")
    keeper.close()
    # Nobody is left whom it could tell of the program's end.
    wait_until(lambda: not Path(f"/proc/{keeper.pid}").exists(), "the keeper's end")
