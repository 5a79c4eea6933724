"""Execs met by SIGKILL at random moments, for as long as one likes: `make soak SECONDS=3600`.

Each batch is a storm (see storm.c) in one of four ways: by `exec` or by a server, with full access
or confined. Ends with status 1 at the first batch that is not as it must be, and says why.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from bench.client import Client
from tests.soak.watch import Look, look

STORM = Path(__file__).with_name("storm.c")
DIST = Path(__file__).resolve().parents[2] / "dist"
_NO_TMP_SETTINGS = """[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
"""  # what is tried, and its configuration, may lie there
_NO_TMP = [
    word
    for name in ("exclude_slash_tmp", "exclude_tmpdir_env_var")
    for word in ("-c", f"sandbox_workspace_write.{name}=true")
]
MODES = ("danger-full-access", "workspace-write")
_PATIENCE = 110.0  # a batch takes seconds; a stuck victim is told after one minute
_WARM = 6  # batches until a server has what it keeps
_MAY_GROW_KB = 8192
_MAY_GROW_FDS = 4
_TOLD = re.compile(r"(\d+) rounds, (\d+) ran, (\d+) killed")


class Broken(Exception):  # noqa: N818 - what a soak is there to find
    """Something is not as it must be."""


@dataclass(frozen=True, slots=True)
class Place:
    """The storm as a program, the executables, and a folder to work in."""

    storm: Path
    dist: Path
    work: Path

    @classmethod
    def in_folder(cls, folder: Path, dist: Path) -> Self:
        """Raises FileNotFoundError without a C compiler."""
        storm, work = folder / "storm", folder / "work"
        work.mkdir()
        subprocess.run(["gcc", "-O1", "-static", "-pthread", "-o", storm, STORM], check=True)
        return cls(storm, dist, work)


def counted(output: str) -> Counter[str]:
    """How many rounds of it, nested storms included, and how they ended."""
    total: Counter[str] = Counter()
    for rounds, ran, killed in _TOLD.findall(output):
        total.update(rounds=int(rounds), ran=int(ran), killed=int(killed))
    return total


def by_exec(place: Place, mode: str, words: list[str]) -> Counter[str]:
    """A storm under `codex-multitool exec`."""
    command: list[str | Path] = [
        place.dist / "codex-multitool",
        "exec",
        "--sandbox",
        mode,
        *_NO_TMP,
        "--",
    ]
    process = subprocess.Popen(
        [*command, place.storm, *words], cwd=place.work, stdout=-1, stderr=-1, text=True
    )
    try:
        out, err = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Broken(f"exec never ended: {' '.join(words)}") from None
    if process.returncode != 0 or err.strip():
        raise Broken(f"exec ended with {process.returncode}: {out[-500:]}{err[-2000:]}")
    return counted(out)


class Server:
    """A server that serves storms for as long as the soak takes."""

    def __init__(self, place: Place, mode: str) -> None:
        self._storm = place.storm
        home = place.work.parent / mode
        home.mkdir()
        (home / "config.toml").write_text(f'sandbox_mode = "{mode}"\n{_NO_TMP_SETTINGS}')
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "CODEX_HOME": str(home)}
        self.client = Client([str(place.dist / "codex-exec-mcp-server")], environment, place.work)
        self.client.initialize()
        self.batches = 0
        self._warm: Look | None = None

    def storm(self, words: list[str]) -> Counter[str]:
        """A storm by the tool, and the server as it was before it."""
        result = self.client.shell(" ".join([str(self._storm), *words]))
        if result["exit_code"] != 0 or result["timed_out"]:
            raise Broken(f"a call ended as {result}")
        self.batches += 1
        self._compare(self._settled())
        return counted(result["output"])

    def _settled(self) -> Look:
        """What is left when nothing more is under way."""
        limit = time.monotonic() + 5.0
        found = look(self.client.pid)
        while (found.zombies or found.traced) and time.monotonic() < limit:
            time.sleep(0.05)
            found = look(self.client.pid)
        return found

    def _compare(self, found: Look) -> None:
        if found.zombies or found.traced:
            raise Broken(f"zombies {found.zombies}, still traced {found.traced}")
        if self.batches == _WARM:
            self._warm = found
        if (warm := self._warm) is None:
            return
        grown = found.descriptors - warm.descriptors, found.kilobytes - warm.kilobytes
        if grown[0] > _MAY_GROW_FDS or grown[1] > _MAY_GROW_KB:
            raise Broken(f"the server grew by {grown[0]} descriptors and {grown[1]} KiB")


def soak(seconds: float, rounds: int, seed: int, place: Place) -> Counter[str]:
    """Storms in turn until the time is up; raises Broken."""
    total: Counter[str] = Counter()
    servers = {mode: Server(place, mode) for mode in MODES}
    begun = time.monotonic()
    try:
        while (gone := time.monotonic() - begun) < seconds:
            mode = MODES[total["batches"] % 2]
            # Now and then a narrower window: around the exec itself.
            most = (2000, 800, 300)[total["batches"] % 3]
            words = [str(rounds), str(seed + total["batches"]), "0", str(most)]
            if total["batches"] % 4 < 2:
                total += by_exec(place, mode, words)
            else:
                total += servers[mode].storm(words)
            total["batches"] += 1
            if total["batches"] % 20 == 0:
                _tell(f"{gone:.0f} s: {dict(total)}")
    finally:
        for server in servers.values():
            server.client.close()
    return total


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Soak for as long as the command line says."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rounds", type=int, default=400, help="of a batch (default: 400)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options = parser.parse_args()
    _tell(f"seed {options.seed}")
    with TemporaryDirectory(prefix="soak-") as folder:
        try:
            place = Place.in_folder(Path(folder), DIST)
            total = soak(options.seconds, options.rounds, options.seed, place)
        except Broken as error:
            _tell(f"BROKEN: {error}")
            return 1
    _tell(f"{options.seconds:.0f} s: {dict(total)}; all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
