"""The file with a whole output: commands can read it, and do nothing else to it."""

import os
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from codex_multitool.mcp_server import output_files
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.mcp_server.tool import FULL_ACCESS, Bench, Tool, accept

READ_ONLY = SandboxPolicy("read-only")
ONLY_WORKSPACE = SandboxPolicy(
    "workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True
)
COUNT = "seq 1 100000"
WHOLE = "".join(f"{number}\n" for number in range(1, 100_001))
T = TypeVar("T")


def text_of(path: str | None) -> str:
    assert path is not None
    return Path(path).read_text()


def mode_of(path: str | None, *, folder: bool = False) -> int:
    assert path is not None
    return stat.S_IMODE((Path(path).parent if folder else Path(path)).stat().st_mode)


def servers(bench: Bench) -> list[Path]:
    return list((bench.folder / "cache/codex-multitool/outputs").glob("*"))


@pytest.mark.parametrize("policy", [READ_ONLY, ONLY_WORKSPACE, FULL_ACCESS], ids=lambda p: p.kind)
def test_a_following_command_reads_what_was_left_out(bench: Bench, policy: SandboxPolicy) -> None:
    async def scenario(tool: Tool) -> None:
        result = await tool(COUNT, policy=policy)
        assert text_of(result.file) == WHOLE
        assert (mode_of(result.file), mode_of(result.file, folder=True)) == (0o600, 0o700)
        middle = await tool(f"sed -n 50000,50002p {result.file}", policy=policy)
        assert middle.output.text() == "50000\n50001\n50002\n"
        assert middle.file is None
        assert len(servers(bench)) == 1

    bench.run(scenario)
    assert servers(bench) == []


CHANGES = {
    "write": "echo x >> {}",
    "truncate": "truncate -s 0 {}",
    "unlink": "rm -f {}",
    "replace": "echo x > new; mv -f new {}",
    "link": "ln -f {} there && echo x >> there",
    "chmod": "chmod 666 {} && echo x > {}",
    "folder": "mv $(dirname {}) elsewhere",
}


@pytest.mark.parametrize("policy", [READ_ONLY, ONLY_WORKSPACE], ids=lambda p: p.kind)
def test_no_command_changes_it(bench: Bench, policy: SandboxPolicy) -> None:
    async def scenario(tool: Tool) -> None:
        file = (await tool(COUNT, policy=policy)).file
        for change in CHANGES.values():
            await tool(change.format(file, file), policy=policy, ask=accept)
            assert text_of(file) == WHOLE, change

    bench.run(scenario)


def test_streams_stand_in_it_in_the_order_they_came(bench: Bench) -> None:
    async def scenario(tool: Tool) -> None:
        result = await tool(f"echo first >&2; sleep .2; {COUNT}; sleep .2; echo last >&2")
        assert text_of(result.file) == f"first\n{WHOLE}last\n"

    bench.run(scenario)


def test_small_outputs_touch_no_disk(bench: Bench) -> None:
    async def scenario(tool: Tool) -> None:
        assert (await tool("seq 1 500")).file is None
        assert not (bench.folder / "cache").exists()

    bench.run(scenario)


def test_a_folder_that_the_command_could_write_is_not_used(bench: Bench) -> None:
    roots = (str(bench.folder),)
    policy = SandboxPolicy("workspace-write", writable_roots=roots, exclude_slash_tmp=True)

    async def scenario(tool: Tool) -> None:
        result = await tool(COUNT, policy=policy)
        assert result.file is None or not result.file.startswith(str(bench.folder))
        # Nor one that an earlier command could have prepared.
        result = await tool(COUNT, policy=READ_ONLY)
        assert result.file is None or not result.file.startswith(str(bench.folder))
        everywhere = SandboxPolicy("workspace-write", writable_roots=("/",))
        result = await tool(COUNT, policy=everywhere)
        assert result.file is None
        assert "what was left out of the output is in no file" in result.notes[0]

    bench.run(scenario)


