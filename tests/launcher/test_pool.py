"""Launchers run real processes here; survivors are looked for in /proc by a mark of each test."""

import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio

from codex_multitool.launcher import main, tree
from codex_multitool.launcher.pool import Launcher, LauncherError, Pool, Spawn

MARK = "CODEX_MULTITOOL_TEST_MARK"
PATIENCE = 10.0


@contextmanager
def directory() -> Iterator[int]:
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def survivors(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


def gone_in_time(mark: str) -> bool:
    deadline = time.monotonic() + PATIENCE
    while survivors(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def until_alive(mark: str, count: int) -> None:
    with trio.fail_after(PATIENCE):
        while len(survivors(mark)) < count:  # noqa: ASYNC110 — /proc tells of no change
            await trio.sleep(0.01)


async def until_fewer(count: int) -> None:
    while len(tree.descendants(os.getpid())) >= count:  # noqa: ASYNC110 — as above
        await trio.sleep(0.01)


@asynccontextmanager
async def pool() -> AsyncIterator[Pool]:
    left_by_our_parent = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(left_by_our_parent, True)
    zygote = main.start_zygote()
    os.close(left_by_our_parent)
    async with trio.open_nursery() as nursery:
        yield Pool(zygote, nursery, idle_seconds=0.1)
        zygote.close()
        nursery.cancel_scope.cancel()


def run(scenario: Callable[[Pool], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        with trio.fail_after(60):
            async with pool() as launchers:
                return await scenario(launchers)

    return trio.run(session)


def shell(script: str, workdir: int, mark: str = "", **more: Any) -> Spawn:
    environment = {b"PATH": b"/usr/bin:/bin", MARK.encode(): mark.encode()}
    return Spawn(
        path=b"/bin/bash",
        argv=[b"bash", b"-c", script.encode()],
        environment=environment,
        workdir=workdir,
        descriptors=more.pop("descriptors", ()),
        **more,
    )


async def output_of(launcher: Launcher, script: str, **more: Any) -> str:
    reader, writer = os.pipe()
    with directory() as workdir:
        process = await launcher.spawn(shell(script, workdir, descriptors=[(writer, 1)], **more))
    os.close(writer)
    await process.wait()
    with os.fdopen(reader) as text:
        return text.read()


def test_the_exact_wait_status_comes_back() -> None:
    async def scenario(launchers: Pool) -> tuple[int, int]:
        launcher = launchers.hire()
        with directory() as workdir:
            exited = await (await launcher.spawn(shell("exit 3", workdir))).wait()
            killed = await (await launcher.spawn(shell("kill -TERM $$", workdir))).wait()
        return exited, killed

    exited, killed = run(scenario)
    assert os.waitstatus_to_exitcode(exited) == 3
    assert os.waitstatus_to_exitcode(killed) == -signal.SIGTERM


def test_descriptors_may_swap_their_numbers() -> None:
    async def scenario(launchers: Pool) -> str:
        first, second = os.pipe(), os.pipe()
        os.write(first[1], b"first")
        os.write(second[1], b"second")
        for _, writer in (first, second):
            os.close(writer)
        lent = [(second[0], first[0]), (first[0], second[0])]
        reader, writer = os.pipe()
        script = f"cat <&{first[0]}; printf /; cat <&{second[0]}; ls /proc/self/fd | wc -l"
        with directory() as workdir:
            process = await launchers.hire().spawn(
                shell(script, workdir, descriptors=[(writer, 1), *lent])
            )
        for fd in (writer, first[0], second[0]):
            os.close(fd)
        await process.wait()
        with os.fdopen(reader) as text:
            return text.read()

    # 0, 1, 2, the two lent ones and the listing's own: nothing of ours is there.
    assert run(scenario).split() == ["second/first6"]


def settable(mask: str) -> int:
    """A mask of /proc without 32 and 33, which only the threads library can set: signal(7)."""
    return int(mask, 16) & ~(3 << 31)


def test_a_command_inherits_nothing_of_pythons_signals() -> None:
    async def scenario(launchers: Pool) -> str:
        return await output_of(launchers.hire(), "cat /proc/self/status")

    fields = dict(line.split(":", 1) for line in run(scenario).splitlines())
    assert {settable(fields[name]) for name in ("SigBlk", "SigIgn", "SigCgt")} == {0}


def test_umask_limits_priority_and_signals_are_as_asked() -> None:
    async def scenario(launchers: Pool) -> str:
        return await output_of(
            launchers.hire(),
            "umask; ulimit -n; nice; grep -E '^Sig(Blk|Ign)' /proc/self/status",
            umask=0o27,
            nice=os.getpriority(os.PRIO_PROCESS, 0) + 3,
            limits=[(resource.RLIMIT_NOFILE, 64, 80)],
            blocked=[signal.SIGUSR1],
            ignored=[signal.SIGPIPE],
        )

    *others, _, blocked, _, ignored = run(scenario).split()
    assert others == ["0027", "64", str(os.getpriority(os.PRIO_PROCESS, 0) + 3)]
    assert settable(blocked) == 1 << signal.SIGUSR1 - 1
    assert settable(ignored) == 1 << signal.SIGPIPE - 1


def test_a_program_that_does_not_exist_is_an_error_with_its_errno() -> None:
    async def scenario(launchers: Pool) -> int:
        with directory() as workdir:
            missing = Spawn(b"/no/such", [b"such"], {}, workdir, ())
            process = await launchers.hire().spawn(missing)
        with pytest.raises(LauncherError, match="execve: No such file or directory") as caught:
            await process.wait()
        return caught.value.errno

    assert run(scenario) == 2


SURVIVAL_TRICKS = {
    "background": "sleep 1000 & sleep 1000",
    "setsid": "setsid sleep 1000 & sleep 1000",
    "double fork": "(setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 & sleep 1000",
    "ignores SIGTERM": "trap '' TERM HUP INT; (trap '' TERM; sleep 1000) & sleep 1000",
    "stopped": "sleep 1000 & kill -STOP $!; sleep 1000",
}


@pytest.mark.parametrize("script", SURVIVAL_TRICKS.values(), ids=SURVIVAL_TRICKS.keys())
def test_end_leaves_no_process(script: str) -> None:
    mark = uuid.uuid4().hex

    async def scenario(launchers: Pool) -> None:
        launcher = launchers.hire()
        with directory() as workdir:
            await launcher.spawn(shell(script, workdir, mark))
        await until_alive(mark, 2)
        await launcher.end(grace=0.1)
        assert launcher.empty.is_set()
        assert survivors(mark) == []

    run(scenario)


def test_background_jobs_outlive_their_shell_and_are_listed() -> None:
    mark = uuid.uuid4().hex

    async def scenario(launchers: Pool) -> tuple[tuple[int, str], ...]:
        launcher = launchers.hire()
        with directory() as workdir:
            process = await launcher.spawn(shell("sleep 1000 & exit 0", workdir, mark))
        assert await process.wait() == 0
        assert not launcher.empty.is_set()
        with trio.fail_after(PATIENCE):
            while "sleep 1000" not in dict(jobs := await launcher.jobs()).values():  # noqa: ASYNC110 — a listing, not an event
                await trio.sleep(0.01)
            for _ in range(200):  # an answer may come before the question's task goes on
                assert await launcher.jobs() == jobs
        await launcher.end(grace=1)
        return jobs

    assert [text for _, text in run(scenario)] == ["sleep 1000"]
    assert survivors(mark) == []


def test_a_killed_launcher_takes_its_processes_along() -> None:
    mark = uuid.uuid4().hex

    async def scenario(launchers: Pool) -> None:
        launcher = launchers.hire()
        with directory() as workdir:
            process = await launcher.spawn(shell("setsid sleep 1000 & sleep 1000", workdir, mark))
        await until_alive(mark, 2)
        os.kill(tree_parent(process.pid), signal.SIGKILL)
        with pytest.raises(LauncherError, match="killed"):
            await process.wait()
        assert await trio.to_thread.run_sync(gone_in_time, mark)
        # The zygote still has launchers to give.
        with directory() as workdir:
            assert await (await launchers.hire().spawn(shell(":", workdir))).wait() == 0

    run(scenario)


def tree_parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


SERVER = """
import sys, trio
sys.path.insert(0, {root!r})
from tests.launcher.test_pool import pool, shell, directory
async def session():
    async with pool() as launchers:
        with directory() as workdir:
            script = "setsid sh -c 'trap : TERM; while :; do sleep 1000; done' & sleep 1000"
            await launchers.hire().spawn(shell(script, workdir, {mark!r}))
        print("started", flush=True)
        await trio.sleep_forever()
trio.run(session)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_server_leaves_no_process(number: int) -> None:
    mark = uuid.uuid4().hex
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = SERVER.format(root=root, mark=mark)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"started\n"
        trio.run(until_alive, mark, 2)
        server.send_signal(number)
    assert gone_in_time(mark)


def test_many_commands_leak_no_descriptor_and_no_process() -> None:
    async def scenario(launchers: Pool) -> None:
        async def one() -> None:
            launcher = launchers.hire()
            with directory() as workdir:
                assert await (await launcher.spawn(shell("exit 0", workdir))).wait() == 0
            await launcher.empty.wait()
            launchers.dismiss(launcher)

        await one()
        before = (len(os.listdir("/proc/self/fd")), len(tree.descendants(os.getpid())))
        for _ in range(100):
            await one()
        async with trio.open_nursery() as nursery:
            for _ in range(32):
                nursery.start_soon(one)
        with trio.fail_after(PATIENCE):
            # The zygote, and no more launchers than are kept warm.
            await until_fewer(before[1] + 4)
        assert len(os.listdir("/proc/self/fd")) <= before[0] + 3

    run(scenario)


NO_PROCESS = """
import os, resource, sys
sys.path.insert(0, {root!r})
from tests.launcher.test_pool import meets_no_process
if os.getuid() == 0:  # whom the limit does not bind: setrlimit(2)
    os.setgroups([])
    os.setresgid(64123, 64123, 64123)
    os.setresuid(64123, 64123, 64123)
meets_no_process()
"""


def meets_no_process() -> None:
    """In a process of its own, as an ordinary user: forks fail, of zygote and launcher in turn."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]

    async def fails(launcher: Launcher, workdir: int, forking: int) -> None:
        resource.prlimit(forking, resource.RLIMIT_NPROC, (1, most))
        with pytest.raises(LauncherError, match="no process can be started: Resource temporar"):
            await launcher.spawn(shell(":", workdir))
        resource.prlimit(forking, resource.RLIMIT_NPROC, (most, most))

    async def scenario(launchers: Pool) -> None:
        (zygote,) = tree.descendants(os.getpid())
        with directory() as workdir:
            for _ in range(3):
                resource.prlimit(zygote, resource.RLIMIT_NPROC, (1, most))
                refused = launchers.hire()
                await fails(refused, workdir, zygote)
                assert refused.empty.is_set()
                launchers.dismiss(refused)
            launcher = launchers.hire()
            assert await (await launcher.spawn(shell("exit 3", workdir))).wait() == 3 << 8
            await launcher.empty.wait()
            await fails(launcher, workdir, launcher.pid)
            await launcher.empty.wait()
            sleeper = await launcher.spawn(shell("exec sleep 1000", workdir))
            await fails(launcher, workdir, launcher.pid)
            await launcher.end(0.0)
            assert await sleeper.wait() == signal.SIGKILL

    run(scenario)


def test_where_no_process_is_to_be_had_only_that_command_fails() -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    ran = subprocess.run(
        [sys.executable, "-c", NO_PROCESS.format(root=root)], capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_without_a_zygote_it_is_said_what_helps() -> None:
    async def scenario(launchers: Pool) -> None:
        (zygote,) = tree.descendants(os.getpid())
        os.kill(zygote, signal.SIGKILL)
        os.waitid(os.P_PID, zygote, os.WEXITED)  # noqa: ASYNC222 - it is ending
        with pytest.raises(LauncherError, match="start the server anew"):
            launchers.hire()

    run(scenario)
