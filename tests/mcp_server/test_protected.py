"""What a sandboxed command writes under protected names is told, and keeps programs inside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool.mcp_server.calls import Answer, CommandResult, Question
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.tool import Bench, Tool, accept, until

WORKSPACE = SandboxPolicy("workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
# Leaves a file beside the workspace, which nothing in the sandbox could.
RULES = 'prefix_rule(pattern=["touch"], decision="{}")\n'
HOOK = "echo evil > .git/hooks/pre-commit"
TOLD = "a sandboxed command wrote {}/.git/hooks/pre-commit"
EITHER = TOLD.replace("command", "command or a program outside, nobody saw which,")


@pytest.fixture
def repository(bench: Bench) -> Bench:
    """A bench whose workspace is a repository, and whose rules let `touch` out."""
    bench.rules = RULES.format("allow")
    (bench.folder / ".gitconfig").write_text(
        "[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(bench.folder)}
    subprocess.run(["git", "init", "-q", "."], cwd=bench.workdir, env=environment, check=True)
    return bench


class Human:
    """Answers, and remembers what they were warned of."""

    def __init__(self, *actions: str) -> None:
        self._actions = list(actions)
        self.warned: list[str] = []

    async def __call__(self, question: Question) -> Answer:
        self.warned.append(question.warning)
        return Answer(self._actions.pop(0))


def out(bench: Bench) -> Path:
    return bench.folder / "out"


def test_a_change_is_told_and_nothing_leaves_until_it_is_agreed_to(repository: Bench) -> None:
    human = Human("decline", "unavailable", "accept")
    touch = f"touch {out(repository)}"

    async def scenario(tool: Tool) -> list[CommandResult]:
        results = [await tool(HOOK, policy=WORKSPACE)]
        for _ in range(3):
            assert not out(repository).exists()
            results.append(await tool(touch, policy=WORKSPACE, ask=human))
        out(repository).unlink()
        results.append(await tool(touch, policy=WORKSPACE))
        return results

    wrote, declined, unasked, agreed, after = repository.run(scenario)
    told = TOLD.format(repository.workdir)
    assert out(repository).exists()
    assert human.warned == [told] * 3
    assert [note for note in wrote.notes if told in note]
    assert declined.decisions[0].reason == "User declined execution"
    assert told in unasked.decisions[0].reason
    assert [it.exit_code for it in (declined, unasked, agreed, after)] == [1, 1, 0, 0]
    assert told in agreed.decisions[0].reason
    assert (after.notes, [it.decision for it in after.decisions]) == ((), ["escalate"])


def test_a_change_made_by_the_running_command_counts_at_once(repository: Bench) -> None:
    human = Human("decline")
    result = repository.call(f"{HOOK}; touch {out(repository)}", policy=WORKSPACE, ask=human)
    assert human.warned == [TOLD.format(repository.workdir)]
    assert not out(repository).exists()
    assert result.exit_code == 1


def test_a_change_while_the_question_is_open_is_another_question(repository: Bench) -> None:
    warned = []

    async def ask(question: Question) -> Answer:
        warned.append(question.warning)
        with (repository.workdir / ".git/hooks/pre-commit").open("a") as hook:
            hook.write("more evil\n")
        return Answer("accept")

    result = repository.call(f"{HOOK}; touch {out(repository)}", policy=WORKSPACE, ask=ask)
    assert not out(repository).exists()
    assert "again and again" in result.decisions[0].reason
    assert len(warned) > 1


def test_a_rule_that_asks_asks_once_with_the_warning(repository: Bench) -> None:
    repository.rules = RULES.format("prompt")
    human = Human("accept")
    result = repository.call(f"{HOOK}; touch {out(repository)}", policy=WORKSPACE, ask=human)
    assert (result.exit_code, out(repository).exists()) == (0, True)
    assert human.warned == [TOLD.format(repository.workdir)]


def test_everyday_git_asks_nothing(repository: Bench) -> None:
    commit = (
        "echo > file; git add file; git commit -qm x; git checkout -qb other;"
        f"git config --get user.name; git status -s; touch {out(repository)}"
    )
    result = repository.call(commit, policy=WORKSPACE)
    assert (result.exit_code, result.output.text(), result.notes) == (0, "A\n", ())
    assert out(repository).exists()


NESTED = "mkdir -p sub/.git; git init -q sub; git -C sub config core.fsmonitor ./evil"


def test_a_repository_below_counts_where_a_program_works_in_it(repository: Bench) -> None:
    human = Human("decline")
    result = repository.call(
        f"{NESTED}; cd sub; touch {out(repository)}", policy=WORKSPACE, ask=human
    )
    assert result.exit_code == 1
    assert f"{repository.workdir}/sub/.git/config" in human.warned[0]


@pytest.mark.parametrize("before", [False, True])
def test_a_repository_below_counts_where_a_later_call_works_in_it(
    repository: Bench, before: bool
) -> None:
    human = Human("decline")
    sub = repository.workdir / "sub"
    (sub / ".git").mkdir(parents=True)

    async def scenario(tool: Tool) -> CommandResult:
        if before:
            await tool(":", policy=WORKSPACE, workdir=str(sub))
        assert (await tool(NESTED, policy=WORKSPACE)).exit_code == 0
        await tool(":", policy=WORKSPACE)
        return await tool(f"touch {out(repository)}", policy=WORKSPACE, workdir=str(sub), ask=human)

    assert repository.run(scenario).exit_code == 1
    assert f"{sub}/.git/config" in human.warned[0]


def test_a_repository_that_was_there_before_is_trusted(repository: Bench) -> None:
    subprocess.run(["git", "init", "-q", repository.workdir / "sub"], check=True)
    result = repository.call(f"cd sub; touch {out(repository)}", policy=WORKSPACE)
    assert (result.exit_code, result.notes) == (0, ())


def test_what_the_user_writes_between_calls_is_the_users(repository: Bench) -> None:
    async def scenario(tool: Tool) -> CommandResult:
        await tool(":", policy=WORKSPACE)
        (repository.workdir / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
        return await tool(f"touch {out(repository)}", policy=WORKSPACE)

    result = repository.run(scenario)
    assert (result.exit_code, result.notes) == (0, ())


def test_a_change_that_is_undone_is_none(repository: Bench) -> None:
    async def scenario(tool: Tool) -> CommandResult:
        assert (await tool(HOOK, policy=WORKSPACE)).notes
        (repository.workdir / ".git/hooks/pre-commit").unlink()
        return await tool(f"touch {out(repository)}", policy=WORKSPACE)

    assert repository.run(scenario).exit_code == 0


def test_what_is_left_running_is_watched_to_its_end(repository: Bench) -> None:
    flag = repository.workdir / "flag"
    wait = f"until [ -e {flag} ]; do sleep 0.01; done"

    async def scenario(tool: Tool) -> tuple[CommandResult, CommandResult]:
        first = await tool(f"({wait}; {HOOK}; mv {flag} {flag}.seen) &", policy=WORKSPACE)
        flag.touch()
        await until(lambda: not flag.exists(), "the job to see the flag")
        return first, await tool(f"touch {out(repository)}", ask=Human("decline"))

    first, second = repository.run(scenario)
    assert first.notes == ()
    assert not out(repository).exists()
    assert second.exit_code == 1


def test_what_a_program_outside_writes_while_the_sandbox_sleeps_is_its_own(
    repository: Bench,
) -> None:
    repository.rules += 'prefix_rule(pattern=["git", "remote"], decision="allow")\n'
    add = "git remote add origin https://example.org/x"

    async def scenario(tool: Tool) -> int:
        for attempt in range(50):
            # Something else may keep the shell from sleeping in time.
            if not (await tool(add, policy=WORKSPACE, ask=accept)).notes:
                return attempt
            await tool("git remote remove origin", policy=WORKSPACE, ask=accept)
        pytest.fail("it was never told apart")

    repository.run(scenario)
    assert "example.org" in (repository.workdir / ".git/config").read_text()


def test_what_the_sandbox_writes_while_a_program_runs_outside_is_the_sandboxes(
    repository: Bench,
) -> None:
    repository.rules = 'prefix_rule(pattern=["sh"], decision="allow")\n'
    seen = out(repository)
    result = repository.call(
        f"sh -c 'echo > {seen}; sleep 0.5' & until [ -e {seen} ]; do :; done; {HOOK}; wait",
        policy=WORKSPACE,
    )
    assert [it.decision for it in result.decisions] == ["escalate"]
    assert EITHER.format(repository.workdir) in result.notes[0]


def test_another_thread_of_the_caller_is_no_part_of_the_program(repository: Bench) -> None:
    if repository.way.wrapper is not None:
        pytest.skip("a patched shell judges its own execs alone, and has no threads")
    repository.rules = 'prefix_rule(pattern=["sh"], decision="allow")\n'
    seen = out(repository)
    (repository.workdir / "threads").write_text(f"""