def filled(folder: Path, scenario: Callable[[OutputFiles], Awaitable[T]]) -> T:
    async def session() -> T:
        with closing(OutputFiles({"XDG_CACHE_HOME": str(folder)})) as files:
            return await scenario(files)

    return trio.run(session)


async def written(files: OutputFiles, *pieces: bytes) -> OutputFile:
    file = OutputFile(files, ())
    for piece in pieces:
        file.feed(piece)
        if file.due:
            await file.write()
    await file.finish()
    return file


def exists(path: str | None) -> bool:
    assert path is not None
    return Path(path).exists()


def content(file: OutputFile) -> bytes:
    assert file.path is not None
    return Path(file.path).read_bytes()


def test_a_file_ends_at_its_bound_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files, "_MAX_FILE", 1 << 20)

    async def scenario(files: OutputFiles) -> None:
        whole = await written(files, b"x" * (1 << 20))
        assert (len(content(whole)), whole.note) == (1 << 20, "")
        cut = await written(files, b"x" * (1 << 20), b"y")
        assert (len(content(cut)), cut.note) == (
            1 << 20,
            "the file with the output ends after 1 MiB",
        )

    filled(tmp_path, scenario)


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "_MAX_TOTAL", 1000)

    async def scenario(files: OutputFiles) -> None:
        first, second, third = [await written(files, bytes([at]) * 400) for at in range(3)]
        assert not exists(first.path)
        assert (content(second), content(third)) == (b"\1" * 400, b"\2" * 400)
        too_large = await written(files, b"x" * 1001)
        assert too_large.path is None
        assert "other outputs take all the room" in too_large.note
        assert not exists(third.path)
        assert content(await written(files, b"small")) == b"small"

    filled(tmp_path, scenario)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=False)
    if not os.path.ismount(tmp_path):
        pytest.skip("mount(2) is not for us here")

    async def scenario(files: OutputFiles) -> None:
        file = await written(files, b"x" * (1 << 18))
        assert file.path is None
        assert file.note == "what was left out of the output is in no file: No space left on device"
        assert content(await written(files, b"small")) == b"small"

    try:
        filled(tmp_path, scenario)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_folder_that_is_not_ours_alone_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "codex-multitool").mkdir()
    (tmp_path / "codex-multitool/outputs").symlink_to("/etc")

    async def scenario(files: OutputFiles) -> None:
        file = await written(files, b"x")
        assert file.path is None or not file.path.startswith((str(tmp_path), "/etc"))
        (tmp_path / "codex-multitool/outputs").unlink()
        (tmp_path / "codex-multitool/outputs").mkdir()
        (tmp_path / "codex-multitool/outputs").chmod(0o777)
        file = await written(files, b"x")
        assert file.path is None or not file.path.startswith(str(tmp_path))

    filled(tmp_path, scenario)


KILLED = """
import os, sys, trio
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
async def main():
    file = OutputFile(OutputFiles({"XDG_CACHE_HOME": sys.argv[1]}), ())
    file.feed(b"left behind")
    await file.finish()
    print(file.path, flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
    os._exit(0)
trio.run(main)
"""


def test_what_a_killed_server_left_behind_is_removed_and_nothing_else(tmp_path: Path) -> None:
    def start(what: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", KILLED, str(tmp_path), what]
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    with start("end") as ended, start("wait") as running:
        assert ended.stdout is not None
        assert running.stdout is not None
        left, used = Path(ended.stdout.readline().strip()), Path(running.stdout.readline().strip())
        ended.wait(20)
        (left.parent.parent / "another").mkdir()
        filled(tmp_path, OutputFiles.sweep)
        assert not left.parent.exists()
        assert used.read_text() == "left behind"
        assert (left.parent.parent / "another").exists()
        running.communicate("", 20)
    filled(tmp_path, OutputFiles.sweep)
    assert not used.exists()
