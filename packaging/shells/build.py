#!/usr/bin/env python3
"""Build the patched bash and zsh from Debian's source packages into a cache folder.

A build is named after everything that goes into it, so running this again does nothing (and
asks no mirror) until a patch, this script, the configuration or the system's release changes.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import debian_sources

HERE = Path(__file__).resolve().parent
PATCHES = HERE / "patches"
WRAPPER_FILES = tuple(
    HERE / f"{name}.{kind}" for name in ("exec_request", "exec_wrapper") for kind in "ch"
)

CFLAGS = "-O2 -fstack-protector-strong -std=gnu17"  # gnu17: bash before 5.3 is not C23

# Shipped ready-made, and patched along with what they are made from; made anew only because a
# patch left that one newer, with tools (autoconf, bison) that nobody needs otherwise.
GENERATED = ("aclocal.m4", "config.h.in", "configure", "stamp-h.in", "y.tab.c", "y.tab.h")

# What a build needs: a file or a command, and the Debian package that brings it.
COMMANDS = {"gcc": "gcc", "make": "make", "patch": "patch", "dpkg-source": "dpkg-dev"}
HEADERS = {"stdio.h": "libc6-dev"}

VENDOR_FUNCTIONS = "/usr/share/zsh/vendor-functions,/usr/share/zsh/vendor-completions"

LOG_TAIL = 25


class BuildError(Exception):
    """The shell could not be built; the text says why and what to do."""


class NotHereError(BuildError):
    """This machine lacks what a build needs."""


def link_modules(tree: Path) -> None:
    """Have zsh carry its modules itself; left out are those that need further libraries."""
    modules = tree / "config.modules"
    text = modules.read_text(encoding="utf-8")
    kept_out = r"(?!name=zsh/(?:cap|db/gdbm|example|newuser|pcre) )"
    text = re.sub(rf"(?m)^{kept_out}(name=\S+ .*)\blink=no\b", r"\1link=static", text)
    modules.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Recipe:
    """How one shell is built; paths are relative to its source tree."""

    name: str
    wrapper_folder: str
    binary: str
    configure: tuple[str, ...]
    make: tuple[tuple[str, ...], ...]
    headers: tuple[tuple[str, str], ...] = ()
    after_configure: Callable[[Path], None] | None = None


RECIPES = {
    "bash": Recipe(
        name="bash",
        wrapper_folder=".",
        binary="bash",
        configure=("--prefix=/usr", "--without-bash-malloc", "--disable-nls"),
        make=(("bash",),),
    ),
    "zsh": Recipe(
        name="zsh",
        wrapper_folder="Src",
        binary="Src/zsh",
        configure=(
            "--prefix=/usr",
            "--disable-dynamic",
            "--disable-cap",
            "--disable-gdbm",
            "--disable-pcre",
            "--with-tcsetpgrp",  # or configure looks for a terminal
            "--enable-etcdir=/etc/zsh",
            "--enable-function-subdirs",
            "--enable-fndir=/usr/share/zsh/functions",
            "--enable-site-fndir=/usr/local/share/zsh/site-functions",
            f"--enable-additional-fpath={VENDOR_FUNCTIONS}",
        ),
        make=(("prep",), ("-C", "Src")),
        headers=(("term.h", "libncurses-dev"),),
        after_configure=link_modules,
    ),
}


def cache_folder() -> Path:
    """The cache folder: CODEX_MULTITOOL_CACHE, or the user's (XDG Base Directory)."""
    own = os.environ.get("CODEX_MULTITOOL_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(own or f"{base}/codex-multitool").expanduser().absolute()


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def missing_packages(recipe: Recipe) -> list[str]:
    headers = HEADERS | dict(recipe.headers)
    missing = {package for command, package in COMMANDS.items() if not shutil.which(command)}
    missing |= {package for header, package in headers.items() if not _has_header(header)}
    return sorted(missing)


def _has_header(header: str) -> bool:
    return Path("/usr/include", header).exists()


def require_packages(recipe: Recipe) -> None:
    """Check for what the build needs. Raises NotHereError."""
    if not shutil.which("apt-get"):
        raise NotHereError("apt-get is not here: the sources are had from Debian or Ubuntu only")
    packages = missing_packages(recipe)
    if packages:
        raise NotHereError(
            f"{recipe.name}: packages are missing; as root: apt-get install {' '.join(packages)}"
        )


def inputs_digest(recipe: Recipe, sources: str) -> str:
    """Name everything but the version that decides what comes out."""
    digest = hashlib.sha256()
    own = (Path(__file__), Path(debian_sources.__file__), *WRAPPER_FILES)
    for path in (*own, *sorted(PATCHES.glob(f"{recipe.name}-*.patch"))):
        digest.update(path.read_bytes() + b"\0")
    release = debian_sources.release()
    system = (platform.machine(), release.get("ID", ""), release.get("VERSION_ID", ""))
    digest.update("\0".join((*system, sources)).encode())
    return digest.hexdigest()[:16]


def patch_for(recipe: Recipe, version: str) -> Path:
    """The patch for an upstream version: its own, or that of the series it belongs to."""
    series = version
    while series:
        patch = PATCHES / f"{recipe.name}-{series}.patch"
        if patch.exists():
            return patch
        series = series.rpartition(".")[0]
    has = ", ".join(path.stem for path in sorted(PATCHES.glob(f"{recipe.name}-*.patch")))
    raise BuildError(f"no patch fits {recipe.name} {version}; there is {has}")


@dataclass(frozen=True)
class Workbench:
    """Runs a build's commands; everything they say goes to one log file."""

    folder: Path
    log: Path

    def run(self, command: Sequence[str], failed: str) -> None:
        environment = {"LC_ALL": "C", "CFLAGS": CFLAGS}
        environment |= {
            name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ
        }
        with self.log.open("ab") as log:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:]
            raise BuildError("\n".join([f"{failed}; the whole log: {self.log}", *tail]))


