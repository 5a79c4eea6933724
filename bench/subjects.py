"""What is measured: the servers, how each is started, and the folders they work in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.client import BenchError, Client, Json
from tests import peer

ROOT = Path(__file__).resolve().parent.parent
DIST = Path(os.environ.get("CODEX_MULTITOOL_DIST") or ROOT / "dist")

# One column of the table each.
ORIGINAL, LAUNCHED, FLOOR = "original", "launched", "floor"
OURS, AGAINST, WRAPPED = "ours", "against", "wrapped"
COLUMNS = {
    ORIGINAL: "original",
    LAUNCHED: "its node launcher",
    OURS: "ours",
    AGAINST: "other build",
    WRAPPED: "ours, wrapper mode",
    FLOOR: "floor",
}
SERVERS = (ORIGINAL, OURS, WRAPPED)

READ_ONLY: Json = {"type": "read-only"}
WORKSPACE_WRITE: Json = {"type": "workspace-write"}
FULL_ACCESS: Json = {"type": "danger-full-access"}

# Programs that do next to nothing, one for each thing that can become of an exec.
JUDGED, ESCALATED, ASKED, DENIED = "/bin/true", "/bin/false", "/usr/bin/test", "/usr/bin/id"
_RULES = """\
prefix_rule(pattern=["false"], decision="allow")
prefix_rule(pattern=["test"], decision="prompt")
prefix_rule(pattern=["id"], decision="forbidden")
prefix_rule(pattern=["grep"], decision="allow")
"""
_OUTSIDE = "grep -c '^NoNewPrivs:.0' /proc/self/status"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server under one of its ways to be started. shell: the one that runs its commands."""

    command: tuple[str, ...]
    shell: str
    helper: str
    wrapper: str


class Bench:
    """The subjects by column, their folders, and the servers that serve many rows.

    against: the folder of another build of ours, to be measured beside it.
    """

    def __init__(self, folder: Path, against: Path | None = None) -> None:
        self.workspace = folder / "ws"
        home = folder / "home"
        rules = home / ".codex" / "rules"
        self.workspace.mkdir()
        rules.mkdir(parents=True)
        (rules / "bench.rules").write_text(_RULES)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(home / ".codex"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        self.subjects = {OURS: _kernel(DIST), WRAPPED: _wrapped(DIST), **_original()}
        if against:
            self.subjects[AGAINST] = _kernel(against.absolute())
        self._running: dict[str, Client] = {}
        self._policies: dict[str, Json] = {}

    def close(self) -> None:
        """End the servers."""
        while self._running:
            self._running.popitem()[1].close()

    def columns(self, named: Sequence[str]) -> list[str]:
        """These, and behind ours the other build's."""
        with_other = (OURS, AGAINST) if AGAINST in self.subjects else (OURS,)
        return [each for one in named for each in (with_other if one == OURS else (one,))]

    def start(self, column: str) -> Client:
        """A server just started, nothing said yet; the caller's to close."""
        command = self.subjects[column].command
        return Client(command, self.environment, self.workspace)

    def server(self, column: str, policy: Json) -> Client:
        """A server that has run before, under this policy from now on."""
        client = self._running.get(column)
        if client is None:
            client = self._running[column] = self.start(column)
            client.initialize()
            self._confine(column, client, READ_ONLY)
            self._policies[column] = READ_ONLY
            if client.shell(_OUTSIDE)["output"].strip() != "1":
                raise BenchError(f"{column}: what a rule allows is not run outside the sandbox")
        if policy != self._policies[column]:
            self._confine(column, client, policy)
            self._policies[column] = policy
        return client

    def fresh(self, column: str) -> Client:
        """A server initialised, read-only; the caller's to close."""
        client = self.start(column)
        client.initialize()
        self._confine(column, client, READ_ONLY)
        return client

    def _confine(self, column: str, client: Client, policy: Json) -> None:
        client.request(
            "codex/sandbox-state/update",
            {
                "sandboxPolicy": policy,
                "sandboxCwd": str(self.workspace),
                "codexLinuxSandboxExe": self.subjects[column].helper,
            },
        )


def _kernel(dist: Path) -> Subject:
    stock = next(filter(os.path.exists, ("/bin/bash", "/usr/bin/bash", "/bin/sh")))
    return _of_build(dist, stock, "--intercept=kernel", "--shell", stock)


def _wrapped(dist: Path) -> Subject:
    patched, wrapper = _patched_bash(), str(dist / "codex-execve-wrapper")
    words = ("--intercept=wrapper", "--shell", patched, "--execve", wrapper)
    return _of_build(dist, patched, *words)


def _of_build(dist: Path, shell: str, *options: str) -> Subject:
    server, helper, wrapper = (
        str(dist / name)
        for name in ("codex-exec-mcp-server", "codex-linux-sandbox", "codex-execve-wrapper")
    )
    if not os.path.exists(server):
        raise BenchError(f"{server} is not there: run `make build`")
    # The places that are measured in lie in the temporary folder.
    return Subject((server, "--accept-writable-server", *options), shell, helper, wrapper)


def _original() -> dict[str, Subject]:
    found = peer.original()
    bash, helper, wrapper = str(found.bash), str(found.helper), str(found.wrapper)
    direct = (str(found.server), "--bash", bash, "--execve", wrapper)
    launcher = ("node", str(found.server.parents[2] / "bin" / "mcp-server.js"))
    return {
        ORIGINAL: Subject(direct, bash, helper, wrapper),
        LAUNCHED: Subject(launcher, bash, helper, wrapper),
    }


def _patched_bash() -> str:
    command = [sys.executable, str(ROOT / "packaging/shells/build.py"), "--print-path", "bash"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"no patched bash: {done.stderr.strip()}; run `make shells`")
    return done.stdout.strip()
