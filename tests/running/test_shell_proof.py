"""Which shells ask before they start a program, by trying them."""

import os
import shutil
import time
from pathlib import Path

import pytest

from codex_multitool.running import shell_proof
from codex_multitool.running.choice import Choice, StartError
from codex_multitool.running.shell_proof import prove, unasked
from tests import peer
from tests.end_to_end.processes import wait_until
from tests.executables import patched_shell

# The wrapper is called, but not by whoever starts the programs.
PRETENDERS = {
    "silent": "exit 1",
    "once": '"$EXEC_WRAPPER" /bin/true /bin/true; exec /bin/sh "$@"',
    "for itself": 'exec "$EXEC_WRAPPER" /bin/sh sh "$@"',
    "prints": 'echo "$EXEC_WRAPPER $EXEC_WRAPPER 1008"; exec /bin/sh "$@"',
    "repeats": 'echo "$2"',
    "fails": "kill -9 $$",
}


def test_a_patched_bash_asks() -> None:
    shell = str(patched_shell("bash"))
    assert unasked(shell) is None
    prove(Choice(shell, "/wrapper"))


def test_a_patched_zsh_asks() -> None:
    assert unasked(str(patched_shell("zsh"))) is None


def test_the_originals_bash_asks() -> None:
    try:
        original = peer.original()
    except peer.Unavailable as reason:
        pytest.skip(f"the original's binaries: {reason}")
    assert unasked(str(original.bash)) is None


@pytest.mark.parametrize("name", ["bash", "dash", "zsh", "fish", "ksh", "busybox", "true"])
def test_a_stock_shell_does_not(name: str) -> None:
    shell = shutil.which(name)
    if shell is None:
        pytest.skip(f"no {name} here")
    assert unasked(shell) == "it was tried, and starts programs without calling the exec wrapper"


@pytest.mark.parametrize("name", PRETENDERS)
def test_a_program_that_pretends_does_not(name: str, tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\n{PRETENDERS[name]}\n")
    shell.chmod(0o755)
    assert unasked(str(shell)) is not None


def test_what_it_takes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_proof, "_SECONDS", 2.0)
    shell = tmp_path / "shell"
    shell.touch(mode=0o755)
    shell.write_text("#!/bin/sh\nsleep 1000 & echo $! >pid; wait\n".replace("pid", f"{shell}.pid"))
    begun = time.monotonic()
    assert "did not end within" in (unasked(str(shell)) or "")
    assert time.monotonic() - begun < 60
    child = int(Path(f"{shell}.pid").read_text())
    # Gone, or gone and not reaped yet.
    wait_until(lambda: not os.path.exists(f"/proc/{child}/exe"), "the end of what it started")
    shell.write_text("#!/bin/sh\nexec yes\n")
    assert unasked(str(shell)) is not None
    shell.write_bytes(b"\x7fELF")
    assert "cannot be started" in (unasked(str(shell)) or "")


def test_it_gets_nothing_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    shell = tmp_path / "shell"
    shell.touch(mode=0o755)
    shell.write_text(f"#!/bin/sh\nls /proc/self/fd >{shell}.fds; env >{shell}.env\n")
    descriptor = os.dup(0)
    os.set_inheritable(descriptor, True)
    try:
        assert unasked(str(shell)) is not None
    finally:
        os.close(descriptor)
    # The fourth is that of the folder which ls reads.
    assert Path(f"{shell}.fds").read_text().split() == ["0", "1", "2", "3"]
    assert "SECRET" not in Path(f"{shell}.env").read_text()


def test_what_to_do_is_told() -> None:
    choice = Choice("/bin/sh", "/wrapper", refused="another one listens")
    with pytest.raises(
        StartError, match=r"^no kernel interception: another one listens; and no ru"
    ):
        prove(choice)
    with pytest.raises(StartError, match=r"/bin/sh: .* `make shells`, or name it with --shell"):
        prove(Choice("/bin/sh", "/wrapper"))
    prove(Choice("/bin/sh", None))  # the kernel tells
