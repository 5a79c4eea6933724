"""What the ELF loader's command line loads, and what the loader itself says of it."""

from __future__ import annotations

import glob
import subprocess

import pytest

from codex_multitool.interception.loader import Loading, loading


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["/bin/git", "push"], Loading(("/bin/git", "push"), False, None)),
        (["--argv0", "ls", "/bin/git"], Loading(("/bin/git",), False, None)),
        (["--argv0=ls", "/bin/git"], Loading(("/bin/git",), False, None)),
        (["--preload", "./x.so", "/bin/git"], Loading(("/bin/git",), True, None)),
        (["--audit=./x.so", "/bin/git"], Loading(("/bin/git",), True, None)),
        (["--library-path", "/l", "git", "-v"], Loading(("git", "-v"), True, "/l")),
        (["--inhibit-cache", "--list", "/bin/git"], Loading(("/bin/git",), False, None)),
        (["--", "/bin/git"], Loading(("/bin/git",), False, None)),
        (["-x", "/bin/git"], Loading(("-x", "/bin/git"), False, None)),
        (["--version", "/bin/git"], None),
        (["--unknown", "/bin/git"], None),
        (["--argv0"], None),
        ([], None),
    ],
)
def test_the_program_follows_the_options(words: list[str], loaded: Loading | None) -> None:
    assert loading(["ld.so", *words]) == loaded


def test_the_loader_here_takes_each_option_as_we_do() -> None:
    found = glob.glob("/lib*/ld-linux-*.so.*")
    if not found:
        pytest.skip("no glibc loader here")
    for words in (
        ["--argv0", "x"],
        ["--preload", ""],
        ["--audit", ""],
        ["--library-path", "/lib"],
        ["--inhibit-rpath", "x"],
        ["--inhibit-cache"],
    ):
        command = [found[0], *words, "/bin/echo", "loaded"]
        assert loading(command) is not None
        ran = subprocess.run(command, capture_output=True, check=False)
        if b"unrecognized option" not in ran.stderr:  # an older glibc
            assert ran.stdout == b"loaded\n", ran.stderr
