"""The matrix: who executes, times what is decided; and never a change to a parent's memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interception.decisions import NOBODY, supervise_by_word

DENIED = b"Execution denied: it's `forbidden`\n"
STATUS = {"run": 3, "end": 7, "deny": 1, "exit5": 5, "term": 143, "kill": 137}
# What a raw wait(2) status says of the same.
RAW = {"run": 3 << 8, "end": 7 << 8, "deny": 1 << 8, "exit5": 5 << 8, "term": 15, "kill": 9}

PYTHON = """
import os, subprocess, sys
way, *command = sys.argv[1:]
if way == "subprocess":
    code = subprocess.run(command).returncode
elif way == "posix_spawn":
    pid = os.posix_spawn(command[0], command, os.environ)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
elif way == "system":
    code = os.waitstatus_to_exitcode(os.system(" ".join(command)))
else:
    os.execv(command[0], command)
print("status", code if code >= 0 else 128 - code)
"""
NODE = """
const { spawnSync } = require("child_process");
const ran = spawnSync(process.argv[1], process.argv.slice(2), { stdio: "inherit" });
const numbers = require("os").constants.signals;
console.log("status", ran.signal ? 128 + numbers[ran.signal] : ran.status);
"""
PERL = 'my $s = system(@ARGV); print "status ", ($s & 127) ? 128 + ($s & 127) : $s >> 8, "\\n"'
SHELL = '"$0" "$1"; echo "status $?"'

# Each prints "status N", or exits with it.
CALLERS: dict[str, list[str]] = {
    "bash": ["bash", "-c", SHELL],
    "dash": ["dash", "-c", SHELL],
    "zsh": ["zsh", "-fc", SHELL],
    "busybox": ["busybox", "sh", "-c", SHELL],
    "fish": ["fish", "--no-config", "-c", "$argv; echo status $status"],
    "bash exec": ["bash", "-c", 'exec "$0" "$1"'],
    "bash subshell": ["bash", "-c", '( "$0" "$1" ); echo "status $?"'],
    "bash pipe": ["bash", "-c", 'set -o pipefail; "$0" "$1" | cat; echo "status $?"'],
    "env": ["env", "A=B"],
    "nice": ["nice"],
    "setsid": ["setsid", "-w"],
    "perl": ["perl", "-e", PERL],
    "python exec": ["python3", "-c", PYTHON, "exec"],
    "python subprocess": ["python3", "-c", PYTHON, "subprocess"],
    "python posix_spawn": ["python3", "-c", PYTHON, "posix_spawn"],
    "python system": ["python3", "-c", PYTHON, "system"],
    "node": ["node", "-e", NODE],
}
STARTING = ["fork", "vfork", "spawn", "goroutine"]
BECOMING = ["exec", "thread", "deep"]


@pytest.mark.parametrize("word", STATUS)
@pytest.mark.parametrize("name", CALLERS)
def test_a_program_started_by(programs: Path, name: str, word: str) -> None:
    caller = CALLERS[name]
    if shutil.which(caller[0]) is None:
        pytest.skip(f"no {caller[0]}")
    finished = supervise_by_word([*caller, str(programs / "target_a"), word], seconds=30)
    told = finished.out.split()[-1] if b"status" in finished.out else b""
    status = int(told) if told else finished.status
    if status < 0:
        status = 128 - status
    assert status == STATUS[word], (finished.out, finished.err)
    assert (DENIED in finished.err) == (word == "deny")


@pytest.mark.parametrize("word", RAW)
@pytest.mark.parametrize("way", STARTING)
def test_a_parents_memory_is_untouched(programs: Path, way: str, word: str) -> None:
    command = [str(programs / "caller"), way, "5", str(programs / "target_a"), word]
    finished = supervise_by_word(command)
    assert finished.out == f"{f'{RAW[word]} ' * 5}intact\n".encode(), finished.err


@pytest.mark.parametrize("word", STATUS)
@pytest.mark.parametrize("way", BECOMING)
def test_a_process_that_becomes_the_program(programs: Path, way: str, word: str) -> None:
    command = [str(programs / "caller"), way, str(programs / "target_a"), word]
    status = supervise_by_word(command).status
    assert (128 - status if status < 0 else status) == STATUS[word]


def _as(user: list[str], *command: str, **options: Any) -> Any:
    program = Path(__file__).with_name("decisions.py")
    ran = subprocess.run(
        [*user, program, *command], stdout=subprocess.PIPE, check=True, timeout=120, **options
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("word", RAW)
@pytest.mark.parametrize("way", [*STARTING, *BECOMING])
def test_as_an_ordinary_user(programs: Path, as_nobody: list[str], way: str, word: str) -> None:
    count = ["3"] if way in STARTING else []
    told = _as(as_nobody, str(programs / "caller"), way, *count, str(programs / "target_a"), word)
    assert told["uid"] == NOBODY
    if way in STARTING:
        assert told["out"] == f"{RAW[word]} " * 3 + "intact\n", told
    else:
        status = told["status"]
        assert (128 - status if status < 0 else status) == STATUS[word], told


def test_a_program_that_may_not_be_read_cannot_be_checked(
    programs: Path, as_nobody: list[str]
) -> None:
    secret = programs / "secret"
    shutil.copy(programs / "target_a", secret)
    secret.chmod(0o711)
    told = _as(as_nobody, str(secret), "run")
    # Its memory and its /proc are closed to us as well: what cannot be checked is killed.
    assert told["outcomes"] == ["Resumed.KILLED"]
    forbidden = programs / "private"
    shutil.copy(programs / "target_a", forbidden)
    forbidden.chmod(0o700)
    told = _as(as_nobody, "/bin/sh", "-c", f"{forbidden}; echo $?")
    assert told["out"] == "126\n"
    assert told["outcomes"][-1] == "Resumed.RETURNED"


def _closure(*files: str) -> set[str]:
    """The files and all that the loader loads for them."""
    found = set(files)
    for file in files:
        listed = subprocess.run(["ldd", file], stdout=subprocess.PIPE, text=True, check=True)
        found.update(word for word in listed.stdout.split() if word.startswith("/"))
    return found


@pytest.fixture
def chroot(programs: Path, tmp_path: Path) -> Path:
    """A root with sh, target_a and an absolute link to it; without /proc and /dev."""
    if os.getuid() != 0 or shutil.which("chroot") is None:
        pytest.skip("only root may chroot")
    for file in [*_closure("/bin/sh", "/bin/cat")]:
        place = tmp_path / file.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    shutil.copy(programs / "target_a", tmp_path / "bin/target")
    (tmp_path / "link").symlink_to("/bin/target")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/up").symlink_to("../link")
    return tmp_path


@pytest.mark.parametrize("path", ["/bin/target", "/link", "work/up", "/../link"])
@pytest.mark.parametrize("word", ["run", "end", "errno"])
def test_in_a_chroot(chroot: Path, path: str, word: str) -> None:
    command = f"{path} {word}; echo status $?"
    finished = supervise_by_word(["chroot", str(chroot), "/bin/sh", "-c", command])
    status = {"run": 3, "end": 7, "errno": 126}[word]
    assert finished.out == f"status {status}\n".encode(), finished.err


def test_in_a_chroot_with_a_proc_of_its_own(chroot: Path) -> None:
    """A mount namespace, where a denial can be said and `/dev/fd` means the caller's."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare")
    for folder in ("proc", "dev"):
        (chroot / folder).mkdir()
    (chroot / "dev/fd").symlink_to("/proc/self/fd")
    inside = "/link deny; echo $?; /link exit5; echo $?; exec 5</link; /dev/fd/5 run; echo $?"
    outside = f"mount --bind /proc {chroot}/proc && exec chroot {chroot} /bin/sh -c '{inside}'"
    command = [unshare, "--mount", "/bin/sh", "-c", outside]
    probe = subprocess.run([unshare, "--mount", "/bin/true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no mount namespace here: {probe.stderr.decode()}")
    finished = supervise_by_word(command)
    assert finished.out == b"1\n5\n3\n", finished.err
    assert DENIED in finished.err
