"""What a program outside makes is held against nobody, and the sandbox's is never taken for it."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from codex_multitool.mcp_server.calls import Answer, CommandResult, Question
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.tool import Bench, Tool

_ATTEMPTS = 5  # on a busy machine

WORKSPACE = SandboxPolicy("workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
RULES = "".join(
    f'prefix_rule(pattern=["{name}"], decision="allow")\n'
    for name in ("git", "mv", "npm", "/bin/dash", "/usr/bin/dash", "touch")
)
GIT = """
[user]
name = A
email = a@example.org
[init]
defaultBranch = main
"""
CLONE = "git -c protocol.file.allow=always clone file://$PWD/w"
EVIL = "printf '[core]\\nfsmonitor = ./e\\n'"
# A folder that is no repository, made by git for whoever asks it to.
WITH_FOLDER = (
    "git init -q r; cd r; mkdir g; {} >g/config; echo ref: refs/heads/x >g/HEAD;"
    " git add g; git commit -qm x; rm -r g; git checkout -q g; cd .."
)
FALSE_FILTER = "#!/bin/sh\nmkdir -p r/.git; echo '[core]' >r/.git/config\n"
BUSY = "dash -c 'echo >seen; sleep 0.5' & until [ -e seen ]; do :; done"
THROUGH_A_FILTER = (
    "mkdir -p e/.git; mkfifo p; (cat <p >e/.git/config) &"
    " dash -c 'exec 3>p; echo [core] >&3; sleep 0.1'"
)


@pytest.fixture
def workspace(bench: Bench) -> Bench:
    """A bench whose workspace holds a repository, w."""
    return prepared(bench)


def prepared(bench: Bench) -> Bench:
    bench.rules = RULES
    (bench.folder / ".gitconfig").write_text(GIT)
    script = "git init -q w; cd w; echo a >a; git add a; git commit -qm a; mkdir ../d"
    (bench.workdir / "cat").write_text(FALSE_FILTER)
    environment = {"PATH": os.environ["PATH"], "HOME": str(bench.folder)}
    subprocess.run(["sh", "-ec", script], cwd=bench.workdir, env=environment, check=True)
    return bench


async def nobody(_question: Question) -> Answer:
    return Answer("unavailable")


def calls(bench: Bench, *commands: str, seconds: int = 30) -> list[CommandResult]:
    """What they give, one call after the other, where nobody may be asked."""

    async def scenario(tool: Tool) -> list[CommandResult]:
        return [
            await tool(command, policy=WORKSPACE, timeout_ms=seconds * 1000, ask=nobody)
            for command in commands
        ]

    return bench.run(scenario)


def held(results: list[CommandResult]) -> list[str]:
    """What was held against the sandbox."""
    return [note for it in results for note in it.notes if "a sandboxed command" in note]


# What is done outside, and where git is asked afterwards.
MADE = {
    "a new repository": ("git init -q r", "r"),
    "in a folder that was there": ("git init -q d", "d"),
    "at the end of a pipeline": ("git init r 2>&1 | tail -1", "r"),
    "a clone, deep in new folders": (f"{CLONE} a/b/c 2>&1 | cat", "a/b/c"),
    "a worktree": ("cd w; git worktree add -q ../t", "t"),
    "a submodule": (
        "cd w; git -c protocol.file.allow=always submodule --quiet add file://$PWD s",
        "w/s",
    ),
    "settings of another repository": ("git -C w remote add o x", "w"),
    "beside a job": ("sleep 60 & sleep 0.3; git init -q r", "r"),
    "renamed outside": ("git init -q q; mv q r", "r"),
    "renamed inside": ('git init -q q; perl -e "rename q(q), q(r)"', "r"),
    "by what outlives the program": ("dash -c '(sleep 0.2; git init -q r) &'; sleep 1", "r"),
    "after a while": ("dash -c 'sleep 0.3; git init -q r'; :", "r"),
}


@pytest.mark.parametrize("made", MADE)
def test_what_a_program_outside_makes_is_held_against_nobody(workspace: Bench, made: str) -> None:
    command, place = MADE[made]
    for _ in range(_ATTEMPTS):
        results = calls(workspace, command, f"cd {place} && git status -s", "git --version")
        if not held(results):
            break
        # Something else may keep the sandbox from sleeping in time.
        shutil.rmtree(workspace.workdir)
        workspace.workdir.mkdir()
        prepared(workspace)
    assert held(results) == []
    assert [it.exit_code for it in results] == [0, 0, 0], results
    assert "escalate" in [it.decision for it in results[1].decisions]


def test_it_is_used_from_inside_before_git_is_asked(workspace: Bench) -> None:
    inside = f"cd r; {sys.executable} -c \"open('.git/index.lock', 'w')\"; rm .git/index.lock"
    results = calls(workspace, "git init -q r", inside, "cd r && git status -s")
    assert (held(results), results[2].exit_code) == ([], 0)


def test_packages_installed_outside_are_held_against_nobody(any_bench: Bench) -> None:
    bench = prepared(any_bench)
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    package = bench.workdir / "package"
    (package / ".vscode").mkdir(parents=True)
    (package / ".vscode/settings.json").write_text("{}")
    (package / "package.json").write_text('{"name": "p", "version": "1.0.0"}')
    install = "npm install --offline --no-audit --no-fund --silent --install-links ./package"
    results = calls(
        bench,
        f"{install} 2>&1 | tail -3",
        "cd node_modules/p && touch ../t",
        "git --version",
        seconds=120,
    )
    assert (bench.workdir / "node_modules/p/.vscode/settings.json").exists(), results
    assert held(results) == []
    assert [it.exit_code for it in results] == [0, 0, 0]


def test_a_wheel_installed_outside_is_held_against_nobody(any_bench: Bench) -> None:
    bench = prepared(any_bench)
    venv = bench.workdir / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    wheel = bench.workdir / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("p/.vscode/settings.json", "{}")
        archive.writestr("p-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: p\nVersion: 1\n")
        archive.writestr("p-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("p-1.dist-info/RECORD", "")
    pip = [sys.executable, "-m", "pip", "--version"]
    if subprocess.run(pip, capture_output=True, check=False).returncode:
        pytest.skip("there is no pip")
    bench.rules += f'prefix_rule(pattern=["{os.path.realpath(sys.executable)}", "-I"])\n'
    script = bench.folder / "install.py"
    script.write_text(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pip._internal.cli.main import main; sys.exit(main(sys.argv[1:]))\n"
    )
    install = f"install -q --no-deps --no-index --target lib {wheel.name}"
    results = calls(
        bench,
        f"{os.path.realpath(sys.executable)} -I {script} {install} 2>&1 | tail -5",
        "cd lib/p && touch ../t",
        seconds=120,
    )
    assert (bench.workdir / "lib/p/.vscode/settings.json").exists(), results
    assert "escalate" in [it.decision for it in results[0].decisions]
    assert (held(results), results[1].exit_code) == ([], 0)


# What the sandbox does, and where a program is to leave it afterwards.
WRITTEN = {
    "beside what a program made": ("git init -q r; mkdir -p e/.git; {} >e/.git/config", "e"),
    "into what a program made": ("git init -q r; {} >>r/.git/config", "r"),
    "before a program moved it": ("mkdir -p e/.git; {} >e/.git/config; sleep 0.02; mv e r", "r"),
    "as a folder of another name": (
        f"{WITH_FOLDER}; mkdir e; perl -e 'rename q(r/g), q(e/.git)'",
        "e",
    ),
    "while a program ran": (f"{BUSY}; mkdir -p r/.git; {{}} >r/.git/config; wait", "r"),
    "by a filter that was given the file": (f"{THROUGH_A_FILTER}; wait", "e"),
    "in the name of a filter": ("chmod +x cat; git --version | ./cat", "r"),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_what_the_sandbox_writes_is_not_taken_for_a_programs(
    workspace: Bench, written: str
) -> None:
    command, place = WRITTEN[written]
    first, second = calls(workspace, command.format(EVIL), f"cd {place} && touch ../left")
    assert first.exit_code == 0, first
    assert "escalate" in [it.decision for it in first.decisions]
    assert second.exit_code == 1
    assert not (workspace.workdir / "left").exists()
    assert f"{place}/.git" in second.decisions[0].reason


def test_what_either_may_have_written_is_told_as_that(workspace: Bench) -> None:
    folder = Path(workspace.workdir)
    (first,) = calls(
        workspace,
        "dash -c 'echo >seen; sleep 0.5' & until [ -e seen ]; do :; done; echo >.envrc; wait",
    )
    told = f"a sandboxed command or a program outside, nobody saw which, wrote {folder}/.envrc"
    assert [note for note in first.notes if note.startswith(told)]
