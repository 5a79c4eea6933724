"""The command line: its names, its help, and how it hands over to the roles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool import __version__, roles
from tests.executables import ROOT, built

FULL_ACCESS = ["--sandbox-policy-cwd", "/", "--sandbox-policy", '{"type":"danger-full-access"}']
COMMANDS = [
    *("mcp-server", "mcp", "execve-wrapper", "linux-sandbox"),
    *("exec", "doctor", "debug", "sandbox", "execpolicy", "mcp-config", "completion"),
]
PRINT_WORDS = ["/usr/bin/printf", "<%s>"]


@pytest.fixture(scope="module")
def tool() -> Path:
    return built() / roles.CLI


def run(*command: str | bytes | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [os.fsencode(word) for word in command], capture_output=True, check=False, timeout=60
    )


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(tool: Path, option: str) -> None:
    assert run(tool, option).stdout.decode() == f"{roles.CLI} {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_every_command_and_every_name(tool: Path, option: str) -> None:
    done = run(tool, option)
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    for command in COMMANDS:
        assert f"\n  {command} " in text
    for role in (roles.MCP_SERVER, roles.EXECVE_WRAPPER, roles.LINUX_SANDBOX):
        assert role in text


def test_without_a_command_help_goes_to_stderr_and_the_status_tells(tool: Path) -> None:
    done = run(tool)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Commands:" in done.stderr


def test_unknown_command_is_answered_with_the_names(tool: Path) -> None:
    done = run(tool, "frobnicate")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no such command 'frobnicate'" in done.stderr
    assert ", ".join(COMMANDS).encode() in done.stderr


@pytest.mark.parametrize(
    ("words", "option", "meant"),
    [
        (["--hlp"], "--hlp", "--help"),
        (["exec", "--tre", "--", "true"], "--tre", "--tree"),
        (["exec", "--sandbx=read-only", "true"], "--sandbx", "--sandbox"),
        (["doctor", "--jsn"], "--jsn", "--json"),
        (["debug", "landlock", "--full-autoo", "--", "touch", "x"], "--full-autoo", "--full-auto"),
        (["sandbox", "linux", "--sandbox-permision=x", "touch", "x"], "--sandbox-permision",
         "--sandbox-permission"),
        (["debug", "seatbelt", "--print-profil"], "--print-profil", "--print-profile"),
        (["execpolicy", "check", "--rules", "x", "--prety", "git"], "--prety", "--pretty"),
        (["execpolicy", "explain", "--jsn", "--", "ls"], "--jsn", "--json"),
        (["execpolicy", "test", "--rule", "x", "y"], "--rule", "--rules"),
        (["execpolicy", "fmt", "--chek", "x"], "--chek", "--check"),
        (["mcp-config", "--writ", "codex"], "--writ", "--write"),
        (["completion", "--halp", "bash"], "--halp", "--help"),
        (["mcp-server", "--rule", "x"], "--rule", "--rules"),
        (["linux-sandbox", "--sandbox-polcy", "{}", "true"], "--sandbox-polcy", "--sandbox-policy"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else None,
)  # fmt: skip
def test_a_misspelt_option_is_never_a_word_of_the_command(
    tool: Path, words: list[str], option: str, meant: str
) -> None:
    done = run(tool, *words)
    assert (done.returncode, done.stdout) == (2, b"")
    told = done.stderr.decode()
    assert option in told
    assert f"; did you mean `{meant}`?\n" in told


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["execc", "ls"], 2, ": no such command 'execc'; did you mean `exec`?\n"),
        (
            ["debug", "lanlock", "ls"],
            2,
            " debug: no such command 'lanlock'; did you mean `landlock`?\n",
        ),
        (["execpolicy", "chek"], 2, " execpolicy: no such command 'chek'; did you mean `check`?\n"),
        (["exec"], 2, " exec: missing argument 'CMD...'\n"),
        (
            ["exec", "-c", "sandbox_mode", "ls"],
            2,
            " exec: -c sandbox_mode: not of the form key=value",
        ),
        (["debug", "landlock", "-c", "=x", "ls"], 2, " debug landlock: -c =x: not of the form"),
        (["exec", "-C", "/no/such", "ls"], 125, " exec: /no/such: No such file or directory\n"),
        (["sandbox", "linux", "-C", "/no/such", "ls"], 125, " sandbox linux: /no/such: No such"),
        (["execpolicy", "check", "-r", "/no/such", "ls"], 1, " execpolicy check: failed to read"),
        (["execpolicy", "test", "/no/such"], 1, " execpolicy test: /no/such: No such"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else None,
)
def test_a_complaint_begins_with_the_command_it_is_of(
    tool: Path, words: list[str], status: int, told: str
) -> None:
    done = run(tool, *words)
    assert (done.returncode, done.stdout) == (status, b"")
    assert done.stderr.decode().startswith(roles.CLI + told)


EVERY_HELP = [
    *([name] for name in COMMANDS if name not in ("debug", "sandbox", "execpolicy")),
    *(["debug", name] for name in ("landlock", "seatbelt")),
    *(["execpolicy", name] for name in ("check", "explain", "fmt", "test")),
    [],
]


@pytest.mark.parametrize("words", EVERY_HELP, ids=" ".join)
def test_every_help_teaches_by_example_and_tells_the_exit_statuses(
    tool: Path, words: list[str]
) -> None:
    text = run(tool, *words, "--help").stdout.decode()
    assert "\n  Exit status" in text or "\nExit status" in text
    # The wrapper is nobody's to call.
    assert "xample" in text or "A client's configuration" in text or words == ["execve-wrapper"]
    assert max(map(len, text.splitlines())) <= 102


@pytest.mark.parametrize("group", ["debug", "sandbox", "execpolicy"])
def test_groups_teach_by_example_too(tool: Path, group: str) -> None:
    assert "Examples:" in run(tool, group, "--help").stdout.decode()


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("mcp-server", roles.MCP_SERVER),
        ("mcp", roles.MCP_SERVER),
        ("execve-wrapper", roles.EXECVE_WRAPPER),
        ("linux-sandbox", roles.LINUX_SANDBOX),
    ],
)
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_options_behind_a_role_are_the_roles_own(
    tool: Path, command: str, role: str, option: str
) -> None:
    through, direct = run(tool, command, option), run(tool.with_name(role), option)
    assert through.stdout == direct.stdout != b""
    assert role.encode() in through.stdout
    assert through.returncode == direct.returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        [b"--help"],
        [b"--", b"a", b"--", b"-x", b"--full-auto"],
        [b"", b" ", b"a\nb", b"*"],
        [b"\xff\xfe", "h\u00e9".encode()],
    ],
)
def test_words_reach_the_role_byte_for_byte(tool: Path, words: list[bytes]) -> None:
    done = run(tool, "linux-sandbox", *FULL_ACCESS, "--", *PRINT_WORDS, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"".join(b"<%s>" % word for word in words)


def test_role_that_is_not_there_is_named(tmp_path: Path) -> None:
    alone = tmp_path / roles.CLI
    alone.write_text("from codex_multitool import roles; import sys; sys.exit(roles.entry_point())")
    done = subprocess.run(
        [sys.executable, alone, "linux-sandbox"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125
    assert f"cannot start {tmp_path / roles.LINUX_SANDBOX}: No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_subcommand_is_imported_before_it_is_named() -> None:
    program = (
        "import sys; from codex_multitool.cli import main;"
        "main.main(['x', '--help']); main.main(['x', 'debug', '--help']);"
        "print([name for name in sys.modules if name.startswith('codex_multitool.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1]
    assert "codex_multitool.cli.debug" in loaded
    assert "execpolicy" not in loaded
    assert "mcp_server" not in loaded
