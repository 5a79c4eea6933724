"""Kernel interception at work: whole process trees, real builds, load, and races."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.client import Client, Question, ShellResult, decline
from tests.end_to_end.processes import marked, wait_until
from tests.end_to_end.rig import (
    KERNEL,
    WORKSPACE,
    Box,
    Start,
    server_command,
    shell_path,
    which,
)
from tests.end_to_end.shared import Share
from tests.executables import loader

FORBIDDEN = 'prefix_rule(pattern=["uname"], decision="forbidden")\n'
PROGRAMS = Path(__file__).resolve().parent.parent / "interception" / "programs"
MANY = 5000
FLIPS, FLIP_SECONDS = 10_000, 15
LONG_SECONDS = 900

# A build back end (PEP 517) that needs nothing: it packs one module and one script.
BACKEND = """
import zipfile
def build_wheel(directory, settings=None, metadata=None):
    name = "thing-1-py3-none-any.whl"
    files = {
        "thing.py": "def main(): print('installed and run')",
        "thing-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: thing\\nVersion: 1\\n",
        "thing-1.dist-info/WHEEL":
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "thing-1.dist-info/entry_points.txt": "[console_scripts]\\nthing = thing:main\\n",
    }
    record = "".join(f"{file},,\\n" for file in [*files, "thing-1.dist-info/RECORD"])
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        for file, text in {**files, "thing-1.dist-info/RECORD": record}.items():
            wheel.writestr(file, text)
    return name
"""

# Ways to run a program that the call's own shell does not execute itself.
DETOURS = [
    "env uname",
    "nice uname",
    "echo . | xargs uname",
    "find . -maxdepth 0 -exec uname ';'",
    "sh -c 'sh -c uname'",
    "bash -c 'exec -a ls uname'",
    "perl -e 'exec \"uname\"'",
    "printf 'all:\\n\\t@uname\\n' > m && make -sf m",
    "git -c alias.x='!uname' x",
    "/proc/self/root$(command -v uname)",
    "ln -s $(command -v uname) other && ./other",
    f"{loader(which('uname'))} $(command -v uname)",
    "printf '#!/usr/bin/env uname\\n' > s && chmod +x s && ./s",
    f"{sys.executable} -c 'import subprocess as s; print(s.run([\"uname\"]))'",
    f'{sys.executable} -c \'import os; os.posix_spawn("/usr/bin/uname", ["ls"], {{}})\'',
]


def decisions(result: ShellResult) -> list[str]:
    """What was decided, of the execs worth telling."""
    assert result.structured is not None
    return [decision["decision"] for decision in result.structured["decisions"]]


def long_shell(client: Client, command: str) -> ShellResult:
    """A call that may take minutes on a busy machine."""
    call = client.begin_shell(command, timeout_ms=LONG_SECONDS * 1000)
    return call.shell_result(LONG_SECONDS)


@pytest.mark.parametrize("detour", DETOURS)
def test_no_detour_leads_to_a_forbidden_program(share: Share, detour: str) -> None:
    client = share(KERNEL, rules=FORBIDDEN, policy=WORKSPACE)
    result = client.shell(detour)
    assert "Linux" not in result.output
    assert "Execution denied: Execution forbidden by policy" in result.output
    assert "deny" in decisions(result)


# Where a refused exec says why; each prints the status and what came there.
TOLD = {
    "pipe": "uname 2>&1; echo $?",
    "file": "uname 2>f; echo $?; cat f",
    "append": "echo first >f; uname 2>>f; echo $?; sed 1d f",
    "socket": f"{sys.executable} -c '{{SOCKET}}'",
    "read end": "uname 2</dev/zero; echo $?",
    "null": "uname 2>/dev/null; echo $?",
    "closed": "uname 2>&-; echo $?",
}
SOCKET = """
import socket, subprocess
ours, theirs = socket.socketpair()
print(subprocess.run(["uname"], stderr=theirs).returncode)
print(ours.recv(1000).decode(), end="")
"""


@pytest.mark.parametrize("where", TOLD)
def test_a_refusal_is_told_wherever_stderr_leads(share: Share, where: str) -> None:
    client = share(KERNEL, rules=FORBIDDEN, policy=WORKSPACE)
    result = client.shell(TOLD[where].replace("{SOCKET}", SOCKET))
    heard = where in ("pipe", "file", "append", "socket")
    told = [line.startswith("Execution denied: Execution forbidden") for line in result.lines]
    assert sorted(told) == [False, True][: 1 + heard], result.output
    assert "1" in result.lines
    assert decisions(result) == ["deny"]


FULL = """
import os, subprocess, sys
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, b"-" * 4096)
except BlockingIOError:
    pass
os.set_blocking(writer, sys.argv[1] == "blocking")
child = subprocess.Popen(["uname"], stderr=writer)
subprocess.run(["true"], check=True)
os.close(writer)
if sys.argv[1] == "blocking":
    print(b"".join(iter(lambda: os.read(reader, 65536), b"")).lstrip(b"-").decode(), end="")
