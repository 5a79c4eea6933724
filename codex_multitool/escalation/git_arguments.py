"""What git(1) is asked to do: its own options, then a subcommand and that one's arguments. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from codex_multitool.escalation.options import options

_VALUES = ("git-dir", "work-tree", "namespace", "super-prefix", "config-env", "attr-source")


class GitArguments(NamedTuple):
    """configuration: (key, value) of each `-c`. subcommand: empty where there is none."""

    configuration: tuple[tuple[str, str], ...]
    subcommand: str
    words: list[str]


def git_arguments(program: str, words: Sequence[str]) -> GitArguments | None:
    """Read git's words; None if `program`, a base name, is neither git nor one of its commands."""
    if program.startswith("git-"):
        return GitArguments((), program.removeprefix("git-"), list(words))
    if program != "git":
        return None
    parsed = options(words, short="C:c:", long=_VALUES, permute=False)
    settings = (value.partition("=") for value in parsed.values("c"))
    return GitArguments(
        tuple((key.lower(), value) for key, _, value in settings),
        parsed.operands[0] if parsed.operands else "",
        parsed.operands[1:],
    )
