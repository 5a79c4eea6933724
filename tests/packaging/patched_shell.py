"""A patched shell under test, and a wrapper that records what it is started with."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILDER = HERE.parent.parent / "packaging" / "shells" / "build.py"

# Another release's shells, to try the patches for other versions.
SUITE = os.environ.get("CODEX_MULTITOOL_TEST_SUITE")

_FOLDER = tempfile.TemporaryDirectory(prefix="codex-multitool-recorder-")


@functools.cache
def build(name: str) -> subprocess.CompletedProcess[str]:
    suite = ["--suite", SUITE] if SUITE else []
    command = [sys.executable, str(BUILDER), name, *suite]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def path_of(name: str) -> Path:
    """The patched shell, built unless it is there already; skips where it cannot be had."""
    done = build(name)
    if done.returncode == os.EX_UNAVAILABLE:
        *_, why = done.stderr.strip().splitlines()
        pytest.skip(f"the patched {name} cannot be built here: {why}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@functools.cache
def recorder() -> Path:
    """The recording wrapper, compiled."""
    binary = Path(_FOLDER.name, "recorder")
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Werror", "-o", binary, HERE / "recorder.c"], check=True
    )
    return binary


@dataclass
class Record:
    """One start of the wrapper."""

    argv: list[bytes]
    environment: list[bytes]

    @property
    def command(self) -> list[str]:
        """What the wrapper was given after its own name: the path, then argv."""
        return [os.fsdecode(word) for word in self.argv[1:]]

    def value_of(self, name: str) -> list[str]:
        prefix = f"{name}=".encode()
        found = (entry for entry in self.environment if entry.startswith(prefix))
        return [os.fsdecode(entry[len(prefix) :]) for entry in found]


@dataclass
class PatchedShell:
    """Runs scripts in a folder, with or without the wrapper."""

    name: str
    path: Path
    folder: Path
    wrapper: Path
    fds: Sequence[int] = ()
    base_environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/nonexistent"}
    )

    @property
    def options(self) -> list[str]:
        return ["-f"] if self.name == "zsh" else ["--noprofile", "--norc"]

    def run(
        self,
        script: str | bytes,
        *arguments: str | bytes,
        environment: Mapping[str, str] | None = None,
        path: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script; environment: what is added, by default the wrapper and a socket."""
        if environment is None:
            environment = {"EXEC_WRAPPER": str(self.wrapper), "CODEX_ESCALATE_SOCKET": "63"}
        return subprocess.run(
            [self.name, *self.options, "-c", script, self.name, *arguments],
            executable=path or self.path,
            cwd=self.folder,
            env=self.base_environment | dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=self.fds,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=120,
            check=False,
        )

    def unwrapped(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run(script, environment={})

    def records(self) -> list[Record]:
        """What the wrapper has recorded so far."""
        log = Path(f"{self.wrapper}.log")
        items = iter(log.read_bytes().split(b"\0")[:-1] if log.exists() else [])
        result = []
        for count in items:
            argv = [next(items) for _ in range(int(count))]
            result.append(Record(argv, [next(items) for _ in range(int(next(items)))]))
        return result

    def commands(self) -> list[list[str]]:
        return [record.command for record in self.records()]


def patched_shell(name: str, folder: Path) -> PatchedShell:
    """The patched shell `name`, with a wrapper of its own below `folder`."""
    work = folder / "work"
    work.mkdir()
    wrapper = folder / "wrapper"
    shutil.copy(recorder(), wrapper)
    return PatchedShell(name, path_of(name), work, wrapper)
