"""Calls run beside each other, end when they should, and leave no process behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.end_to_end.client import Call, Client, Json, Question, RpcError, accept
from tests.end_to_end.processes import marked, running, wait_until
from tests.end_to_end.rig import (
    ONLY_WORKSPACE,
    OUR_PAIRINGS,
    READ_ONLY,
    WORKSPACE,
    Box,
    Pairing,
    Start,
    over,
    which,
)

ALLOW_ESCAPED = 'prefix_rule(pattern=["sh", "-c", "touch up.escalated; exec sleep 624"])\n'
# One child of each kind that is easily missed; each tells by a file that it is there.
FAMILY = """
(touch up.background; exec sleep 621) &
setsid sh -c 'touch up.session; exec sleep 622' &
(setsid sh -c '(touch up.orphan; exec sleep 623) &' &)
sh -c 'touch up.escalated; exec sleep 624' &
echo partial
touch up.shell
exec sleep 620
"""
MEMBERS = [f"sleep 62{n}" for n in range(5)]


def family_is_up(box: Box) -> bool:
    """Every member runs, and the escalated one outside the sandbox."""
    return all(running(box.mark, member) for member in MEMBERS)


def family_is_gone(box: Box) -> bool:
    return not any(running(box.mark, member) for member in MEMBERS)


def start_family(
    start: Start, box: Box, pairing: Pairing, **arguments: object
) -> tuple[Client, Call]:
    """A call whose tree has every kind of process, all of them running."""
    client = start(pairing, rules=ALLOW_ESCAPED, policy=WORKSPACE)
    call = client.begin_shell(FAMILY, **arguments)
    wait_until(lambda: family_is_up(box), f"all of {MEMBERS}")
    return client, call


@over(OUR_PAIRINGS)
def test_a_timeout_is_a_result_with_the_output_so_far(
    pairing: Pairing, start: Start, box: Box
) -> None:
    client, call = start_family(start, box, pairing, timeout_ms=5000)
    result = call.shell_result()
    assert (result.exit_code, result.timed_out) == (124, True)
    assert "partial\n" in result.output
    wait_until(lambda: family_is_gone(box), "the end of the command's processes")
    assert client.shell("echo on").output == "on\n"


@over(OUR_PAIRINGS)
def test_a_cancelled_call_ends_with_all_its_processes_and_is_not_answered(
    pairing: Pairing, start: Start, box: Box
) -> None:
    client, call = start_family(start, box, pairing, timeout_ms=600_000)
    client.notify("notifications/cancelled", {"requestId": call.id, "reason": "changed my mind"})
    wait_until(lambda: family_is_gone(box), "the end of the command's processes")
    assert client.shell("echo on").output == "on\n"
    client.end_input()
    assert client.answers_to(call) == []


def test_cancelling_one_call_leaves_the_others_alone(start: Start, box: Box) -> None:
    os.mkfifo(box.ws / "go")
    client = start(Pairing(), policy=WORKSPACE)
    other = client.begin_shell("read x < go; echo $x")
    call = client.begin_shell("sleep 625", timeout_ms=600_000)
    wait_until(lambda: running(box.mark, "sleep 625"), "the command")
    client.notify("notifications/cancelled", {"requestId": call.id})
    client.notify("notifications/cancelled", {"requestId": 9999})
    wait_until(lambda: not running(box.mark, "sleep 625"), "its end")
    (box.ws / "go").write_text("went on\n")
    assert other.shell_result().output == "went on\n"


def by_end_of_input(client: Client) -> int:
    return client.end_input()


def by_signal(number: signal.Signals) -> Callable[[Client], int]:
    def end(client: Client) -> int:
        client.process.send_signal(number)
        return client.wait()

    return end


@over(OUR_PAIRINGS)
@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(by_end_of_input, 0, id="end-of-input"),
        pytest.param(by_signal(signal.SIGTERM), 128 + signal.SIGTERM, id="SIGTERM"),
        pytest.param(by_signal(signal.SIGKILL), -signal.SIGKILL, id="SIGKILL"),
    ],
)
def test_the_servers_end_is_the_end_of_every_process(
    pairing: Pairing, end: Callable[[Client], int], status: int, start: Start, box: Box
) -> None:
    client, _call = start_family(start, box, pairing, timeout_ms=600_000)
    assert end(client) == status
    wait_until(lambda: not marked(box.mark), "the end of every process")


def test_what_a_finished_call_left_running_ends_with_the_server(start: Start, box: Box) -> None:
    client = start(Pairing())
    client.shell("sleep 626 & setsid sleep 627 &")
    wait_until(lambda: running(box.mark, "sleep 626"), "the job")
    wait_until(lambda: running(box.mark, "sleep 627"), "the job in a session of its own")
    assert client.end_input() == 0
    wait_until(lambda: not marked(box.mark), "the end of every process")


def test_the_server_ends_while_a_question_is_open(start: Start, box: Box) -> None:
    asked: list[Question] = []

    def never(question: Question) -> None:
        asked.append(question)

    client = start(
        Pairing(), rules='prefix_rule(pattern=["touch"], decision="prompt")\n', answer=never
    )
    client.begin_shell(f"touch {box.out}/file")
    wait_until(lambda: bool(asked), "the question")
    assert client.end_input() == 0
    assert not (box.out / "file").exists()


def test_eight_calls_run_at_the_same_time(start: Start) -> None:
    client = start(Pairing(), policy=WORKSPACE)
    # Each ends only once all the others have begun.
    meet = "touch up.{0}; while set -- up.*; [ $# -lt 8 ]; do sleep 0.05; done; echo {0}"
    calls = [client.begin_shell(meet.format(n), timeout_ms=60_000) for n in range(8)]
    assert [call.shell_result(60).output for call in calls] == [f"{n}\n" for n in range(8)]


def test_a_ping_is_answered_while_a_command_runs(start: Start, box: Box) -> None:
    os.mkfifo(box.ws / "go")
    client = start(Pairing(), policy=WORKSPACE)
    call = client.begin_shell("read x < go; echo $x")
    assert client.request("ping") == {}
    (box.ws / "go").write_text("late\n")
    assert call.shell_result().output == "late\n"


def test_the_clock_stands_still_while_a_human_is_asked(start: Start) -> None:
    limit = 2.0

    def slow(question: Question) -> Json:
        time.sleep(limit * 1.25)  # longer than the command may take
        return accept(question)

    client = start(
        Pairing(), rules='prefix_rule(pattern=["git"], decision="prompt")\n', answer=slow
    )
    result = client.shell("git --version", timeout_ms=int(limit * 1000))
    assert (result.exit_code, result.timed_out) == (0, False)


def test_a_new_state_holds_for_the_next_call(start: Start, box: Box) -> None:
    client = start(Pairing())
    outcomes = []
    for policy in (READ_ONLY, ONLY_WORKSPACE, READ_ONLY, ONLY_WORKSPACE):
        assert client.request("codex/sandbox-state/update", box.state(policy)) == {}
        outcomes.append(client.shell("echo x > file").exit_code)
    assert outcomes == [1, 0, 1, 0]


def test_a_running_call_keeps_its_state(start: Start, box: Box) -> None:
    os.mkfifo(box.ws / "go")
    client = start(Pairing(), policy=ONLY_WORKSPACE)
    call = client.begin_shell("touch up; read x < go; touch file; echo rc=$?")
    wait_until((box.ws / "up").exists, "the command")
    client.request("codex/sandbox-state/update", box.state(READ_ONLY))
    (box.ws / "go").write_text("\n")
    assert call.shell_result().output == "rc=0\n"


UNREADABLE_STATES: list[object] = [
    None,
    {},
    [],
    {"sandboxPolicy": {"type": "no-such"}, "sandboxCwd": "/"},
    {"sandboxPolicy": "workspace-write", "sandboxCwd": "/"},
    {"sandboxPolicy": {**WORKSPACE, "writable_roots": ["relative"]}, "sandboxCwd": "/"},
]


def test_a_state_that_cannot_be_read_changes_nothing(start: Start) -> None:
    client = start(Pairing(), policy=READ_ONLY)
    for params in UNREADABLE_STATES:
        with pytest.raises(RpcError) as refused:
            client.request("codex/sandbox-state/update", params)
        assert refused.value.code == -32602
    assert client.shell("echo x > file").exit_code == 1


@over(OUR_PAIRINGS)
def test_it_works_before_any_state_and_then_nothing_can_be_written(
    pairing: Pairing, start: Start, box: Box
) -> None:
    client = start(pairing, policy=None)
    assert client.shell("env echo hi").output == "hi\n"
    for path in (box.ws / "file", box.out / "file", "/tmp/codex-multitool-no-such-file"):
        assert client.shell(f"echo x > {path}").exit_code == 1
    assert client.shell("echo x > /dev/null; cat /etc/hostname > /dev/null").exit_code == 0


def test_the_helper_a_client_names_does_not_decide_what_confines(start: Start, box: Box) -> None:
    client = start(Pairing(), policy=None)
    state = box.state(READ_ONLY, codexLinuxSandboxExe=which("env"))
    client.request("codex/sandbox-state/update", state)
    assert client.shell("echo x > file").exit_code == 1
    assert client.shell("env echo hi").output == "hi\n"