print(child.wait())
"""


@pytest.mark.parametrize("mode", ["blocking", "not blocking"])
def test_a_refusal_that_nobody_reads_yet_holds_up_nobody(share: Share, box: Box, mode: str) -> None:
    client = share(KERNEL, rules=FORBIDDEN, policy=WORKSPACE)
    (box.ws / "full.py").write_text(FULL)
    result = client.shell(f"{sys.executable} full.py '{mode}'", timeout_ms=60_000)
    *told, status = result.lines
    assert status == "1"
    if mode == "blocking":
        assert told[0].startswith("Execution denied: Execution forbidden by policy")
    assert decisions(result) == ["deny"]


@pytest.mark.parametrize("shell", ["dash", "busybox sh", "zsh", "fish", "bash"])
def test_any_stock_shell_will_do(start: Start, box: Box, shell: str) -> None:
    name, *_ = shell.split()
    path = Path(which(name))
    if name == "busybox":
        path = box.root / "sh"
        path.symlink_to(which(name))
    client = start(KERNEL, rules=FORBIDDEN, options=["--shell", str(path)])
    # By its path: some builds of busybox execute nothing for a name of their own.
    result = client.shell(f"{which('uname')}; echo on", login=False)
    assert "on" in result.lines
    assert "Execution denied" in result.output


def test_nothing_of_ours_is_inherited(start: Start) -> None:
    client = start(KERNEL, policy=WORKSPACE)
    result = client.shell("ls /proc/self/fd | wc -l; env | grep -ciE 'CODEX_ESC|EXEC_WRAPPER'")
    assert result.lines == ["4", "0"]  # 0, 1, 2 and the listing's own


def test_a_question_holds_up_no_other_exec(start: Start, box: Box) -> None:
    open_now = box.ws / "open"

    def answer(question: Question) -> dict[str, object]:
        open_now.touch()
        wait_until((box.ws / "done").exists, "the other program's work while the question is open")
        return decline(question)

    rules = 'prefix_rule(pattern=["uname"], decision="prompt")\n'
    client = start(KERNEL, rules=rules, policy=WORKSPACE, answer=answer)
    other = "while ! test -e open; do sleep 0.05; done; touch done"
    result = client.shell(f"({other}) & uname; wait")
    assert "User declined execution" in result.output
    assert (box.ws / "done").exists()


@pytest.mark.long
def test_five_thousand_execs_of_a_parallel_make_are_all_judged(start: Start, box: Box) -> None:
    targets = " ".join(f"t{n}" for n in range(MANY))
    (box.ws / "Makefile").write_text(f"all: {targets}\n{targets}:\n\t@{which('true')} $@\n")
    client = start(KERNEL, rules=FORBIDDEN, policy=WORKSPACE)
    result = long_shell(client, f"{which('make')} -j8 && echo whole")
    assert result.lines == ["whole"]
    assert result.exit_code == 0


def test_a_megabyte_of_arguments_and_odd_bytes_are_judged(start: Start) -> None:
    rules = 'prefix_rule(pattern=["printf", "%s", "caf\\u00e9"], decision="forbidden")\n'
    client = start(KERNEL, rules=rules, policy=WORKSPACE)
    ten = "$(head -c 100000 /dev/zero | tr '\\0' x)"
    words = " ".join([ten] * 10)
    result = client.shell(f"/usr/bin/printf '%s' {words} | wc -c")
    assert result.lines == ["1000000"]
    assert "denied" in client.shell("/usr/bin/printf %s caf$'\\xc3\\xa9'").output
    assert "denied" not in client.shell("/usr/bin/printf %s caf$'\\xe9'").output


@pytest.fixture(scope="module")
def racers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """flip, and its two targets: target_f is the forbidden one."""
    folder = tmp_path_factory.mktemp("racers")
    alone = ["-static", "-nostdlib", "-ffreestanding"]
    for name, source, options in (
        ("flip", "flip.c", ["-pthread"]),
        ("target_a", "target.c", alone),
        ("target_f", "target.c", [*alone, "-DFORBIDDEN=1"]),
    ):
        command = [which("gcc"), *options, "-o", str(folder / name), str(PROGRAMS / source)]
        subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.mark.long
def test_a_racing_thread_never_runs_the_forbidden_program(start: Start, racers: Path) -> None:
    rules = f"""
