"""docs/reference/exit-status.md: programs end with the statuses it lists."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.documentation.pages import ROOT
from tests.executables import built

PAGE = (ROOT / "docs" / "reference" / "exit-status.md").read_text()
POLICY = ["--sandbox-policy-cwd", "/", "--sandbox-policy", '{"type":"read-only"}']
ENDINGS = [
    ("codex-multitool debug", "landlock -- true", 0),
    ("codex-multitool debug", "landlock -s nonsense -- true", 2),
    ("codex-multitool debug", "landlock -C /no/such -- true", 125),
    ("codex-multitool debug", "landlock -- /etc/passwd", 126),
    ("codex-multitool debug", "landlock -- no-such-program", 127),
    ("codex-multitool exec", "-- false", 1),
    ("codex-multitool exec", "--no-such-option", 2),
    ("codex-multitool exec", "--timeout 0.2 -- sleep 60", 124),
    ("codex-multitool exec", "--rules /no/such -- true", 125),
    ("codex-multitool exec", "-- /etc/passwd", 126),
    ("codex-multitool exec", "-- no-such-program", 127),
    ("codex-multitool exec", "kill -9 $$", 137),
    ("codex-multitool execpolicy check", "--rules /no/such git", 1),
    ("codex-multitool execpolicy explain", "--rules /no/such git", 1),
    ("codex-multitool execpolicy test", "/no/such", 1),
    ("codex-multitool execpolicy fmt", "/no/such", 1),
    ("codex-multitool mcp-config", "emacs", 2),
    ("codex-exec-mcp-server", "", 0),
    ("codex-exec-mcp-server", "--rules /no/such", 1),
    ("codex-exec-mcp-server", "--no-such-option", 2),
    ("codex-execve-wrapper", "/bin/true true", 1),
    ("codex-linux-sandbox", "", 2),
    ("codex-linux-sandbox", "-- /etc/passwd", 126),
    ("codex-linux-sandbox", "-- no-such-program", 127),
]


@pytest.mark.parametrize(("program", "words", "status"), ENDINGS)
def test_it_ends_as_the_page_says(tmp_path: Path, program: str, words: str, status: int) -> None:
    name, *command = program.split()
    arguments = [words] if words.startswith("kill") else words.split()
    if name == "codex-linux-sandbox" and arguments:
        arguments = [*POLICY, *arguments]
    done = subprocess.run(
        [built() / name, *command, *arguments],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == status, done.stderr
    section = PAGE.partition(f"\n## {program}\n")[2].partition("\n## ")[0]
    listed = "128+n" if status > 128 else status
    assert f"| {listed} |" in section or (status < 2 and "| that of " in section)
