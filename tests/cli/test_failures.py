"""No command ever shows a traceback: not for output that cannot be written, a folder that is gone,
Ctrl-C, or words that are no text."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.cli.test_main import COMMANDS
from tests.executables import built

# What each prints to stdout, or tries to: the help, and something of its own.
PRINTING = [
    *([name, "--help"] for name in COMMANDS),
    ["debug", "landlock", "--help"],
    ["debug", "seatbelt", "--print-profile"],
    ["execpolicy", "check", "--help"],
    ["execpolicy", "explain", "--", "ls"],
    ["execpolicy", "test", "--help"],
    ["mcp-config", "codex"],
    ["--version"],
    ["--help"],
]
# Each meets a working folder that is gone, and words that are no text.
WORKING = [
    ["exec", "--", "true"],
    ["exec", "--learn", "learned.rules", "--", "true"],
    ["doctor"],
    ["debug", "landlock", "--", "true"],
    ["debug", "landlock", "--full-auto", "--", "true"],
    ["sandbox", "linux", "-s", "disk-write-folder=x", "--", "true"],
    ["debug", "seatbelt", "--print-profile"],
    ["execpolicy", "check", "--rules", "x.rules", "ls"],
    ["execpolicy", "explain", "--", "ls"],
    ["execpolicy", "test", "x"],
    ["mcp-config", "codex"],
    ["mcp-config", "claude", "--path", "x.json", "--write"],
    ["linux-sandbox", "--sandbox-policy-cwd", ".", "--sandbox-policy", "x", "--", "true"],
    ["execve-wrapper", "true", "true"],
    ["mcp-server"],
]
ODD = b"\xff\xfe\xc3("


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder).resolve()


def environment(home: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    return {**kept, "HOME": str(home)}


def run(
    home: Path,
    *words: str | bytes,
    redirected: str = "",
    before: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run it from a shell, whose text is `before` and the redirections."""
    return subprocess.run(
        ["/bin/sh", "-c", f'{before} "$@" {redirected}', "sh", built() / roles.CLI, *words],
        cwd=home,
        env=dict(env or environment(home)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    """What it said on stderr, which is no traceback."""
    text = done.stderr.decode(errors="replace")
    for mark in ("Traceback", "Exception ignored", 'File "', "Error: [Errno"):
        assert mark not in text, text
    assert done.returncode >= 0, text
    assert done.returncode != 120, text  # CPython's, where its last flush fails
    return text


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_output_that_cannot_be_written_is_told(home: Path, words: list[str]) -> None:
    done = run(home, *words, redirected="> /dev/full")
    assert "No space left on device" in told(done)
    assert done.returncode == 1


@pytest.mark.parametrize("words", [it for it in PRINTING if it[1:] != ["--help"]], ids=" ".join)
def test_output_that_is_closed_is_told(home: Path, words: list[str]) -> None:
    done = run(home, *words, redirected=">&-")
    assert "Bad file descriptor" in told(done)
    assert done.returncode == 1


@pytest.mark.parametrize("words", [["--help"], ["execpolicy", "explain", "--", "ls"]])
def test_reader_that_has_gone_is_no_news(home: Path, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [built() / roles.CLI, *words],
        env=environment(home),
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=120,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_nobody_to_complain_to_is_no_reason_to_fail(home: Path, words: list[str]) -> None:
    done = run(home, *words, redirected="<&- 2>&-")
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-", ">&- 2>&-"])
def test_complaint_that_is_lost_leaves_its_status(home: Path, redirected: str) -> None:
    assert run(home, "frobnicate", redirected=redirected).returncode == 2
    assert run(home, "exec", "-C", "nowhere", "true", redirected=redirected).returncode == 125


@pytest.mark.parametrize("words", WORKING, ids=" ".join)
def test_folder_that_is_gone_is_told_or_does_not_matter(home: Path, words: list[str]) -> None:
    gone = "mkdir gone && cd gone && rmdir ../gone &&"
    done = run(home, *words, before=gone)
    text = told(done)
    if words[0] in ("exec", "debug", "sandbox") and "--print-profile" not in words:
        assert done.returncode == 125
        assert re.search("current (folder|directory)|No such file", text)
    assert done.returncode == 0 or text or done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_words_that_are_no_text_are_words(home: Path, command: str) -> None:
    for words in ([ODD], [b"--" + ODD], [b"--help=" + ODD]):
        told(run(home, command, *words))


@pytest.mark.parametrize("words", WORKING, ids=" ".join)
def test_so_are_names_of_files_in_every_place(home: Path, words: list[str]) -> None:
    folder = os.fsencode(home) + b"/" + ODD
    os.mkdir(folder)
    variables = {**environment(home), "CODEX_HOME": os.fsdecode(folder)}
    named = [folder + b"/" + ODD if word in ("x", "ls", "true") else word for word in words]
    told(run(home, *named, before=f"cd '{os.fsdecode(folder)}' &&", env=variables))
    (Path(os.fsdecode(folder)) / "config.toml").write_bytes(b"a = '\xff'\n")
    done = run(home, *words, env=variables)
    if words[0] in ("exec", "debug"):
        assert done.returncode == (0 if "--print-profile" in words and not done.stderr else 125)
        assert "config.toml:1:6: " in told(done)


@pytest.mark.parametrize(
    ("words", "most"),
    [(["exec", "true"], 4), (["exec", "true"], 10), (["doctor"], 6), (["doctor"], 8)],
)
def test_want_of_descriptors_is_told(home: Path, words: list[str], most: int) -> None:
    done = run(home, *words, before=f"ulimit -n {most};")
    assert done.returncode == (125 if words[0] == "exec" else 1)
    # Who meets it first, and so what is said, depends on what else is open.
    assert told(done) or b"protection is not full" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_doctor_may_be_somebody_who_may_not_look(home: Path) -> None:
    script = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    (home / ".codex" / "rules").mkdir(parents=True)
    (home / ".codex").chmod(0o700)
    home.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", script, built() / roles.CLI, "doctor"],
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=120,
    )
    if b"ermission denied" in done.stderr and not done.stdout:
        pytest.skip("that user cannot start the interpreter")
    assert "missing config.toml" in done.stdout.decode()
    assert told(done) == ""


@pytest.mark.parametrize("words", [["exec"], ["debug", "landlock", "--", "sh", "-c"]], ids=" ".join)
def test_interrupted_it_ends_as_the_signal_says(home: Path, words: list[str]) -> None:
    with subprocess.Popen(
        [built() / roles.CLI, *words, "echo up; exec sleep 1000"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert stderr == b""