prefix_rule(pattern=["{racers}/target_f"], decision="forbidden")
prefix_rule(pattern=["target_a", "f"], decision="forbidden")
"""
    client = start(KERNEL, rules=rules, policy=WORKSPACE)
    command = f"{racers}/flip {FLIPS} {FLIP_SECONDS} {racers}/target_a"
    result = long_shell(client, command)
    assert result.structured is not None
    told = result.structured["output"].splitlines()[-1].split()
    allowed, forbidden, killed, denied, refused, tries = map(int, told)
    assert forbidden == 0
    assert allowed > 0
    assert denied > 0
    assert tries == allowed + killed + denied + refused


def test_a_killed_server_leaves_nothing_running_free(start: Start, box: Box) -> None:
    client = start(KERNEL, rules=FORBIDDEN, policy=WORKSPACE)
    # Not seen by a killed server: this goes on until it is ended, or escapes if it can.
    client.begin_shell("touch up; while :; do uname > escaped; done")
    wait_until((box.ws / "up").exists, "the command runs")
    os.kill(client.process.pid, signal.SIGKILL)
    wait_until(lambda: not marked(box.mark), "no process left")
    escaped = box.ws / "escaped"
    assert not escaped.exists() or escaped.read_text() == ""


@pytest.mark.long
def test_a_c_project_is_configured_and_built(start: Start, box: Box) -> None:
    cache = Path(os.environ.get("CODEX_MULTITOOL_CACHE", Path.home() / ".cache/codex-multitool"))
    found = sorted(cache.glob("apt/*/downloads/bash_*.orig.tar.*"))
    if not found:
        pytest.skip("bash's source is not fetched: run make shells")
    subprocess.run(["tar", "-xf", found[0], "-C", box.ws], check=True, timeout=60)
    client = start(KERNEL, rules=FORBIDDEN.replace("uname", "curl"), policy=WORKSPACE)
    options = "--without-bash-malloc --disable-nls CFLAGS=-O0"  # as many execs in half the time
    build = f"./configure {options} >../log 2>&1 && make -j4 >>../log 2>&1"
    script = f"cd bash-* && {build} && ./bash -c 'echo $BASH_VERSION built' || tail -n 20 ../log"
    # The packaging's build of the same source, outside any sandbox, is what it must equal.
    result = long_shell(client, script)
    assert result.exit_code == 0
    assert result.output.rstrip().endswith("built")
    assert decisions(result) == []


@pytest.mark.long
def test_a_package_is_installed_into_a_virtual_environment(start: Start, box: Box) -> None:
    package = box.ws / "thing"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    (package / "backend.py").write_text(BACKEND)
    # Not uname, which pip asks itself.
    client = start(KERNEL, rules=FORBIDDEN.replace("uname", "curl"), policy=WORKSPACE)
    install = "pip install --no-index --no-build-isolation --no-deps -q ./thing"
    venv = f"{sys.executable} -m venv v"
    result = long_shell(client, f"{venv} && v/bin/{install} && v/bin/thing")
    assert result.lines[-1] == "installed and run"


def test_a_repository_is_cloned_and_committed_to(start: Start) -> None:
    script = """
git init -q one && cd one && echo 1 > f && git add f && git commit -qm first && cd .. &&
git clone -q one two && cd two && echo 2 >> f && git commit -qam second && git log --format=%s
"""
    client = start(KERNEL, rules=FORBIDDEN, policy=WORKSPACE)
    assert client.shell(script).lines == ["second", "first"]


def test_as_an_ordinary_user_without_capabilities(box: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("this run is an ordinary user's already")
    server = server_command(KERNEL)
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(python):
        pytest.skip(f"no {python} that an ordinary user may start")
    for folder in (box.root, *box.root.rglob("*")):
        os.chown(folder, 65534, 65534)
    box.rules.write_text(FORBIDDEN)
    # pytest's folders are for their owner alone; the ordinary user enters by descriptor.
    user = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    stage = Path("/var/tmp") / f"codex-multitool-{box.mark}"
    box.root.rename(stage)
    try:
        moved = Box(stage, box.mark)
        with Client(
            [which("setpriv"), *user, python, *server],
            env=moved.environment(),
            cwd=moved.ws,
            stderr=stage / "stderr",
        ) as client:
            client.initialize()
            result = client.shell("id -u; env uname; echo rc=$?")
    finally:
        shutil.rmtree(stage)
    assert result.lines[0] == "65534"
    assert "Execution denied" in result.output
    assert "rc=1" in result.lines


def test_where_another_listens_already_it_falls_back_and_says_so(start: Start) -> None:
    client = start(KERNEL, policy=WORKSPACE)
    server = f"{server_command(KERNEL)[0]} --rules /dev/null"
    patched = shell_path("bash")
    inner = f"{server} --intercept=%s --shell={patched} </dev/null; echo rc=$?"
    fallen_back = client.shell(inner % "auto")
    assert "Only programs that the shell itself starts are judged" in fallen_back.output
    assert "another program listens" in fallen_back.output
    assert fallen_back.lines[-1] == "rc=0"
    refused = client.shell(inner % "kernel")
    assert "--intercept=kernel: another program listens" in refused.output
    assert refused.lines[-1] == "rc=1"
