"""Who stops what: every attack on no protection at all, on the original, and on us in both modes.

    python -m tests.attacks.compare [NAME...]

prints the tables of docs/security.md. It takes some minutes; what the original leaves behind, and
nothing else, is ended.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests import peer
from tests.attacks import programs
from tests.attacks.attack import REFUSED, Attack, Class
from tests.attacks.catalogue.all import CLASSES
from tests.attacks.target import Bare, Report, Served, Target, needed
from tests.end_to_end.client import RpcError, ServerGoneError, ToolError
from tests.end_to_end.processes import kill_marked, marked
from tests.end_to_end.rig import DIST, shell_path

STOPPED, INSIDE, THROUGH, ABSENT = "stopped", "inside", "through", "-"
_SECONDS = 15.0
_GONE = (ServerGoneError, concurrent.futures.TimeoutError, BrokenPipeError, AssertionError)


def run(target: Target, attack: Attack) -> str:
    """What became of the attack on this target."""
    ground = target.ground(attack)
    try:
        try:
            report = target.run(attack, ground)
        except _GONE as error:
            report = Report(f"no answer: {type(error).__name__}")
        harms, pushed = ground.harms(), ground.pushed()
    finally:
        ground.close()
    if isinstance(target, Served):
        if not _serves(target):
            harms.append("the server serves no more")
            target.restart()
        elif any(process.pid not in target.own() for process in marked(target.mark)):
            target.restart()
    else:
        kill_marked(target.mark)
    if harms or (pushed is not None and pushed.endswith("0")):
        return THROUGH
    if pushed is not None:
        return INSIDE
    if not attack.bare and attack.kernel is REFUSED and not _refused(report):
        return THROUGH  # it leaves nothing to be seen but that it was not refused
    return STOPPED


def _refused(report: Report) -> bool:
    return re.search(REFUSED.output or "", report.output) is not None


def _serves(target: Served) -> bool:
    """Whether the server is fit for the next attack: one without descriptors answers pings, too."""
    try:
        call = target.client.begin_shell("echo served", workdir=str(target.root / "ws"))
        return "served" in call.shell_result(_SECONDS).output
    except (RpcError, ToolError, *_GONE):
        return False


def _targets(root: Path, built: Path) -> dict[str, Target]:
    original = peer.original()
    theirs = [original.server, "--bash", original.bash, "--execve", original.wrapper]
    ours = DIST / "codex-exec-mcp-server"
    shell = ["--shell", shell_path("bash"), "--execve", DIST / "codex-execve-wrapper"]

    def served(name: str, command: Iterable[object], helper: Path | None = None) -> Served:
        return Served(root / name, built, list(map(str, command)), helper=helper)

    return {
        "no protection": Bare(root / "bare", built),
        f"the original, {peer.ORIGINAL_VERSION}": served("original", theirs, original.helper),
        "wrapper mode": served("wrapper", [ours, "--intercept=wrapper", *shell]),
        "kernel mode": served("kernel", [ours, "--intercept=kernel"]),
    }


def _applies(name: str, attack: Attack) -> bool:
    """Whether the attack can be made there: forged requests need a socket to be made on."""
    if name == "no protection":
        return attack.bare
    if name == "kernel mode":
        return attack.kernel is not None
    return True


def results(wanted: Callable[[Attack], bool]) -> dict[str, dict[str, str]]:
    """By attack, by target."""
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        root = Path(folder).resolve()
        (root / "programs").mkdir()
        programs.build(root / "programs")
        targets = _targets(root, root / "programs")
        for attack in filter(wanted, (attack for one in CLASSES for attack in one.attacks)):
            if needed(attack) is not None:
                continue
            found[attack.name] = {
                name: run(target, attack) if _applies(name, attack) else ABSENT
                for name, target in targets.items()
            }
            sys.stderr.write(f"{attack.name}: {' '.join(found[attack.name].values())}\n")
        for target in targets.values():
            if isinstance(target, Served):
                target.client.process.kill()
            kill_marked(target.mark)
    return found


def table(classes: Iterable[Class], found: dict[str, dict[str, str]]) -> str:
    """By class and target: how many attacks did what."""
    names = list(next(iter(found.values())))
    lines = [f"| attacks | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for one in classes:
        rows = [found[attack.name] for attack in one.attacks if attack.name in found]
        if rows:
            cells = [_counted(Counter(row[name] for row in rows)) for name in names]
            lines.append(f"| {one.title} | {' | '.join(cells)} |")
    cells = [_counted(Counter(row[name] for row in found.values())) for name in names]
    lines.append(f"| **all** | {' | '.join(cells)} |")
    return "\n".join(lines)


def _counted(counts: Counter[str]) -> str:
    made = counts[STOPPED] + counts[INSIDE] + counts[THROUGH]
    if not made:
        return "-"
    inside = f", {counts[INSIDE]} confined" if counts[INSIDE] else ""
    return f"{counts[STOPPED]}/{made}{inside}"


def through(found: dict[str, dict[str, str]]) -> str:
    """By target, the attacks that got through."""
    names = list(next(iter(found.values())))[1:]
    parts = []
    for name in names:
        lost = [attack for attack, row in found.items() if row[name] == THROUGH]
        parts.append(f"- {name}: {len(lost)}" + (f" ({', '.join(lost)})" if lost else ""))
    return "\n".join(parts)


def main(words: list[str]) -> int:
    """Print the tables."""
    try:
        found = results(lambda attack: not words or any(word in attack.name for word in words))
    except (peer.Unavailable, programs.Unavailable, subprocess.CalledProcessError) as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    sys.stdout.write(f"{table(CLASSES, found)}\n\n{through(found)}\n")
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # a client's reader may wait for ever for what the original left behind
