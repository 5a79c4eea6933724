"""A result says that the sandbox was in the way where that is sure, and nowhere else."""

import sys

import pytest

from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.tool import Bench

WORKSPACE = SandboxPolicy("workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
READ_ONLY = SandboxPolicy("read-only")


@pytest.fixture
def ground(any_bench: Bench) -> Bench:
    """A bench with a folder outside its workspace, and a script that is not executable in it."""
    (any_bench.folder / "out").mkdir()
    for path in ("out/kept", "work/kept", "work/script"):
        (any_bench.folder / path).write_text("exit 1\n")
    return any_bench


def notes(bench: Bench, command: str, policy: SandboxPolicy) -> tuple[str, ...]:
    return bench.call(command.format(out=bench.folder / "out"), policy=policy).notes


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("echo x >{out}/new", "out/new"),
        ("echo x >>{out}/kept", "out/kept"),
        ("touch {out}/new {out}/other", "out/other"),
        ("mkdir '{out}/a folder'", "out/a folder"),
        ("rm {out}/kept", "out/kept"),
        ("cp script {out}/new", "out/new"),
        ("ln -s {out} link; touch link/new", "out/new"),
        (f"{sys.executable} -c \"open('{{out}}/new', 'w')\"", "out/new"),
    ],
)
def test_what_the_sandbox_kept_from_being_written_is_told_once(
    ground: Bench, command: str, path: str
) -> None:
    told = notes(ground, command, WORKSPACE)
    beginning = f"the sandbox keeps {ground.folder}/{path} from being written: commands may"
    assert [it.startswith(beginning) for it in told] == [True], told
    assert str(ground.workdir) in told[0]


@pytest.mark.parametrize("command", ["touch kept", "echo >new", "echo >kept", "chmod 700 kept"])
def test_read_only_is_told(ground: Bench, command: str) -> None:
    (told,) = notes(ground, command, READ_ONLY)
    assert "commands may write nothing" in told


@pytest.mark.parametrize(
    "command",
    [
        "false",
        "touch {out}/new; true",
        "echo 'cannot: Permission denied' >&2; false",
        "echo '/nowhere/at/all: Permission denied' >&2; false",
        "echo \"'$PWD/kept': Permission denied\" >&2; false",
        "echo '/proc/1/mem: Permission denied' >&2; false",
        "chmod -x script; ./script",
        "echo '{out}/new: No such file or directory' >&2; false",
    ],
)
def test_nothing_is_told_that_is_not_sure(ground: Bench, command: str) -> None:
    assert notes(ground, command, WORKSPACE) == ()


def test_a_file_that_is_no_program_is_no_matter_of_the_sandbox(ground: Bench) -> None:
    assert notes(ground, "./script", READ_ONLY) == ()
