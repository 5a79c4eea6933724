"""One command from its start to the end of its last process, on real keepers and shells."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from codex_multitool.keeper.output import SIZE
from codex_multitool.mcp_server.calls import Answer, CommandResult, Question, ToolError
from tests.end_to_end.processes import marked, running
from tests.mcp_server.tool import ASKS, FULL_ACCESS, Bench, Tool, accept, until

# Processes that a plain signal to the shell's group, or SIGTERM, would not end.
SURVIVORS = {
    "background": "sleep 1000 & sleep 1001",
    "setsid": "setsid sleep 1000 & sleep 1001",
    "double fork": "(setsid sh -c 'sleep 1000 & sleep 1002' &); sleep 1001",
    "ignores SIGTERM": "trap '' TERM; (trap '' TERM; sleep 1000) & sleep 1001",
    "stopped": "sleep 1000 & kill -STOP $!; sleep 1001",
}


# The status


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [
        (":", 0, None),
        ("exit 3", 3, None),
        ("exit 255", 255, None),
        ("no-such-program", 127, None),
        ("/no/such/program", 127, None),
        ("/etc/passwd", 126, None),
        ("kill -TERM $$", 128 + signal.SIGTERM, signal.SIGTERM),
        ("kill -KILL $$", 128 + signal.SIGKILL, signal.SIGKILL),
        ("sh -c 'kill -KILL $$'", 128 + signal.SIGKILL, None),
    ],
)
def test_the_status_is_the_shells(
    bench: Bench, command: str, code: int, number: int | None
) -> None:
    result = bench.call(command)
    # The last program may have taken the shell's place: then its death is the shell's.
    assert result.exit_code == code
    assert result.signal in (number, code - 128 if code > 128 else None)
    assert not result.timed_out


def test_a_failure_that_speaks_of_sandboxes_is_a_result_like_any_other(any_bench: Bench) -> None:
    result = any_bench.call("echo 'seccomp: Operation not permitted' >&2; exit 159")
    assert (result.exit_code, result.signal) == (159, None)
    assert result.output.text() == "seccomp: Operation not permitted\n"


# The shell


def test_the_shell_reads_nothing_and_inherits_nothing_of_ours(bench: Bench) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    result = bench.call("cat; exec 4</proc/self/fd; ls -l /proc/self/fd; umask; ulimit -c")
    os.close(read)
    os.close(write)
    targets = [line.split(" -> ") for line in result.output.text().splitlines() if " -> " in line]
    numbers = {int(left.split()[-1]): right for left, right in targets}
    assert numbers[0] == "/dev/null"
    assert set(numbers) - {197} <= {0, 1, 2, 3, 4}  # 3 is the listing's own
    assert not [right for right in numbers.values() if "landlock" in right or "notify" in right]


def test_a_session_leaves_no_descriptor_behind(bench: Bench) -> None:
    bench.call(":")
    before = os.listdir("/proc/self/fd")
    bench.call(":")
    assert len(os.listdir("/proc/self/fd")) == len(before)


# 32 and 33 belong to the C library, signal(7): whoever runs the tests may ignore them
LIBRARYS = 0b11 << 31
SIGNALS = "grep -E '^Sig(Blk|Ign)' /proc/self/status"


def test_signals_are_at_their_defaults(bench: Bench) -> None:
    result = bench.call(f"yes | head -n 1; echo ${{PIPESTATUS[*]}}; {SIGNALS}; :")
    lines = result.output.text().split()
    assert lines[:3] == ["y", str(128 + signal.SIGPIPE), "0"]
    assert [int(mask, 16) & ~LIBRARYS for mask in lines[4::2]] == [0, 0]


def test_signals_are_at_their_defaults_where_a_program_takes_the_shells_place(
    bench: Bench,
) -> None:
    masks = bench.call(SIGNALS).output.text().split()[1::2]
    assert [int(mask, 16) & ~LIBRARYS for mask in masks] == [0, 0]


@pytest.mark.parametrize("login", [True, False])
def test_a_login_shell_reads_the_profile(any_bench: Bench, login: bool) -> None:
    (any_bench.folder / ".bash_profile").write_text("export FROM_PROFILE=yes\n")
    result = any_bench.call("echo [$FROM_PROFILE]", login=login)
    assert result.output.text() == ("[yes]\n" if login else "[]\n")


# The output


def test_the_streams_come_in_order_of_arrival(any_bench: Bench) -> None:
    result = any_bench.call("echo 1; sleep .1; echo 2 >&2; sleep .1; echo 3; sleep .1; echo 4 >&2")
    assert result.output.text() == "1\n2\n3\n4\n"


def test_the_stream_that_spoke_first_comes_first(any_bench: Bench) -> None:
    assert any_bench.call("echo error >&2; echo output").output.text() == "error\noutput\n"


def test_bytes_that_are_no_text_are_replaced_and_noted(any_bench: Bench) -> None:
    result = any_bench.call(r"printf 'caf\303\251 \377\n'")
    assert result.output.text() == "café \ufffd\n"
    assert any("UTF-8" in note for note in result.notes)


def test_of_a_flood_the_beginning_the_end_and_an_exact_count_are_kept(any_bench: Bench) -> None:
    size = 64 << 20
    result = any_bench.call(f"printf begin; head -c {size} /dev/zero | tr '\\0' x; printf end >&2")
    kept = result.output.text().count("x")
    assert kept == SIZE - len("beginend")
    assert result.output.left_out == size - kept
    assert result.output.head.startswith("beginxxx")
    assert result.output.tail.endswith("xxxend")


def test_the_latest_line_is_known_while_the_command_runs(any_bench: Bench) -> None:
    told: list[Callable[[], str]] = []

    async def scenario(tool: Tool) -> None:
        async with trio.open_nursery() as nursery:
            wait = "until [ -e {} ]; do sleep .05; done"
            command = f"echo one; {wait.format('go')}; echo two >&2; {wait.format('on')}"
            nursery.start_soon(lambda: tool(command, progress=told.append))
            await until(lambda: [latest() for latest in told] == ["one"], "the first line")
            (any_bench.workdir / "go").touch()
            await until(lambda: [latest() for latest in told] == ["two"], "the second line")
            (any_bench.workdir / "on").touch()

    any_bench.run(scenario)


# The time


def test_a_timeout_keeps_what_was_printed(any_bench: Bench) -> None:
    result = any_bench.call("echo before; echo error >&2; sleep 1000; echo after", timeout_ms=1000)
    assert result.timed_out
    assert result.exit_code == 124
    assert result.output.text() == "before\nerror\n"
    assert result.duration_ns >= 1_000_000_000


def test_no_time_at_all_is_a_timeout(any_bench: Bench) -> None:
    result = any_bench.call("sleep 1000", timeout_ms=0)
    assert (result.exit_code, result.timed_out) == (124, True)


@pytest.mark.parametrize("trick", ["setsid", "ignores SIGTERM"])
def test_a_timeout_ends_the_whole_tree(any_bench: Bench, trick: str) -> None:
    async def scenario(tool: Tool) -> CommandResult:
        result = await tool(SURVIVORS[trick], timeout_ms=800)
        assert marked(any_bench.mark) == []
        return result

    assert any_bench.run(scenario).timed_out


def test_the_clock_stands_still_while_a_human_is_asked(bench: Bench) -> None:
    bench.rules = ASKS

    async def slow(_question: Question) -> Answer:
        await trio.sleep(1.6)
        return Answer("accept")

    result = bench.call("mkdir made && echo made", timeout_ms=1500, ask=slow)
    assert (result.exit_code, result.output.text()) == (0, "made\n")
    assert result.duration_ns >= 1_500_000_000


def test_the_clock_goes_on_after_the_answer(any_bench: Bench) -> None:
    any_bench.rules = ASKS
    result = any_bench.call("mkdir made && echo made; sleep 1000", timeout_ms=1200, ask=accept)
    assert (result.timed_out, result.output.text()) == (True, "made\n")


# The end


@pytest.mark.parametrize("command", SURVIVORS.values(), ids=SURVIVORS.keys())
def test_a_cancelled_call_ends_its_whole_tree_before_it_returns(
    any_bench: Bench, command: str
) -> None:
    async def scenario(tool: Tool) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tool, command)
                await until(lambda: running(any_bench.mark, "sleep 1001"), "the command runs")
                scope.cancel()
        assert scope.cancelled_caught
        assert marked(any_bench.mark) == []

    any_bench.run(scenario)


def test_a_call_cancelled_while_a_human_is_asked_withdraws_the_question(bench: Bench) -> None:
    bench.rules = ASKS
    asked, withdrawn = trio.Event(), trio.Event()

    async def never(_question: Question) -> Answer:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            withdrawn.set()

    async def call(tool: Tool) -> None:
        await tool("mkdir made", ask=never)

    async def scenario(tool: Tool) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, tool)
            await asked.wait()
            nursery.cancel_scope.cancel()
        assert marked(bench.mark) == []
        await withdrawn.wait()

    bench.run(scenario)
    assert not (bench.workdir / "made").exists()


def test_a_cancelled_call_ends_its_escalated_programs_too(bench: Bench) -> None:
    bench.rules = 'prefix_rule(pattern=["sleep"], decision="allow")\n'

    async def call(tool: Tool) -> None:
        await tool("sleep 1000; :")

    async def scenario(tool: Tool) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, tool)
            await until(lambda: running(bench.mark, "sleep 1000"), "the escalated program runs")
            nursery.cancel_scope.cancel()
        assert marked(bench.mark) == []

    bench.run(scenario)


def test_a_killed_keeper_is_an_error_of_its_call_alone(any_bench: Bench) -> None:
    async def scenario(tool: Tool) -> None:
        async def victim() -> None:
            with pytest.raises(ToolError, match="the process that ran this command was killed"):
                await tool("sleep 1000; :")

        async def other() -> None:
            result = await tool(
                f"until [ -e {any_bench.workdir}/go ]; do sleep .05; done; echo lives"
            )
            assert result.output.text() == "lives\n"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(victim)
            await until(lambda: running(any_bench.mark, "sleep 1000"), "the command runs")
            os.kill(keeper_of(any_bench), signal.SIGKILL)
            nursery.start_soon(other)
            (any_bench.workdir / "go").touch()

    any_bench.run(scenario)


def keeper_of(bench: Bench) -> int:
    (pid,) = (process.pid for process in marked(bench.mark) if process.command == "sleep 1000")
    while True:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
        if Path(f"/proc/{pid}/comm").read_text() == "codex-keeper\n":
            return pid


# What is told of the execs


def test_the_verdicts_worth_telling_are_told(bench: Bench) -> None:
    bench.rules = (
        ASKS + 'prefix_rule(pattern=["touch"], decision="allow")\n'
        'prefix_rule(pattern=["rmdir"], decision="forbidden", justification="keep it")\n'
    )
    result = bench.call("touch f; mkdir d; rmdir d; ls >/dev/null", ask=accept)
    told = [(Path(one.program).name, one.argv[1:], one.decision) for one in result.decisions]
    assert told == [
        ("touch", ("f",), "escalate"), ("mkdir", ("d",), "escalate"), ("rmdir", ("d",), "deny"),
    ]  # fmt: skip
    assert "keep it" in result.decisions[2].reason
    assert "keep it" in result.output.text()


def test_of_a_long_command_line_the_beginning_is_told(any_bench: Bench) -> None:
    any_bench.rules = 'prefix_rule(pattern=["rmdir"], decision="forbidden")\n'
    result = any_bench.call("rmdir $(seq 100000 110000)")
    (told,) = result.decisions
    assert told.argv[:3] == ("rmdir", "100000", "100001")
    assert "characters left out" in told.argv[-1]
    assert sum(map(len, told.argv)) < 5000


def test_calls_run_beside_each_other(any_bench: Bench) -> None:
    async def scenario(tool: Tool) -> None:
        async def first() -> None:
            await tool("until [ -e second ]; do sleep .05; done", policy=FULL_ACCESS)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await tool(": > second", policy=FULL_ACCESS)

    any_bench.run(scenario)


def test_no_descriptor_is_left(bench: Bench) -> None:
    def count(tool: Tool) -> int:
        """All but those of keepers, of which more may have been made."""
        return len(os.listdir("/proc/self/fd")) - len(tool.shell._keepers._idle)

    async def several(tool: Tool) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(tool, "true | cat")
        await until(lambda: tool.shell._keepers._hired == 0, "the commands end")

    async def scenario(tool: Tool) -> None:
        await several(tool)
        before = count(tool)
        for _ in range(3):
            await several(tool)
        await until(lambda: count(tool) <= before, "no more descriptors than before")

    bench.run(scenario)


FORGED = """
import array, json, socket, struct
ours, theirs = socket.socketpair()
handshake = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM, 0, 197)
rights = array.array("i", [theirs.fileno()])
handshake.sendmsg([bytes(1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
theirs.close()
payload = {payload!r}
ours.sendmsg([struct.pack("<I", len(payload)) + payload])
print(ours.recvmsg(4096)[0])
"""


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b'{"file":"/bin/true","argv":["\\ud800"],"workdir":"/","env":{}}',
        b'{"file":"/\\ud800","argv":["x"],"workdir":"/","env":{}}',
        b'{"file":"/bin/true","argv":["x"],"workdir":"/\\ud800","env":{}}',
        b'{"file":"/bin/true","argv":["x"],"workdir":"/","env":{"A":"\\ud800"}}',
    ],
)
def test_a_forged_request_ends_no_other_call(wrapper_bench: Bench, payload: bytes) -> None:
    wrapper_bench.rules = 'prefix_rule(pattern=["true"], decision="allow")\n'
    script = wrapper_bench.workdir / "forge.py"
    script.write_text(FORGED.format(payload=payload))

    forged = wrapper_bench.workdir / "forged"

    async def forge(tool: Tool) -> None:
        with suppress(UnicodeEncodeError):  # the call itself may be lost: it is the forger's own
            await tool(f"python3 {script}")
        forged.touch()

    async def scenario(tool: Tool) -> CommandResult:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forge, tool)
            return await tool(f"until [ -e {forged} ]; do sleep .05; done; echo lives")

    assert wrapper_bench.run(scenario).output.text() == "lives\n"
