"""`completion`: a real bash, zsh and fish complete our command line with the script it prints."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from codex_multitool import roles
from tests.cli.terminal import Terminal
from tests.executables import built, patched_shell

TAB, ENTER = b"\t", b"\r"
# What an interactive shell reads instead of anybody's start-up files.
QUIET = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}
SETUP = {
    "bash": "bind 'set enable-bracketed-paste off'",
    "zsh": "autoload -Uz compinit; compinit -u -D; bindkey -e; unsetopt auto_remove_slash",
    "fish": "set -g fish_autosuggestion_enabled 0",
}
CASES = [
    ("doc", "doctor"),
    ("exec --tim", "--timeout"),
    ("exec --sandbox wor", "workspace-write"),
    ("exec --rules qua", "quaint.rules"),
    ("exec -C qui", "quiet-folder/"),
    ("exec -- codex-exec-m", roles.MCP_SERVER),
    ("exec -- cat qua", "quaint.rules"),
    ("debug land", "landlock"),
    ("mcp-config gem", "gemini"),
    ("mcp-server --intercept ker", "kernel"),
    ("mcp --rules qua", "quaint.rules"),
]


def shell_path(name: str) -> str:
    """A shell of that name: the system's, or the patched one; with what it completes by."""
    found = shutil.which(name) or ""
    if not found and name != "fish":
        found = str(patched_shell(name))
    if not found:
        pytest.skip(f"{name} is not installed")
    if name == "zsh":
        command = [found, "-fc", "autoload -Uz +X compinit"]
        if subprocess.run(command, capture_output=True, check=False, timeout=60).returncode:
            pytest.skip("this zsh is alone, without its functions: no compinit")
    return found


def completion(*words: str, **asked: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [built() / roles.CLI, *words],
        env={"PATH": os.environ["PATH"], **asked},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    """An interactive shell that has read the script, in a folder with a file and a folder."""
    name = request.param
    home = tmp_path_factory.mktemp("home")
    (home / "quaint.rules").write_text("")
    (home / "quiet-folder").mkdir()
    script = home / "completion"
    script.write_text(completion("completion", name).stdout)
    # Asked by the shell it is the real one; run, it tells its words.
    teller = home / "bin" / roles.CLI
    teller.parent.mkdir()
    teller.write_text(
        f'#!/bin/sh\n[ -z "$_CODEX_MULTITOOL_COMPLETE" ] || exec {built() / roles.CLI}\n'
        "printf '<%s>\\n' told \"$@\"\n"
    )
    teller.chmod(0o755)
    environ = {
        "PATH": f"{teller.parent}:{built()}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "xterm" if name == "fish" else "dumb",
        "LC_ALL": "C.UTF-8",
    }
    with Terminal([shell_path(name), *QUIET[name], "-i"], environ, home) as terminal:
        ready = f"{SETUP[name]}; source {script} && printf '<%s>\\n' ready"
        terminal.type(ready.encode() + ENTER)
        terminal.until("<ready>")
        yield terminal


@pytest.mark.parametrize(("typed", "becomes"), CASES)
def test_tab_completes(shell: Terminal, typed: str, becomes: str) -> None:
    shell.type(f"{roles.CLI} {typed}".encode() + TAB + ENTER)
    shell.until("<told>\n")
    shell.until(f"<{becomes}>\n")


def test_other_shells_are_refused() -> None:
    done = completion("completion", "csh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'bash', 'zsh', 'fish'" in done.stderr


@pytest.mark.parametrize("role", ["linux-sandbox", "execve-wrapper"])
def test_a_question_about_words_starts_no_role(role: str) -> None:
    # Asked in earnest each of them would complain of missing arguments.
    asked = {
        "_CODEX_MULTITOOL_COMPLETE": "bash_complete",
        "COMP_WORDS": f"{roles.CLI} {role} x ",
        "COMP_CWORD": "3",
    }
    done = completion(**asked)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
    assert completion(role, "--x").returncode != 0
