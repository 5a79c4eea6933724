"""Our own processes: what they hold open, what they hand on, and who may look into them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.client import Client, Question
from tests.end_to_end.ordinary import USER, ordinary_box, ordinary_server
from tests.end_to_end.processes import marked, running, wait_until
from tests.end_to_end.rig import KERNEL, ONLY_WORKSPACE, Box, Pairing, over, server_command
from tests.sandbox.confined import python

MODES = [KERNEL, Pairing()]
RULES = """
prefix_rule(pattern=["sh"])
prefix_rule(pattern=["touch"], decision="prompt")
"""
# Whoever starts a server may have left all sorts of things open.
UNTIDY = 'exec 9</dev/null 77</etc/passwd; exec "$@"'
_CLOEXEC = 0o2000000  # O_CLOEXEC, as in proc_pid_fdinfo(5)


def descriptors(pid: int) -> dict[int, str]:
    """What a process has open."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue  # it has just been closed
    return found


def handed_on(pid: int) -> set[int]:
    """The descriptors that an execve(2) of the process would keep."""
    found = set()
    for number in descriptors(pid):
        try:
            info = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
        except FileNotFoundError:
            continue  # it has just been closed
        (flags,) = [line.split()[1] for line in info.splitlines() if line.startswith("flags:")]
        if not int(flags, 8) & _CLOEXEC:
            found.add(number)
    return found


def own(box: Box, name: str) -> list[int]:
    """The zygote, the keepers, or their spawners, by name."""
    found = []
    for process in marked(box.mark):
        try:
            if Path(f"/proc/{process.pid}/comm").read_text().strip() == name:
                found.append(process.pid)
        except OSError:
            continue  # it has just ended
    return found


def pid_of(box: Box, command: str) -> int:
    (pid,) = [process.pid for process in marked(box.mark) if process.command == command]
    return pid


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def busy(pairing: Pairing, box: Box, stack: ExitStack) -> Client:
    """A server with calls, a question, an escalated program and a background job."""
    asked: list[Question] = []
    box.rules.write_text(RULES)
    client = Client(
        ["bash", "-c", UNTIDY, "bash", *server_command(pairing)],
        env=box.environment(),
        cwd=box.ws,
        stderr=box.root / "stderr",
        answer=asked.append,
    )
    stack.callback(client.close)
    client.initialize()
    client.request("codex/sandbox-state/update", box.state(ONLY_WORKSPACE))
    client.shell("sleep 651 >/dev/null 2>&1 &")
    for _ in range(4):
        client.begin_shell("exec sleep 652", timeout_ms=600_000)
    client.begin_shell("touch x; :", timeout_ms=600_000)
    client.begin_shell("sleep 650 & echo $$ > inside; wait", timeout_ms=600_000)
    client.begin_shell("exec 7</dev/zero; sh -c 'exec sleep 653'; :", timeout_ms=600_000)
    wait_until(lambda: bool(asked), "the question")
    wait_until(lambda: running(box.mark, "sleep 653"), "the escalated program")
    wait_until((box.ws / "inside").exists, "the shell")
    return client


@over(MODES)
def test_nothing_of_the_servers_is_open_in_anything_it_started(
    pairing: Pairing, box: Box, stack: ExitStack
) -> None:
    client = busy(pairing, box, stack)
    streams = (client.process.stdin, client.process.stdout)
    protocol = {os.readlink(f"/proc/self/fd/{it.fileno()}") for it in streams if it is not None}
    (zygote,) = own(box, "codex-zygote")
    keepers, spawners = own(box, "codex-keeper"), own(box, "codex-spawner")
    assert len(keepers) >= 7
    assert len(spawners) >= 7
    shell = int((box.ws / "inside").read_text())
    inside = {0, 1, 2} if pairing.wrapper is None else {0, 1, 2, 197}
    assert set(descriptors(shell)) == inside
    assert set(descriptors(pid_of(box, "sleep 653"))) == {0, 1, 2, 7}
    # The server's socket, a page that only the server writes, a pipe that tells of children, and
    # their list.
    assert len(descriptors(zygote)) == 8
    for pid in spawners:
        # Its keeper's socket, once it is confined.
        wait_until(lambda pid=pid: len(descriptors(pid)) == 4, "a spawner")  # type: ignore[misc]
    for pid in (zygote, *keepers, *spawners, shell, pid_of(box, "sleep 653")):
        held = set(descriptors(pid).values())
        assert "/etc/passwd" not in held
        assert not held & protocol
        assert not [it for it in held if "landlock" in it]
        assert pid in keepers or not [it for it in held if "notify" in it]
    for pid in (client.process.pid, zygote, *keepers, *spawners):
        assert handed_on(pid) - {9, 77} <= {0, 1, 2}


