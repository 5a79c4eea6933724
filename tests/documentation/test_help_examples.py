"""The examples in the commands' help: each is a command line that is understood and started."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executables import ROOT, built

RULES = 'prefix_rule(pattern=["git", "push"], decision="forbidden")\n'
# What the examples name, in the user's home and in the folder where they are run.
WORK = "work"
FILES = {
    ".codex/rules/default.rules": RULES,
    ".config/fish/completions/.keep": "",
    f"{WORK}/ci.rules": RULES,
    f"{WORK}/my.rules": RULES,
    f"{WORK}/rules/my.rules": RULES,
    f"{WORK}/expectations.txt": "forbidden git push\n",
    f"{WORK}/build.sh": "#!/bin/sh\n",
    f"{WORK}/release.sh": "#!/bin/sh\n",
    f"{WORK}/src/Makefile": "all:\n",
    f"{WORK}/src/out/.keep": "",
    f"{WORK}/Makefile": "all test:\n",
}
NOT_STARTED = 125


def examples() -> list[str]:
    """All of them, from the page of all commands made as the man pages are."""
    program = (
        "import sys; sys.path.insert(0, 'packaging'); import manual\n"
        "for entry in manual.entries(): print(entry.examples)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    lines = [re.split(r"  +", line)[0] for line in done.stdout.splitlines() if line.strip()]
    # Without what other programs make of it: another shell, jq.
    ours = [re.sub(r'^eval "\$\((.*)\)"$', r"\1", line.partition(" | ")[0]) for line in lines]
    assert len(ours) > 20
    # doctor takes seconds, and is run on the pages.
    return [line for line in dict.fromkeys(ours) if not line.startswith("codex-multitool doctor")]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    # Not in /tmp, which sandboxes open.
    with tempfile.TemporaryDirectory(prefix="codex-examples-", dir="/var/tmp") as folder:
        for name, text in FILES.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("line", examples())
def test_example_is_understood(home: Path, line: str) -> None:
    if sys.platform != "darwin" and "seatbelt" in line and "--print-profile" not in line:
        pytest.skip("Seatbelt is macOS's")
    done = subprocess.run(
        ["/bin/bash", "-c", line],
        cwd=home / WORK,
        env={"PATH": f"{built()}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=120,
    )
    said = f"{line}\n{done.stdout}\n{done.stderr}"
    assert not re.search(r"(?im)^usage: ", done.stderr), said
    assert done.returncode != NOT_STARTED, said
    assert "Traceback" not in done.stderr, said
