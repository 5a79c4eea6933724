"""What the ELF loader is told to load when it is run as a program, ld.so(8) — pure."""

from collections.abc import Sequence
from typing import NamedTuple

# glibc 2.26 to 2.41 and musl; every one of them takes one word.
_WITH_WORD = frozenset(
    {
        "--library-path",
        "--glibc-hwcaps-prepend",
        "--glibc-hwcaps-mask",
        "--inhibit-rpath",
        "--audit",
        "--preload",
        "--argv0",
    }
)
_ALONE = frozenset({"--list", "--verify", "--inhibit-cache"})
# These answer and run nothing.
_ANSWERS = frozenset({"--help", "--version", "--list-diagnostics", "--list-tunables"})


class Loading(NamedTuple):
    """argv: of the program loaded, its name as given to the loader first.

    preload: whether further objects of the caller's choice are loaded into it. library_path: where
    a name without a slash is searched first, None if not given.
    """

    argv: tuple[str, ...]
    preload: bool
    library_path: str | None


def loading(argv: Sequence[str]) -> Loading | None:
    """What `argv` (the loader's own, argv[0] included) loads; None if it loads no program."""
    preload = False
    library_path = None
    words = list(argv[1:])
    while words and words[0].startswith("--"):
        option, equals, value = words.pop(0).partition("=")
        if option == "--":
            break
        if option in _ANSWERS:
            return None
        if option in _ALONE and not equals:
            continue
        if option not in _WITH_WORD:
            return None  # both loaders refuse an option they do not know
        if not equals:
            if not words:
                return None
            value = words.pop(0)
        preload = preload or option in ("--preload", "--audit", "--library-path")
        if option == "--library-path":
            library_path = value
    return Loading(tuple(words), preload, library_path) if words else None
