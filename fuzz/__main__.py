"""Fuzzes, by coverage, everything that reads an enemy's words: `make fuzz`.

Each target runs in turn for its share of the time, in a process of its own. Its corpus and its
findings stay in the cache folder, so that the next run begins where this one ended. The table at
the end counts all runs there have been.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fuzz.seeds import SEEDS
from fuzz.targets import TARGETS, Target
from fuzz.words import WORDS

_SECONDS = 600
_HANG = 5  # seconds for one input
_MEMORY = 1024  # MiB
_GRACE = 60  # seconds that a process may take to start and to end
_FOLDER = Path(os.environ.get("CODEX_MULTITOOL_CACHE") or "~/.cache/codex-multitool").expanduser()
_MISSING = """fuzz: atheris is not installed, or not to be had for this Python:
it has wheels for CPython 3.11 to 3.13 on x86-64. Get it by `pip install -e '.[fuzz]'`, or take
such a Python: make clean fuzz PYTHON=python3.13
tests/fuzz holds the same targets to some inputs without it.
"""


def main(arguments: Sequence[str]) -> int:
    """Fuzz what was asked for; returns the exit status, 1 if anything was found."""
    options = _options(arguments)
    chosen = {name: target for name, target in TARGETS.items() if name in options.only}
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write(_MISSING)
        return 2
    shares = sum(target.share for target in chosen.values())
    for name, target in chosen.items():
        seconds = max(1, options.seconds * target.share // shares)
        sys.stderr.write(f"{name}, {seconds} s: {target.what}\n")
        if not _run(options.corpus / name, name, target, seconds):
            sys.stderr.write(f"{name}: it ended early; its output: {options.corpus / name}/log\n")
    sys.stdout.write(_table(options.corpus) + "\n")
    found = [path for name in chosen for path in (options.corpus / name / "findings").iterdir()]
    for path in found:
        sys.stderr.write(
            f"{path}\n    again: {sys.executable} -m fuzz.one {path.parts[-3]} {path}\n"
        )
    return 1 if found else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="targets:\n" + "\n".join(f"  {name:12} {it.what}" for name, it in TARGETS.items()),
    )
    parser.add_argument("--only", action="append", metavar="TARGET", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=_SECONDS, help="in all (%(default)d)")
    parser.add_argument(
        "--corpus", type=Path, default=_FOLDER / "fuzz", metavar="FOLDER", help="%(default)s"
    )
    options = parser.parse_args(arguments)
    options.only = options.only or list(TARGETS)
    options.corpus = options.corpus.absolute()
    return options


def _run(folder: Path, name: str, target: Target, seconds: int) -> bool:
    """Fuzz one target; whether it ended as it should. A finding ends it early."""
    corpus, findings = folder / "corpus", folder / "findings"
    for each in (corpus, findings):
        each.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = folder / "words"
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in WORDS.get(name, (b"\0",))))
    command = [
        *(sys.executable, "-m", "fuzz.one", name),
        f"-max_total_time={seconds}",
        f"-timeout={_HANG}",
        f"-rss_limit_mb={_MEMORY}",
        f"-max_len={target.most}",
        f"-artifact_prefix={findings}/",
        f"-dict={words}",
        "-print_final_stats=1",
        str(corpus),
    ]
    # libFuzzer ends its process without a chance to clean up.
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = tempfile.TemporaryDirectory(prefix="fuzz-", dir=fast)
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": place.name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds + _GRACE,
            check=False,
        )
        status, log = done.returncode, done.stderr
    except subprocess.TimeoutExpired as error:
        status, log = 1, error.stderr or b""
    finally:
        place.cleanup()
    (folder / "log").write_bytes(log)
    _count(folder, log.decode(errors="replace"))
    return status == 0


def _quoted(word: bytes) -> str:
    """As libFuzzer's dictionaries have it."""
    return "".join(chr(c) if chr(c).isalnum() and c < 128 else f"\\x{c:02x}" for c in word)


def _count(folder: Path, log: str) -> None:
    """Add a run to the figures of its target."""
    file = folder / "figures.json"
    figures = json.loads(file.read_text()) if file.exists() else {"inputs": 0, "seconds": 0}
    progress = re.findall(r"#(\d+)\s.*cov: (\d+)", log)
    seconds = re.findall(r"Done \d+ runs in (\d+) second", log)
    if progress:
        figures["inputs"] += int(progress[-1][0])
        figures["edges"] = int(progress[-1][1])
    figures["seconds"] += int(seconds[-1]) if seconds else 0
    file.write_text(json.dumps(figures))


def _table(folder: Path) -> str:
    """The figures of all runs."""
    lines = [
        "| target | inputs | seconds | edges | corpus | findings |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    inputs = seconds = 0
    for name in TARGETS:
        file = folder / name / "figures.json"
        if not file.exists():
            continue
        figures = json.loads(file.read_text())
        corpus, findings = (len(list((folder / name / it).iterdir())) for it in _KEPT)
        inputs += figures["inputs"]
        seconds += figures["seconds"]
        lines.append(
            f"| `{name}` | {figures['inputs']:,} | {figures['seconds']:,} "
            f"| {figures.get('edges', 0):,} | {corpus:,} | {findings} |"
        )
    return "\n".join([*lines, f"| **all** | {inputs:,} | {seconds:,} | | | |"])


_KEPT = ("corpus", "findings")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
