"""Whether the sandbox was in the way of a command that failed: by facts, looked up afterwards.

What the command printed only says where to look. Landlock tells nobody what it refuses, so it is
looked at what the server, which is not confined, could have done there. No path, no word.
"""

import os
import re
from collections.abc import Iterator, Sequence
from errno import EACCES, EPERM, EROFS

from codex_multitool.mcp_server.messages import printable
from codex_multitool.sandbox.policy import READ_ONLY, WORKSPACE_WRITE

_REASONS = "|".join(re.escape(os.strerror(it)) for it in (EACCES, EPERM, EROFS))
_REFUSED = re.compile(_REASONS, re.IGNORECASE)
# With the quotes that programs use in one locale or another.
_QUOTED = re.compile(
    "['\"`\u2018\u201c]([^'\"`\u2018\u2019\u201c\u201d]{1,4096})['\"`\u2019\u201d]"
)
_SHELLS = re.compile(r": line \d+: ")
_MAX_LINES, _MAX_CANDIDATES = 40, 48
# Kept out by more than the sandbox.
_NOT_FILES = ("/dev/", "/proc/", "/sys/")


def in_the_way(
    kind: str, roots: Sequence[str], workdir: str, command: str, output: str
) -> str | None:
    """What a command of this kind of policy was kept from writing, if that is sure.

    roots: what it may write. output: what it printed.
    """
    if kind not in (READ_ONLY, WORKSPACE_WRITE):
        return None
    writable = [os.path.realpath(root) for root in roots]
    for word, line in _candidates(output):
        path = _real(os.path.join(workdir, word))
        if path is None or any(path == it or path.startswith(it + "/") for it in writable):
            continue
        if _would_do(path, kind, line) and not _perhaps_executed(path, word, line, command):
            where = f"only beneath {', '.join(roots)}" if roots else "nothing"
            return (
                f"the sandbox keeps {printable(path)} from being written: commands may write "
                f"{where}. The user can allow more with the sandbox mode or `writable_roots`"
            )
    return None


def worth_a_look(output: str) -> bool:
    """Whether anything says that it was refused something."""
    return _REFUSED.search(output) is not None


def _candidates(output: str) -> Iterator[tuple[str, str]]:
    """Words that may be paths, each with its line; the last lines first."""
    left = _MAX_CANDIDATES
    for line in reversed(output.splitlines()[-_MAX_LINES:]):
        refused = _REFUSED.search(line)
        if refused is None:
            continue
        before = line[: refused.start()].rstrip(": ").rpartition(": ")[2]
        words = (*_QUOTED.findall(line), before, before.rpartition(" ")[2])
        for word in dict.fromkeys(words):
            if word and "\0" not in word and left:
                left -= 1
                yield word, line


def _real(path: str) -> str | None:
    """Where a path leads, or would if it were made; None if nowhere, or to no file."""
    directory, name = os.path.split(path.rstrip("/"))
    found = _leads(path)
    if not found and (above := _leads(directory)):
        found = os.path.join(above, name)
    return None if not found or found.startswith(_NOT_FILES) else found


def _leads(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
    finally:
        os.close(fd)


def _would_do(path: str, kind: str, line: str) -> bool:
    """Whether our user may do outside what was refused."""
    if os.strerror(EPERM).lower() in line.lower():
        # Metadata, which read-only alone keeps: chmod(2) asks for the owner.
        return kind == READ_ONLY and _owned(path)
    if os.path.lexists(path):
        return os.access(path, os.W_OK, effective_ids=True)
    return os.access(os.path.dirname(path), os.W_OK | os.X_OK, effective_ids=True)


def _owned(path: str) -> bool:
    try:
        return os.geteuid() in (0, os.lstat(path).st_uid)
    except OSError:
        return False


def _perhaps_executed(path: str, word: str, line: str, command: str) -> bool:
    """Whether a shell may mean that a file is no program: it says the same of both."""
    if _SHELLS.search(line) is None or not os.path.isfile(path) or os.access(path, os.X_OK):
        return False
    return re.search(rf">\|?\s*['\"]?{re.escape(word)}", command) is None
