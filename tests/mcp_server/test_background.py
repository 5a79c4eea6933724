"""What a command leaves in the background: named, alive, and judged as before."""

from codex_multitool.mcp_server.calls import Answer, CommandResult, Question
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.end_to_end.processes import running
from tests.mcp_server.tool import ASKS, Bench, Tool, until

WORKSPACE = SandboxPolicy("workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


def test_a_background_job_does_not_hold_up_the_result_that_names_it(any_bench: Bench) -> None:
    async def scenario(tool: Tool) -> CommandResult:
        result = await tool("sleep 1000 & echo started")
        assert running(any_bench.mark, "sleep 1000")
        return result

    result = any_bench.run(scenario)
    assert result.output.text() == "started\n"
    assert result.duration_ns < 500_000_000_000
    assert [line for _, line in result.background] == ["sleep 1000"]


def test_a_background_job_outlives_the_calls_time(any_bench: Bench) -> None:
    async def scenario(tool: Tool) -> None:
        result = await tool(
            "(sleep 1.2; : > late) & echo started", timeout_ms=1000, policy=WORKSPACE
        )
        assert not result.timed_out
        await until((any_bench.workdir / "late").exists, "the job goes on")

    any_bench.run(scenario)


def test_what_a_background_job_prints_neither_blocks_nor_kills_it(any_bench: Bench) -> None:
    async def scenario(tool: Tool) -> CommandResult:
        job = "(sleep .5; head -c 8000000 /dev/zero; : > done) &"
        result = await tool(f"{job} echo started", policy=WORKSPACE)
        await until((any_bench.workdir / "done").exists, "the job prints to its end")
        return result

    assert any_bench.run(scenario).output.text() == "started\n"


def test_a_background_job_is_judged_when_its_shell_has_gone(bench: Bench) -> None:
    bench.rules = ASKS + 'prefix_rule(pattern=["rmdir"], decision="forbidden")\n'
    asked: list[str] = []

    async def ask(question: Question) -> Answer:
        asked.append(" ".join(question.argv))
        return Answer("accept")

    async def scenario(tool: Tool) -> None:
        made, kept = bench.workdir / "made", bench.workdir / "kept"
        kept.mkdir()
        result = await tool(f"(sleep 1; rmdir {kept}; mkdir {made}) & echo started", ask=ask)
        assert (result.output.text(), asked) == ("started\n", [])
        await until(made.exists, "the job made its directory, outside the read-only sandbox")
        assert kept.exists()

    bench.run(scenario)
    assert asked == [f"mkdir {bench.workdir}/made"]


def test_nothing_is_said_to_run_on_that_is_just_ending(bench: Bench) -> None:
    async def scenario(tool: Tool) -> list[CommandResult]:
        return [await tool("cat <(echo 1) <(echo 2) | cat") for _ in range(10)]

    results = bench.run(scenario)
    assert [result.background for result in results if result.background] == []
    assert {result.output.text() for result in results} == {"1\n2\n"}