import ctypes, os, threading
def write():
    while not os.path.exists("{seen}"):
        pass
    open(".git/hooks/pre-commit", "w")
threading.Thread(target=write).start()
argv = (ctypes.c_char_p * 4)(b"sh", b"-c", b"echo > {seen}; sleep 0.04", None)
ctypes.CDLL(None).execv(b"/bin/sh", argv)
""")
    result = repository.call(f"{sys.executable} threads; :", policy=WORKSPACE)
    assert (repository.workdir / ".git/hooks/pre-commit").exists()
    assert EITHER.format(repository.workdir) in result.notes[0]


def test_what_was_put_back_while_a_program_ran_outside_is_told(repository: Bench) -> None:
    config = ".git/config"
    result = repository.call(
        f"touch {out(repository)}; cp {config} kept; echo '[a]' >> {config}; cp kept {config}",
        policy=WORKSPACE,
        ask=accept,
    )
    assert any("and put it back" in note for note in result.notes)


def test_what_cannot_be_noticed_is_told_once(repository: Bench) -> None:
    folder = repository.workdir / ".codex"
    folder.mkdir()
    for number in range(600):
        (folder / str(number)).touch()

    async def scenario(tool: Tool) -> list[CommandResult]:
        return [await tool(":", policy=WORKSPACE) for _ in range(2)]

    first, second = repository.run(scenario)
    assert first.notes == (f"what is written to {folder} is not noticed: too many files",)
    assert second.notes == ()