def compile_shell(
    recipe: Recipe, source: debian_sources.SourcePackage, scratch: Path, log: Path, jobs: int
) -> Path:
    """Unpack, patch and build below `scratch`; the path of the executable."""
    title = f"{recipe.name} {source.upstream}"
    patch = patch_for(recipe, source.upstream)
    tree = scratch / "tree"
    log.write_bytes(b"")
    say(f"{title}: unpacking {source.dsc.name}")
    unpack = ["dpkg-source", "--no-check", "-x", str(source.dsc), str(tree)]  # apt checked it
    Workbench(scratch, log).run(unpack, f"{source.dsc.name} could not be unpacked")

    bench = Workbench(tree, log)
    say(f"{title}: applying {patch.name}")
    apply = ["patch", "-p1", "--forward", "--no-backup-if-mismatch", "-i", str(patch)]
    bench.run(apply, f"{patch.name} does not apply to {title}")
    for path in WRAPPER_FILES:
        shutil.copy(path, tree / recipe.wrapper_folder)
    for name in GENERATED:
        if (tree / name).exists():
            os.utime(tree / name)

    say(f"{title}: configuring")
    bench.run(["sh", "./configure", *recipe.configure], f"{title} could not be configured")
    if recipe.after_configure:
        recipe.after_configure(tree)
    say(f"{title}: compiling")
    for targets in recipe.make:
        bench.run(["make", f"-j{jobs}", *targets], f"{title} could not be compiled")
    return tree / recipe.binary


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder against other runs of this script."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def existing_build(recipe: Recipe, sources: str) -> Path | None:
    """The executable, if these very inputs were built before."""
    digest = inputs_digest(recipe, sources)
    pattern = f"shells/{recipe.name}-*-{digest}/{recipe.name}"
    return next(cache_folder().glob(pattern), None)


