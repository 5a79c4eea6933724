"""What the user's configuration lets commands use, and what programs outside have of it."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from tests.end_to_end.ordinary import ordinary_box, ordinary_server
from tests.end_to_end.processes import CONFIG, running
from tests.end_to_end.rig import FULL_ACCESS, KERNEL, ONLY_WORKSPACE, Box, Pairing, Start, over
from tests.sandbox.confined import python

MODES = [KERNEL, Pairing()]
LIMITS = """
[codex_multitool]
max_memory = "256M"
max_cpu_seconds = 1
max_file_size = "1M"
max_open_files = 80
"""
ASK = "ulimit -d; ulimit -t; ulimit -f; ulimit -n; ulimit -c"


def configure(box: Box, text: str) -> None:
    (box.home / ".codex" / "config.toml").write_text(CONFIG + text)


def own_limits() -> list[str]:
    """What ASK says where nothing is limited."""
    kinds = [
        (resource.RLIMIT_DATA, 1024), (resource.RLIMIT_CPU, 1), (resource.RLIMIT_FSIZE, 1024),
        (resource.RLIMIT_NOFILE, 1), (resource.RLIMIT_CORE, 1024),
    ]  # fmt: skip
    soft = [(resource.getrlimit(kind)[0], unit) for kind, unit in kinds]
    return ["unlimited" if found == -1 else str(found // unit) for found, unit in soft]


@over(MODES)
def test_a_command_that_uses_up_its_limit_is_told_which(
    pairing: Pairing, start: Start, box: Box
) -> None:
    configure(box, LIMITS)
    client = start(pairing, policy=ONLY_WORKSPACE)
    grown = client.shell("dd if=/dev/zero of=file bs=64k count=40 status=none")
    assert (grown.exit_code, (box.ws / "file").stat().st_size) == (153, 1 << 20)
    busy = client.shell("while :; do :; done", timeout_ms=60_000)
    assert (busy.exit_code, busy.timed_out) == (152, False)
    for result, limit in ((grown, "max_file_size"), (busy, "max_cpu_seconds")):
        assert result.structured is not None
        assert any(limit in note for note in result.structured["notes"])
    memory = client.shell("python3 -IS -c 'bytearray(1 << 20); bytearray(300 << 20)' 2>&1")
    assert memory.lines[-1:] == ["MemoryError"]
    files = client.shell("python3 -IS -c 'import os; [os.dup(0) for n in range(100)]' 2>&1")
    assert "Too many open files" in files.output
    assert client.shell("echo on").output == "on\n"


@over(MODES)
def test_a_command_cannot_raise_its_limits(pairing: Pairing, start: Start, box: Box) -> None:
    configure(box, LIMITS)
    client = start(pairing, policy=ONLY_WORKSPACE)
    raised = "ulimit -n 81; ulimit -Hn 81; ulimit -Hc 1; prlimit --nofile=200:200 true; ulimit -n"
    result = client.shell(f"{ASK}; {raised}")
    assert result.lines[:5] == ["262144", "1", "1024", "80", "0"]
    assert result.lines[-1] == "80"


@over(MODES)
def test_without_settings_a_command_has_the_servers_limits(pairing: Pairing, start: Start) -> None:
    client = start(pairing)
    assert client.shell(ASK).lines == [*own_limits()[:-1], "0"]


@over(MODES)
def test_a_program_outside_has_the_servers_limits_whatever_its_caller_set(
    pairing: Pairing, start: Start, box: Box
) -> None:
    configure(box, LIMITS)
    client = start(pairing, rules='prefix_rule(pattern=["sh"])\n', policy=ONLY_WORKSPACE)
    set_low = "ulimit -f 4; ulimit -n 64; ulimit -s 256"
    told = client.shell(f"{set_low}; sh -c '{ASK}; yes | head -c 100000 > big; wc -c < big'")
    assert told.lines == [*own_limits()[:-1], "0", "100000"]


@pytest.fixture
def cores() -> Iterator[None]:
    """Core files as long as may be."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.usefixtures("cores")
def test_cores_are_the_users_business_where_there_is_no_sandbox(start: Start) -> None:
    client = start(KERNEL, rules='prefix_rule(pattern=["dash"])\n', policy=FULL_ACCESS)
    assert client.shell(ASK).lines == own_limits()
    # What a rule takes outside is another's to see by its core, whatever the policy.
    assert client.shell("ulimit -c unlimited; dash -c 'ulimit -c'").lines == ["0"]


MOST = 100
COUNT = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
forked = 0
try:
    while os.fork():
        forked += 1
    signal.pause()
except OSError as error:
    print(forked, error.strerror)
"""
BOMB = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def tasks() -> int:
    """The threads of the system, those of other users included."""
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].partition("/")[2])


def test_a_fork_bomb_reaches_its_limit_and_ends_with_its_call() -> None:
    config = f"[codex_multitool]\nmax_processes = {MOST}\n"
    with ordinary_box(config) as box, ordinary_server(box, KERNEL) as client:
        (box.ws / "count.py").write_text(COUNT)
        (box.ws / "bomb.py").write_text(BOMB)
        before = tasks()
        counted = client.shell(f"{python()} -IS count.py", timeout_ms=60_000)
        forked, _, error = counted.output.partition(" ")
        assert error == "Resource temporarily unavailable\n"
        assert MOST // 2 < int(forked) < before + MOST * 2
        command = f"{python()} -IS bomb.py"
        bomb = client.begin_shell(command, timeout_ms=2000)
        assert client.request("ping") == {}
        assert bomb.shell_result(60).timed_out
        assert not running(box.mark, command)
        assert client.shell("echo on", timeout_ms=60_000).output == "on\n"
