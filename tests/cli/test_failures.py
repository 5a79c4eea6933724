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
    ["mcp-server", "--shell", "x"],
    ["mcp-server", "--execve", "x"],
    ["execpolicy", "fmt", "x"],
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


DEEP = b"[" * 50_000
# What is wrong with the user's files or surroundings: file and content, or a word of the shell.
MISTAKES: dict[str, tuple[str, bytes] | str] = {
    "deep TOML": ("config.toml", b"a = " + DEEP),
    "TOML too deep to be walked": ("config.toml", b"a=" + b"[" * 400 + b"]" * 400 + b"\nprotect=1"),
    "deep rules": ("rules/a.rules", b"x = " + DEEP),
    "deep variables": (".env", b"A=" + b"${" * 50_000),
    "huge TOML": ("config.toml", b"#" * (2 << 20)),
    "no home": "unset HOME;",
    "home of nobody": "HOME=/no/such;",
    "long CODEX_HOME": f"export CODEX_HOME=/{'a' * 5000};",
    "folder for a file": "mkdir -p .codex/config.toml;",
    "pipe for a file": "mkdir -p .codex; [ -p .codex/config.toml ] || mkfifo .codex/config.toml;",
    "few descriptors": "ulimit -n 4;",
    "little memory": "ulimit -v 30000;",
}  # fmt: skip
NAMES = [
    [roles.CLI, "exec", "--", "true"],
    [roles.CLI, "debug", "landlock", "--", "true"],
    [roles.CLI, "doctor"],
    [roles.CLI, "execpolicy", "explain", "--", "ls"],
    [roles.MCP_SERVER],
    [
        roles.LINUX_SANDBOX,
        "--sandbox-policy-cwd=/",
        '--sandbox-policy={"type":"read-only"}',
        "true",
    ],
    [roles.EXECVE_WRAPPER, "/bin/true", "true"],
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_name_tells_of_a_mistake_in_a_line(home: Path, mistake: str) -> None:
    made = MISTAKES[mistake]
    if isinstance(made, tuple):
        file = home / ".codex" / made[0]
        file.parent.mkdir(parents=True)
        file.write_bytes(made[1])
    before = "" if isinstance(made, tuple) else made
    for name, *words in NAMES:
        done = subprocess.run(
            ["/bin/sh", "-c", f'{before} "$@"', "sh", built() / name, *words],
            cwd=home,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
        text = told(done)
        assert done.returncode in (0, 1, 125), (name, words, text)
        assert done.returncode == 0 or text or done.stdout, (name, words)
        assert len(text) < 6000, (name, words, text)


@pytest.mark.parametrize("role", [roles.LINUX_SANDBOX])
def test_a_policy_that_is_nested_too_deeply_is_told(home: Path, role: str) -> None:
    policy = '{"type":' * 10_000
    done = run(home, "linux-sandbox", "--sandbox-policy-cwd", "/", "--sandbox-policy", policy, "x")
    assert done.returncode == 2
    assert f"{role}: --sandbox-policy: the policy is not JSON: nested too deep" in told(done)


def test_an_interrupt_before_anything_is_loaded_ends_as_the_signal_says(home: Path) -> None:
    # The archive's place is taken by a folder whose first module is interrupted when it is loaded.
    interpreter, boot = (built() / roles.CLI).read_bytes().split(b"\n", 1)[0][2:].split(b" ", 1)
    (home / "start.py").write_text("import os\nos.kill(os.getpid(), 2)\ndef main(): pass\n")
    command = [interpreter, boot, os.fsencode(home)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
    ignoring = [b"/bin/sh", b"-c", b'trap "" INT; exec "$@"', b"sh"]
    done = subprocess.run([*ignoring, *command], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "most"),
    [(["exec", "true"], 4), (["exec", "true"], 10), (["doctor"], 6), (["doctor"], 8)],
)
def test_want_of_descriptors_is_told(home: Path, words: list[str], most: int) -> None:
    done = run(home, *words, before=f"ulimit -n {most};")
    assert done.returncode == (125 if words[0] == "exec" else 1)
    # Who meets it first, and so what is said, depends on what else is open.
    assert told(done) or b"protection is not full" in done.stdout


def test_want_of_descriptors_leaves_no_process_behind(home: Path) -> None:
    # As long as one lives, it holds the pipe that `run` reads to its end.
    assert run(home, "exec", "true", before="ulimit -n 6;").returncode == 125


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
