"""Does a command deserve a question to the human although no rule names it?

It looks for what loses work for good: deleting by force or recursively, overwriting devices,
discarding changes under git, also behind wrappers and in the scripts of `sh -c`. A courtesy, not
a boundary: who wants to hide a command can (only the sandbox holds), and what cannot be read is
asked rather than not. Pure, total, bounded in time.
"""

import posixpath
from collections.abc import Callable, Sequence

from codex_multitool.escalation.dangerous_git import git_danger
from codex_multitool.escalation.options import options
from codex_multitool.escalation.shell_script import simple_commands
from codex_multitool.escalation.unwrap import LISTS, unwrap

# A longer word cannot be executed at all (MAX_ARG_STRLEN, execve(2)).
_LONGEST_SCRIPT = 128 * 1024
# Characters read in all, a fraction of a second: the usual largest argv (2 MiB) passes, not so
# many times over behind as many wrappers.
_MOST_WORK = 4 * 1024 * 1024
_SCRIPT_COST = 20  # to split a script takes that much longer than to look at a word
_TOO_MUCH = "it is too long or too deeply nested to judge"

_DELETES = frozenset(("rm", "unlink"))
_OUTLETS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2")
_FORMATTERS = frozenset(("mkfs", "mke2fs", "mkswap", "blkdiscard"))
_SYSTEM = frozenset((
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root",
    "/run", "/sbin", "/srv", "/sys", "/usr", "/var", "/Applications", "/Library", "/System",
    "/Users", "~", "$HOME", "${HOME}",
))  # fmt: skip
_HOMES = ("/home", "/Users")


def danger(argv: Sequence[str]) -> str | None:
    """Why this command deserves a question, in a few words, or None.

    argv: the program as base name or path, then its arguments.
    """
    pending: list[tuple[list[str], bool]] = [(list(argv), False)]
    work = 0
    while pending:
        command, listed = pending.pop()
        if not command:
            continue
        work += len(command) + sum(map(len, command))
        if work > _MOST_WORK:
            return _TOO_MUCH
        program, words = command[0].rpartition("/")[2], command[1:]
        reason = _judge(program, words, listed)
        if reason is not None:
            return reason
        listed = listed or program in LISTS
        for inner in reversed(unwrap(program, words)):
            if isinstance(inner, list):
                pending.append((inner, listed))
                continue
            work += _SCRIPT_COST * len(inner)
            if len(inner) > _LONGEST_SCRIPT or work > _MOST_WORK:
                return _TOO_MUCH
            pending += ((words, listed) for words in reversed(simple_commands(inner)))
    return None


def _judge(program: str, words: Sequence[str], listed: bool) -> str | None:
    if listed and program in _DELETES:
        return f"{program} deletes whatever is found or read"
    if program.startswith("git"):
        return git_danger(program, words)
    if program.startswith("mkfs.") or program in _FORMATTERS:
        return f"{program} formats a device or file"
    judge = _JUDGES.get(program)
    return judge(words) if judge else None


def _rm(words: Sequence[str]) -> str | None:
    parsed = options(words)
    if parsed.has("rR", "recursive", "no-preserve-root"):
        return "rm deletes whole directories"
    return "rm deletes by force" if parsed.has("f", "force") else None


def _find(words: Sequence[str]) -> str | None:
    return "find deletes what it finds" if "-delete" in words else None


def _dd(words: Sequence[str]) -> str | None:
    outputs = (word.removeprefix("of=") for word in words if word.startswith("of="))
    if any(output and output not in _OUTLETS for output in outputs):
        return "dd overwrites a file or device"
    return None


def _shred(_: Sequence[str]) -> str:
    return "shred destroys files"


def _truncate(words: Sequence[str]) -> str | None:
    parsed = options(words, short="s:r:", long=("size", "reference"))
    sizes = parsed.values("s", "size")
    # `+`, `>` and `%` only lengthen: truncate(1).
    if parsed.has("r", "reference") or any(size.strip()[:1] not in "+>%" for size in sizes):
        return "truncate cuts files off"
    return None


def _wipefs(words: Sequence[str]) -> str | None:
    erases = options(words, short="o:t:O:", long=("offset", "types", "output")).has("ao", "all")
    return "wipefs erases a file system's signature" if erases else None


def _ownership(words: Sequence[str]) -> str | None:
    parsed = options(words)
    if parsed.has("R", "recursive") and any(map(_is_system, parsed.operands)):
        return "a whole system or home directory changes hands or modes"
    return None


def _is_system(path: str) -> bool:
    path = posixpath.normpath(path.removesuffix("*") or ".")
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    return path in _SYSTEM or posixpath.dirname(path) in _HOMES


def _kill(words: Sequence[str]) -> str | None:
    # `kill -1 PID` sends SIGHUP; as a target -1 is every process: kill(2).
    targets = words[1:] if len(words) > 1 else words
    return "kill signals every process" if "-1" in targets else None


_JUDGES: dict[str, Callable[[Sequence[str]], str | None]] = {
    "chgrp": _ownership,
    "chmod": _ownership,
    "chown": _ownership,
    "dd": _dd,
    "find": _find,
    "gfind": _find,
    "grm": _rm,
    "kill": _kill,
    "rm": _rm,
    "shred": _shred,
    "truncate": _truncate,
    "wipefs": _wipefs,
}
