"""The manual: a page for each command, with all that its help says, and no formatter minds."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codex_multitool import roles
from codex_multitool.cli.debug import debug
from codex_multitool.cli.execpolicy import execpolicy
from tests.cli.test_main import COMMANDS
from tests.executables import ROOT, built

MANUAL = ROOT / "packaging" / "manual.py"
GROUPS = {"debug": debug.commands, "execpolicy": execpolicy.commands}
NAMES = [
    roles.CLI,
    roles.MCP_SERVER,
    roles.EXECVE_WRAPPER,
    roles.LINUX_SANDBOX,
    *(f"{roles.CLI} {command}" for command in COMMANDS),
    *(f"{roles.CLI} {group} {name}" for group, names in GROUPS.items() for name in names),
]
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("manual") / "man" / "man1"
    command: list[str | Path] = [sys.executable, MANUAL, "--man", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return out


def page(pages: Path, name: str) -> str:
    """The page, as it reads before it is formatted."""
    text = (pages / f"{name.replace(' ', '-')}.1").read_text()
    return text.replace(r"\-", "-").replace(r"\fB", "").replace(r"\fR", "")


def section(text: str, name: str) -> str:
    return text.partition(f"\n.SH {name}\n")[2].partition("\n.SH ")[0]


@functools.cache
def told(name: str) -> str:
    """What the command itself tells."""
    program, *words = name.split()
    command: list[str | Path] = [built() / program, *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_page_for_each_command_and_no_other(pages: Path) -> None:
    assert sorted(it.stem for it in pages.iterdir()) == sorted(it.replace(" ", "-") for it in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_every_option_of_the_help(pages: Path, name: str) -> None:
    listed = [line for line in told(name).splitlines() if re.match(r" +-", line)]
    wanted = {word for line in listed for word in OPTION.findall(re.split(r"(?<=\S)  +", line)[0])}
    assert "--help" in wanted or name.endswith("execve-wrapper")
    assert wanted <= set(OPTION.findall(section(page(pages, name), "OPTIONS")))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_every_status_and_example_of_the_help(pages: Path, name: str) -> None:
    text, help_text = page(pages, name), told(name)
    statuses = section(text, "EXIT STATUS")
    assert statuses.count(".TP") >= 2
    for status in re.findall(r"\b12[4-8](?:\+n)?\b", help_text):
        assert status in statuses, status
    if "Examples:" in help_text:
        first = help_text.partition("Examples:\n")[2].splitlines()[0].split("  ")[1].strip()
        assert first.replace("'", r"\(aq") in section(text, "EXAMPLES")


def test_pages_are_named_by_what_the_program_does(pages: Path) -> None:
    for name in NAMES:
        assert "same as" not in section(page(pages, name), "NAME"), name


def test_building_makes_the_pages() -> None:
    command = ["make", "--dry-run", "--what-if=packaging/manual.py", "build"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert "packaging/manual.py --man dist/share/man/man1" in done.stdout, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_it_refers_to_are_there(pages: Path, name: str) -> None:
    others = re.findall(r"([a-z-]+)\(1\)", section(page(pages, name), "SEE ALSO"))
    assert others
    for other in others:
        assert (pages / f"{other}.1").is_file(), other


def formatted(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "MANPATH": str(folder), "MANWIDTH": "80"}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_groff_has_no_warnings(pages: Path) -> None:
    files = sorted(map(str, pages.iterdir()))
    done = formatted(["groff", "-man", "-Tutf8", "-ww", "-z", *files], pages)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_mandoc_has_no_warnings(pages: Path) -> None:
    files = sorted(map(str, pages.iterdir()))
    done = formatted(["mandoc", "-Tlint", "-Wwarning", *files], pages)
    # No date: what is built from the same sources shall be the same.
    found = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert found == []


def test_man_finds_and_shows_it(pages: Path) -> None:
    done = formatted(["man", "-P", "cat", f"{roles.CLI}-exec"], pages.parent)
    if "minimized" in done.stdout:
        pytest.skip("this system's man shows no pages")
    assert (done.returncode, done.stderr) == (0, "")
    assert "run a command, judged and confined" in " ".join(done.stdout.split())


def test_the_reference_page_is_up_to_date() -> None:
    command: list[str | Path] = [sys.executable, MANUAL, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