def build(recipe: Recipe, sources: str, suite: str | None, jobs: int) -> Path:
    """Fetch and build the shell; the path of the executable."""
    cache = cache_folder()
    shells = cache / "shells"
    digest = inputs_digest(recipe, sources)
    say(f"{recipe.name}: fetching the source package{f' of {suite}' if suite else ''}")
    source = debian_sources.fetch(recipe.name, sources, cache / "apt" / (suite or "system"))
    for leftover in shells.glob(".build-*"):  # of a run that was killed: we hold the lock
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=shells) as scratch:
        log = shells / f"{recipe.name}.log"
        built = compile_shell(recipe, source, Path(scratch), log, jobs)
        stage = Path(scratch, "stage")
        stage.mkdir()
        shutil.copy(built, stage / recipe.name)
        final = shells / f"{recipe.name}-{source.upstream}-{digest}"
        stage.rename(final)
    return final / recipe.name


def stable_path(name: str, suite: str | None) -> Path:
    """Where a shell is found, whichever build is current."""
    return cache_folder() / "shells" / (suite or "") / name


def point(link: Path, target: Path) -> None:
    """Make `link` lead to `target`, without a moment in which it leads nowhere."""
    link.parent.mkdir(exist_ok=True)
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(os.path.relpath(target, link.parent))
    fresh.rename(link)


def why_missing(name: str, suite: str | None) -> Path:
    """Where it is written why the last build of a shell failed."""
    return stable_path(name, suite).with_name(f"{name}.missing")


def provide(recipe: Recipe, options: argparse.Namespace) -> int:
    """Build what was not built from these inputs before, and print where it is; an exit status."""
    reason = why_missing(recipe.name, options.suite)
    reason.unlink(missing_ok=True)
    try:
        sources = debian_sources.machine_sources(options.suite)
        binary = existing_build(recipe, sources)
        if not binary:
            require_packages(recipe)
            binary = build(recipe, sources, options.suite, options.jobs)
    except (BuildError, debian_sources.SourceError) as error:
        say(f"build.py: {error}")
        reason.parent.mkdir(exist_ok=True)
        reason.write_text(f"{error}\n", encoding="utf-8")
        here = isinstance(error, BuildError) and not isinstance(error, NotHereError)
        return 1 if here else os.EX_UNAVAILABLE
    link = stable_path(recipe.name, options.suite)
    point(link, binary)
    sys.stdout.write(f"{link}\n")
    sys.stdout.flush()
    return 0


def print_path(name: str, suite: str | None) -> int:
    """Print where a shell is that was built; an exit status."""
    path = stable_path(name, suite)
    if os.access(path, os.X_OK):
        sys.stdout.write(f"{path}\n")
        return 0
    reason = why_missing(name, suite)
    why = reason.read_text(encoding="utf-8") if reason.exists() else f"{path} is not there\n"
    say(f"build.py: {name} is not built: {why.rstrip()}")
    return 1


def known_shell(name: str) -> str:
    if name not in RECIPES:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(RECIPES)}")
    return name


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="build.py",
        description="Build the patched bash and zsh from Debian's source packages.",
        epilog="The shells are found in $CODEX_MULTITOOL_CACHE/shells, by default in "
        "~/.cache/codex-multitool/shells. Only the paths are printed on stdout.",
    )
    parser.add_argument(
        "shell", nargs="*", metavar="SHELL", type=known_shell, help="bash or zsh; default: both"
    )
    parser.add_argument("--suite", help="take the sources of this release, as in sources.list(5)")
    parser.add_argument(
        "--print-path", metavar="SHELL", choices=RECIPES, help="print its path; build nothing"
    )
    parser.add_argument("--jobs", type=int, default=2, help="of make; default: 2")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse_arguments(argv)
    if options.print_path:
        return print_path(options.print_path, options.suite)
    names = options.shell or list(RECIPES)
    try:
        with locked(cache_folder() / "shells"):
            statuses = {provide(RECIPES[name], options) for name in names}  # one without the other
    except KeyboardInterrupt:
        return 130
    return 1 if 1 in statuses else max(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
