"""Protected names that a mount namespace keeps from the sandbox, and from it alone."""

import os
import subprocess
from pathlib import Path

import pytest
import trio

from codex_multitool.mcp_server.calls import CommandResult
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.tool import Bench, Tool, accept

WORKSPACE = SandboxPolicy("workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
RULES = """
prefix_rule(pattern=["git", ["config", "remote"]], decision="allow")
prefix_rule(pattern=[["pwd", "su", "cp"]], decision="allow")
"""
# Each is refused in the namespace and works without it.
WRITES = (
    "echo x >.git/hooks/pre-commit",
    "echo x >>.git/config",
    "cp .git/config c; mv -f c .git/config",
    "ln .git/config c && echo x >>c",
    "mv .git g",
    "mv .git/hooks h",
    "rm .git/hooks/*",
    "chmod 777 .git/config",
    "echo x >>.claude/settings.json",
    "cd .git; echo x >>config",
    "cd .claude; echo x >>../.git/config",
)


@pytest.fixture
def repository(bench: Bench) -> Bench:
    """A bench with a namespace, whose workspace is a repository with an agent's settings."""
    bench.rules = RULES
    bench.own_mounts = True
    (bench.folder / ".gitconfig").write_text("[user]\nname = A\nemail = a@example.org\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(bench.folder)}
    subprocess.run(["git", "init", "-q", "."], cwd=bench.workdir, env=environment, check=True)
    (bench.workdir / ".claude").mkdir()
    (bench.workdir / ".claude/settings.json").write_text("{}")
    if (why := bench.refusal(":", policy=WORKSPACE)) is not None and "mount namespace" in why:
        pytest.skip(why)  # there are none for us on this machine
    return bench


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_is_there_cannot_be_changed(repository: Bench) -> None:
    protected = repository.workdir / ".git", repository.workdir / ".claude"
    before = [content(folder) for folder in protected]
    script = "".join(f"({write}) 2>/dev/null && echo '{write}'\n" for write in WRITES) + ":"
    result = repository.call(script, policy=WORKSPACE)
    assert (result.output.text(), result.notes) == ("", ())
    assert [content(folder) for folder in protected] == before


@pytest.mark.parametrize("write", WRITES)
def test_without_the_namespace_it_can(repository: Bench, write: str) -> None:
    repository.own_mounts = False
    result = repository.call(f"({write}) && echo done", policy=WORKSPACE)
    assert result.output.text() == "done\n"


def test_what_is_not_there_is_left_to_the_look(repository: Bench) -> None:
    result = repository.call("echo >.envrc", policy=WORKSPACE)
    assert "/.envrc" in result.notes[0]


def test_a_commit_needs_none_of_it(repository: Bench) -> None:
    commit = (
        "echo >file; git add file; git commit -qm x; git checkout -qb other; git branch; cd .git; "
        "pwd; cat HEAD; cd ..; rm file; git stash -q; git gc -q; git log --format=%s"
    )
    result = repository.call(commit, policy=WORKSPACE)
    lines = [line for line in result.output.text().splitlines() if "x" in line or "/" in line]
    assert result.exit_code == 0, result.output.text()
    assert lines == [f"{repository.workdir}/.git", "ref: refs/heads/other", "x"]


def test_a_program_outside_has_the_mounts_of_outside(repository: Bench) -> None:
    repository.environment["LC_ALL"] = "C"
    result = repository.call(
        "/bin/pwd; cd .claude; /bin/pwd; cp settings.json more.json; cd ..;"
        "git remote add origin https://example.org/x; git remote; readlink /proc/self/ns/mnt",
        policy=WORKSPACE,
        ask=accept,  # what cp wrote is not always told apart
    )
    work = str(repository.workdir)
    assert result.output.text().splitlines()[:3] == [work, f"{work}/.claude", "origin"]
    assert result.output.text().splitlines()[3] != os.readlink("/proc/self/ns/mnt")
    assert (repository.workdir / ".claude/more.json").exists()
    assert "example.org" in (repository.workdir / ".git/config").read_text()


def test_what_the_user_writes_meanwhile_shows_inside(repository: Bench) -> None:
    config = repository.workdir / ".git/config"

    async def scenario(tool: Tool) -> CommandResult:
        results: list[CommandResult] = []

        async def call() -> None:
            script = "touch ready; until grep -q mine .git/config; do sleep 0.01; done"
            results.append(await tool(script, policy=WORKSPACE))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            while not (repository.workdir / "ready").exists():  # noqa: ASYNC110
                await trio.sleep(0.01)
            with config.open("a") as file:
                file.write("[mine]\n")
        return results[0]

    assert repository.run(scenario).exit_code == 0
