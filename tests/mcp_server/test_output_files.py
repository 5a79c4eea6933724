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

from codex_multitool.keeper import whole_output
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


def test_at_its_bound_a_file_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "_STEP", 1 << 18)
    monkeypatch.setattr(whole_output, "MAX_FILE", 1 << 20)
    result = bench.call("head -c 2000000 /dev/zero | tr '\\0' x")
    assert "the file with the output ends after 1 MiB" in result.notes


def test_a_full_disk_is_told(any_bench: Bench) -> None:
    cache = any_bench.folder / "cache"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", cache], check=False)
    if not os.path.ismount(cache):
        pytest.skip("mount(2) is not for us here")

    async def scenario(tool: Tool) -> None:
        result = await tool(COUNT)
        assert result.file is None
        assert result.notes == (
            "what was left out of the output is in no file: No space left on device",
        )
        assert text_of((await tool("seq 1 4000")).file) == "".join(
            f"{it}\n" for it in range(1, 4001)
        )

    try:
        any_bench.run(scenario)
    finally:
        subprocess.run(["umount", cache], check=True)


def filled(folder: Path, scenario: Callable[[OutputFiles], Awaitable[T]]) -> T:
    async def session() -> T:
        with closing(OutputFiles({"XDG_CACHE_HOME": str(folder)})) as files:
            return await scenario(files)

    return trio.run(session)


async def written(files: OutputFiles, data: bytes) -> str:
    """The path of a file that somebody has written; raises OSError."""
    file = OutputFile(files, ())
    try:
        fd, path, room = await file.make()
        with os.fdopen(fd, "wb") as opened:
            while room < len(data):
                room += await file.more()
            opened.write(data)
    except OSError:
        file.close(kept=False)
        raise
    file.close(kept=True)
    return path


def exists(path: str) -> bool:
    return Path(path).exists()


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "_MAX_TOTAL", 1000)
    monkeypatch.setattr(output_files, "_STEP", 300)

    async def scenario(files: OutputFiles) -> None:
        first, second, third = [await written(files, bytes([at]) * 400) for at in range(3)]
        assert not exists(first)
        assert (content(second), content(third)) == (b"\1" * 400, b"\2" * 400)
        with pytest.raises(OSError, match="other outputs take all the room"):
            await written(files, b"x" * 1001)
        assert not exists(third)
        assert content(await written(files, b"x" * 1000)) == b"x" * 1000

    filled(tmp_path, scenario)


def test_what_one_does_not_need_is_there_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files, "_MAX_TOTAL", 1000)
    monkeypatch.setattr(output_files, "_STEP", 400)

    async def scenario(files: OutputFiles) -> None:
        paths = [await written(files, b"small") for _ in range(10)]
        assert all(map(exists, paths))
        waiting = [OutputFile(files, ()) for _ in range(2)]
        made = [await file.make() for file in waiting]
        assert [room for _, _, room in made] == [400, 400]
        for file, (fd, path, _) in zip(waiting, made, strict=True):
            os.close(fd)
            file.close(kept=False)
            assert not exists(path)
        assert len(await written(files, b"x" * 800)) > 0
        assert all(map(exists, paths))

    filled(tmp_path, scenario)


def test_a_folder_that_is_not_ours_alone_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "codex-multitool").mkdir()
    (tmp_path / "codex-multitool/outputs").symlink_to("/etc")

    async def scenario(files: OutputFiles) -> None:
        assert not (await written(files, b"x")).startswith((str(tmp_path), "/etc"))
        (tmp_path / "codex-multitool/outputs").unlink()
        (tmp_path / "codex-multitool/outputs").mkdir()
        (tmp_path / "codex-multitool/outputs").chmod(0o777)
        assert not (await written(files, b"x")).startswith(str(tmp_path))

    filled(tmp_path, scenario)


KILLED = """
import os, sys, trio
from codex_multitool.mcp_server.output_files import OutputFile, OutputFiles
async def main():
    fd, path, _ = await OutputFile(OutputFiles({"XDG_CACHE_HOME": sys.argv[1]}), ()).make()
    os.write(fd, b"left behind")
    print(path, flush=True)
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
