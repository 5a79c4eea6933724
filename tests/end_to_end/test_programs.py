"""A program that the shell starts finds what it would find under the shell alone."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.end_to_end.client import RpcError, ToolError
from tests.end_to_end.processes import running, wait_until
from tests.end_to_end.rig import (
    OUR_PAIRINGS,
    READ_ONLY,
    WORKSPACE,
    Box,
    Pairing,
    Start,
    over,
    shell_path,
)
from tests.end_to_end.shared import Share

# Each exec fails, or does not and goes on in another way; $? is what bash or zsh makes of it.
AWKWARD_EXECS = {
    "missing path": "/nonexistent/program",
    "missing in a folder": "./missing",
    "missing name": "no-such-command",
    "not executable": "./plain",
    "a folder": "./folder",
    "below a file": "./plain/x",
    "no interpreter": "./orphan",
    "binary rubbish": "./rubbish",
    "empty": "./empty",
    "no #!": "./script a",
    "no #!, by PATH": "PATH=.:$PATH script a",
    "no #!, exec": "(exec ./script a)",
    "loop of links": "./loop",
    "a long argument": 'env true "$(head -c 200000 /dev/zero | tr "\\0" x)"',
}


def awkward_files(box: Box) -> None:
    for name, text, mode in (
        ("plain", b"echo no\n", 0o644),
        ("orphan", b"#!/nonexistent/interpreter\n", 0o755),
        ("rubbish", b"\x7fELF\0\1\2\3" * 20, 0o755),
        ("empty", b"", 0o755),
        ("script", b'echo "script $# $1"\nexit 4\n', 0o755),
    ):
        path = box.ws / name
        path.write_bytes(text)
        path.chmod(mode)
    (box.ws / "folder").mkdir()
    (box.ws / "loop").symlink_to("loop")


@over(OUR_PAIRINGS)
def test_a_failed_exec_has_the_status_the_shell_gives_it(
    pairing: Pairing, share: Share, box: Box
) -> None:
    awkward_files(box)
    client = share(pairing, policy=WORKSPACE)
    shell = str(shell_path(pairing.shell))
    told, expected = {}, {}
    for name, command in AWKWARD_EXECS.items():
        script = f"{command} 2>/dev/null; echo rc=$?"
        alone = subprocess.run(
            [shell, "-c", script],
            check=False,
            capture_output=True,
            text=True,
            cwd=box.ws,
            env=box.environment(),
            timeout=60,
        )
        expected[name] = alone.stdout
        told[name] = client.shell(script).output
    assert told == expected


@over(OUR_PAIRINGS)
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("/nonexistent/program", "no such file or directory"),
        ("./plain", "permission denied"),
    ],
)
def test_a_failed_exec_says_why(
    pairing: Pairing, command: str, why: str, share: Share, box: Box
) -> None:
    awkward_files(box)
    client = share(pairing)
    (line,) = client.shell(command).lines
    assert command in line
    assert why in line.lower()
    assert "Traceback" not in line


@over(OUR_PAIRINGS)
@pytest.mark.parametrize("rules", ["", 'prefix_rule(pattern=["yes"])\n'], ids=["inside", "allowed"])
def test_a_broken_pipe_ends_a_program(pairing: Pairing, rules: str, share: Share) -> None:
    client = share(pairing, rules=rules)
    first = "${pipestatus[1]}" if pairing.zsh else "${PIPESTATUS[0]}"
    assert client.shell(f"yes | head -n 1; echo {first}").output == "y\n141\n"


@over(OUR_PAIRINGS)
@pytest.mark.parametrize("rules", ["", 'prefix_rule(pattern=["cat"])\n'], ids=["inside", "allowed"])
def test_no_signal_is_blocked_or_ignored(pairing: Pairing, rules: str, share: Share) -> None:
    client = share(pairing, rules=rules)
    status = client.shell("cat /proc/self/status").lines
    masks = [line.split(":\t") for line in status if line.startswith(("SigBlk", "SigIgn"))]
    # 32 and 33 belong to the threads library and nobody else can set them: signal(7).
    found = {name: int(mask, 16) & ~(3 << 31) for name, mask in masks}
    assert found == {"SigBlk": 0, "SigIgn": 0}


@over(OUR_PAIRINGS)
def test_a_signal_the_script_ignores_stays_ignored(pairing: Pairing, share: Share) -> None:
    client = share(pairing)
    result = client.shell("trap '' TERM; sh -c 'kill -TERM $$; echo alive'")
    assert (result.exit_code, result.output) == (0, "alive\n")


@over(OUR_PAIRINGS)
def test_a_background_job_does_not_hold_the_answer(
    pairing: Pairing, start: Start, box: Box
) -> None:
    client = start(pairing)
    result = client.shell("sleep 611 & echo x")
    assert (result.exit_code, result.output, result.timed_out) == (0, "x\n", False)
    wait_until(lambda: running(box.mark, "sleep 611"), "the job runs on as under any shell")


@over(OUR_PAIRINGS)
@pytest.mark.parametrize(
    ("rules", "folder"),
    [("", "ws"), ('prefix_rule(pattern=["touch"])\n', "out")],
    ids=["inside", "allowed"],
)
def test_a_background_job_starts_programs_after_the_shell_has_gone(
    pairing: Pairing, rules: str, folder: str, start: Start, box: Box
) -> None:
    os.mkfifo(box.ws / "go")
    done = box.root / folder / "done"
    client = start(pairing, rules=rules, policy=WORKSPACE)
    client.shell(f"( read x < go; touch {done} ) >/dev/null 2>&1 &")
    (box.ws / "go").write_text("now\n")  # opens once the job reads
    wait_until(done.exists, "the job's first program")


@over(OUR_PAIRINGS)
def test_failing_is_a_result_whatever_the_output_says(pairing: Pairing, share: Share) -> None:
    client = share(pairing)
    for code in (1, 3, 126, 159):
        result = client.shell(f"echo Permission denied: sandbox, seccomp; exit {code}")
        assert result.exit_code == code
        assert "Permission denied" in result.output


@over(OUR_PAIRINGS)
def test_death_by_a_signal_is_a_result(pairing: Pairing, share: Share) -> None:
    client = share(pairing)
    result = client.shell("echo before; kill -KILL $$")
    assert (result.exit_code, result.output) == (128 + 9, "before\n")


@pytest.mark.parametrize("kind", ["missing", "a file", "relative", "closed"])
def test_a_bad_workdir_is_named(kind: str, share: Share, box: Box) -> None:
    workdir = {
        "missing": str(box.ws / "missing"),
        "a file": str(box.ws / "file"),
        "relative": "some/where",
        "closed": str(box.ws / "closed"),
    }[kind]
    (box.ws / "file").touch()
    (box.ws / "closed").mkdir(mode=0o000)
    if kind == "closed" and os.access(box.ws / "closed", os.X_OK):
        pytest.skip("root may enter any folder")
    client = share(Pairing())
    with pytest.raises((RpcError, ToolError), match=workdir):
        client.shell("pwd", workdir=workdir)
    assert client.shell("pwd").output == f"{box.ws}\n"


@over(OUR_PAIRINGS)
def test_programs_end_with_the_descriptors_they_were_given(pairing: Pairing, share: Share) -> None:
    client = share(pairing)
    # 0, 1, 2, what `ls` opens itself, and the socket through which programs are asked about
    result = client.shell("env ls /proc/self/fd; echo $CODEX_ESCALATE_SOCKET")
    *descriptors, socket = result.output.split()
    assert set(descriptors) <= {"0", "1", "2", "3", socket}


def test_standard_input_is_empty(share: Share) -> None:
    client = share(Pairing(), policy=READ_ONLY)
    assert client.shell("cat; echo rc=$?").output == "rc=0\n"
