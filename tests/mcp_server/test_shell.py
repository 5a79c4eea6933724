"""Calls under their sandbox states: what they may write, and what keeps them from starting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from codex_multitool.mcp_server.calls import CommandResult
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.executables import ROOT
from tests.machine import kernel_refusal
from tests.mcp_server.tool import FULL_ACCESS, Bench, Tool

READ_ONLY = SandboxPolicy("read-only")


def workspace(*roots: Path) -> SandboxPolicy:
    return SandboxPolicy(
        "workspace-write",
        writable_roots=tuple(map(str, roots)),
        exclude_slash_tmp=True,
        exclude_tmpdir_env_var=True,
    )


WORKSPACE = workspace()


def written(bench: Bench, policy: SandboxPolicy | None) -> list[str]:
    """Which of two files a command can make: one in the workspace, one beside it."""
    bench.call("echo > in; echo > ../out", policy=policy)
    return [name for name in ("work/in", "out") if (bench.folder / name).exists()]


@pytest.mark.parametrize(
    ("policy", "files"),
    [
        (None, []),
        (READ_ONLY, []),
        (WORKSPACE, ["work/in"]),
        (FULL_ACCESS, ["work/in", "out"]),
        (SandboxPolicy("external-sandbox"), ["work/in", "out"]),
    ],
    ids=["before any update", "read-only", "workspace-write", "full access", "external"],
)
def test_a_command_writes_what_its_policy_lets_it(
    bench: Bench, policy: SandboxPolicy | None, files: list[str]
) -> None:
    assert written(bench, policy) == files


@pytest.mark.parametrize(("network", "told"), [(True, ""), (False, "1")])
def test_the_command_is_told_that_it_has_no_network(
    any_bench: Bench, network: bool, told: str
) -> None:
    policy = SandboxPolicy("workspace-write", network_access=network)
    result = any_bench.call("echo $CODEX_SANDBOX_NETWORK_DISABLED", policy=policy)
    assert result.output.text() == f"{told}\n"


def test_the_workspace_is_the_states_and_not_the_calls(any_bench: Bench) -> None:
    other = any_bench.folder / "other"
    other.mkdir()
    result = any_bench.call(f"echo > no; echo > {other}/yes", policy=WORKSPACE, cwd=other)
    assert result.exit_code == 0
    assert (sorted(os.listdir(other)), os.listdir(any_bench.workdir)) == (["yes"], [])


def test_a_root_that_is_not_there_is_told(
    any_bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    missing = any_bench.folder / "missing"
    assert any_bench.call("echo > in", policy=workspace(missing)).exit_code == 0
    assert caplog.messages == [f"not writable: {missing}: No such file or directory"]


def test_a_workspace_made_anew_is_writable_again(any_bench: Bench) -> None:
    root = any_bench.folder / "root"

    async def scenario(tool: Tool) -> list[int]:
        codes = []
        for make in (False, True, True):
            if make:
                root.mkdir()
            codes.append((await tool(f": > {root}/f", policy=workspace(root))).exit_code)
            if make:
                (root / "f").unlink()
                root.rmdir()
        return codes

    assert any_bench.run(scenario) == [1, 0, 0]


def test_many_sandboxes_at_a_time_are_never_mistaken_for_each_other(any_bench: Bench) -> None:
    roots = [any_bench.folder / f"root{number}" for number in range(24)]
    for root in roots:
        root.mkdir()
    script = f"for root in {any_bench.folder}/root*; do : > $root/$1; done 2>/dev/null"
    results: list[CommandResult] = []

    async def scenario(tool: Tool) -> None:
        async def one(root: Path) -> None:
            command = script.replace("$1", root.name)
            results.append(await tool(command, policy=workspace(root), cwd=root))

        async with trio.open_nursery() as nursery:
            for root in roots:
                nursery.start_soon(one, root)

    any_bench.run(scenario)
    assert len(results) == len(roots)
    assert {root.name: os.listdir(root) for root in roots} == {
        root.name: [root.name] for root in roots
    }


def test_what_was_writable_once_is_never_trusted_again(bench: Bench) -> None:
    bench.rules = 'prefix_rule(pattern=["tool"], decision="allow")\n'
    program = bench.workdir / "tool"

    async def scenario(tool: Tool) -> CommandResult:
        make = f"printf '#!/bin/sh\\n: > {bench.folder}/out\\n' > tool; chmod +x tool"
        assert (await tool(make, policy=WORKSPACE)).exit_code == 0
        return await tool(str(program), policy=READ_ONLY)

    result = bench.run(scenario)
    assert not (bench.folder / "out").exists()
    assert [decision.decision for decision in result.decisions] == ["run"]
    assert "stays in the sandbox" in result.decisions[0].reason


# What keeps a call from being served


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/no/such", "No such file or directory"),
        ("/etc/passwd", "Not a directory"),
        ("/" + "x" * 300, "File name too long"),
    ],
)
def test_an_unusable_workdir_is_named(any_bench: Bench, path: str, why: str) -> None:
    assert any_bench.refusal("echo", workdir=path) == f"workdir {path}: {why}"


def test_a_workdir_that_names_a_link_is_followed(any_bench: Bench) -> None:
    link = any_bench.folder / "link"
    link.symlink_to(any_bench.workdir)
    assert any_bench.call("/bin/pwd", workdir=str(link)).output.text() == f"{any_bench.workdir}\n"


def test_a_command_longer_than_the_kernel_takes_is_told_as_such(any_bench: Bench) -> None:
    told = any_bench.refusal("echo " + "x" * (128 << 10))
    assert told == f"{any_bench.way.shell} in {any_bench.workdir}: execve: Argument list too long"


IN_FRESH_PROCESS = """
import os, resource, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from codex_multitool.sandbox import enforce
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.tool import Bench, Way
bench = Bench(Way("kernel", "/bin/bash", None), Path({folder!r}))
bench.workdir.mkdir()
{obstacle}
print(bench.refusal("echo > ran", policy=SandboxPolicy("workspace-write")))
print((bench.workdir / "ran").exists())
"""
TOO_MANY_LAYERS = """
for _ in range(16):  # as many as the kernel stacks: landlock(7)
    policy = SandboxPolicy("workspace-write", network_access=True)
    enforce.restrict(enforce.prepare(policy, (str(bench.folder), "/dev", "/tmp")))
"""
NO_LANDLOCK = """
enforce._landlock = lambda: enforce._Landlock(absent="this kernel has none")
"""
TOO_FEW_DESCRIPTORS = """
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
run = bench.run
def starved(scenario):
    async def without_descriptors(tool):
        try:
            while True:
                os.open("/", os.O_PATH)
        except OSError:
            return await scenario(tool)
    return run(without_descriptors)
bench.run = starved
"""


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [
        (TOO_MANY_LAYERS, "/bin/bash in {folder}/work: sandbox: "),
        (NO_LANDLOCK, "the sandbox cannot be had: this kernel has none; "),
        (TOO_FEW_DESCRIPTORS, "/bin/bash in {folder}/work: no process can be started: "),
    ],
    ids=["cannot be entered", "cannot be made", "has no keeper"],
)
def test_without_its_sandbox_a_command_does_not_run(
    tmp_path: Path, obstacle: str, why: str
) -> None:
    refused = kernel_refusal()
    if refused is not None:
        pytest.skip(f"no kernel interception: {refused}")
    code = IN_FRESH_PROCESS.format(root=str(ROOT), folder=str(tmp_path), obstacle=obstacle)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    told, ran = done.stdout.splitlines()
    assert told.startswith(why.format(folder=tmp_path))
    assert ran == "False"