LOOK = """
import ctypes, os, sys
pid = sys.argv[1]
for name in ("environ", "mem", "fd", "fdinfo", "maps", "cwd", "ns/mnt"):
    path = f"/proc/{pid}/{name}"
    try:
        if name in ("cwd", "ns/mnt"):
            os.readlink(path)
        elif name == "fd":
            os.readlink(path + "/0")
        elif name == "fdinfo":
            open(path + "/0").read()
        else:
            open(path, "rb").close()
        print(name, "open")
    except OSError as error:
        print(name, "closed")
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
libc = ctypes.CDLL(None, use_errno=True)
seized = libc.ptrace(PTRACE_SEIZE, int(pid), None, None) == 0
print("ptrace", "open" if seized else "closed")
"""


def look(pid: int) -> dict[str, str]:
    """What another process of the same user may see of this one."""
    become = {"user": USER, "group": USER, "extra_groups": ()} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [python(), "-ISc", LOOK, str(pid)],
        capture_output=True, text=True, check=True, timeout=60, cwd="/", **become,  # type: ignore[call-overload]
    )  # fmt: skip
    return dict(line.split() for line in done.stdout.splitlines())


def core_limit(pid: int) -> tuple[str, str]:
    """Soft and hard limit of core files."""
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max core file size"):
            soft, hard = line.split()[4:6]
            return soft, hard
    raise AssertionError


def test_no_process_of_the_user_may_look_into_ours() -> None:
    rules = 'prefix_rule(pattern=["sh"])\n'
    with ordinary_box("") as box, ordinary_server(box, KERNEL, rules=rules) as client:
        client.begin_shell("echo $$ > inside; sh -c 'exec sleep 654'; :", timeout_ms=600_000)
        wait_until(lambda: running(box.mark, "sleep 654"), "the escalated program")
        ours = [client.process.pid, *tree(client.process.pid)]
        assert len(ours) >= 3
        for pid in ours:
            assert set(look(pid).values()) == {"closed"}, Path(f"/proc/{pid}/comm").read_text()
            assert core_limit(pid)[0] == "0"
        # It is ours alone: the programs it starts are the user's to look at as ever.
        outside = pid_of(box, "sleep 654")
        seen = look(outside)
        assert {seen[name] for name in ("environ", "fd", "cwd")} == {"open"}
        # But a core would show a sandbox, which may signal its stand-in, what only it may see.
        assert core_limit(outside) == ("0", "0")


def tree(server: int) -> list[int]:
    """The zygote, its keepers and their spawners: below the server, and named so."""
    ours = ("codex-zygote", "codex-keeper", "codex-spawner")
    found: list[int] = []
    parents = {server}
    for _ in range(3):
        below = set()
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            comm, fields = stat.partition("(")[2].rpartition(")")[::2]
            if int(fields.split()[1]) in parents and comm in ours:
                below.add(int(name))
        found += below
        parents = below
    return found


def test_everything_works_for_an_ordinary_user() -> None:
    rules = 'prefix_rule(pattern=["sh"])\nprefix_rule(pattern=["git"], decision="forbidden")\n'
    state = {"sandboxPolicy": ONLY_WORKSPACE}
    with ordinary_box("") as box, ordinary_server(box, KERNEL, rules=rules) as client:
        client.request("codex/sandbox-state/update", {**state, "sandboxCwd": str(box.ws)})
        assert client.shell("env echo hi | cat").output == "hi\n"
        escalated = client.shell(f"sh -c 'echo x > {box.out}/file; cat <&7' 7<<<seven; echo rc=$?")
        assert escalated.output == "seven\nrc=0\n"
        assert (box.out / "file").exists()
        refused = client.shell(f"echo x > {box.out}/other || git status; echo rc=$?")
        assert refused.lines[-1] == "rc=1"
        assert "forbidden" in refused.output
        assert not (box.out / "other").exists()
        killed = client.shell("(setsid sleep 655 &) ; sh -c 'sleep 656 & wait'", timeout_ms=1500)
        assert killed.timed_out
        wait_until(lambda: not running(box.mark, "sleep 655"), "the end of what was left")
        wait_until(lambda: not running(box.mark, "sleep 656"), "the end of what was left outside")


def test_the_output_ends_with_a_killed_server(box: Box) -> None:
    client = Client(
        server_command(KERNEL),
        env=box.environment(),
        cwd=box.ws,
        stderr=box.root / "stderr",
    )
    client.initialize()
    client.begin_shell("trap '' TERM; sleep 657; sleep 657", timeout_ms=600_000)
    wait_until(lambda: running(box.mark, "sleep 657"), "the command")
    (zygote,) = own(box, "codex-zygote")
    os.kill(zygote, 19)  # SIGSTOP: it is in no hurry
    try:
        client.process.kill()
        before = time.monotonic()
        client.wait()
        assert time.monotonic() - before < 15
    finally:
        os.kill(zygote, 18)
        client.close()
