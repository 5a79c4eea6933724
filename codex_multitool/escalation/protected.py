"""What changed under the protected names of directories that a sandbox may write — pure.

Programs outside the sandbox obey what stands there: git its hooks and settings, a shell its
.envrc, an editor or an agent its tasks and servers.
"""

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

NAMES = (".git", ".codex", ".mcp.json", ".claude", ".agents", ".aws", ".vscode", ".envrc")

# What agents keep beside their settings where a home directory is writable: transcripts and logs,
# which change all the time and are nothing that is obeyed.
STATE = {
    ".codex": frozenset((
        "sessions", "archived_sessions", "history.jsonl", "log", "tmp",
    )),
    ".claude": frozenset((
        "projects", "todos", "statsig", "shell-snapshots", "history.jsonl", "debug",
        "file-history", "session-env", "ide",
    )),
}  # fmt: skip

_WHOLE = frozenset((*NAMES[1:], "hooks"))
_MAX_TOLD = 5  # paths in one sentence

WROTE, REMOVED, CHANGED_MODE = "wrote", "removed", "changed the mode of"


class Entry(NamedTuple):
    """What stands at a path. kind: of its st_mode, inode(7); 0: it could not be looked at.

    content: a hash, a link's target, or why it could not be looked at. trace: inode and time of
    its last change, which also tell of content that was written and put back; empty for
    directories.
    """

    kind: int
    mode: int
    owner: tuple[int, int]
    content: bytes
    trace: tuple[int, ...] = ()

    def same(self, other: "Entry") -> bool:
        """Whether it says the same to whoever reads it."""
        return self[:4] == other[:4]


Snapshot = Mapping[str, Entry]


class Change(NamedTuple):
    """What became of a path, as a verb. doubtful: perhaps of a program outside's doing."""

    verb: str
    path: str
    doubtful: bool = False


def within(path: str, roots: Iterable[str]) -> bool:
    """Whether a canonical path is one of `roots`, or beneath one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def changes(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """What of `before` is different in `after`; of what came or went as a whole, the top."""
    if before == after:
        return ()
    found = [
        Change(verb, path)
        for path in {**before, **after}
        if (verb := _verb(before.get(path), after.get(path))) is not None
    ]
    whole = {it.path for it in found if _kind(before.get(it.path)) != _kind(after.get(it.path))}
    return tuple(sorted(it for it in found if whole.isdisjoint(_above(it.path))))


def put_back(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """The paths that were written and say again what they said."""
    return tuple(
        sorted(
            path
            for path, entry in after.items()
            if path in before and entry.same(before[path]) and entry.trace != before[path].trace
        )
    )


def unseen(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """Where nothing would be noticed, and why."""
    return tuple(
        (path, entry.content.decode(errors="replace"))
        for path, entry in sorted(snapshot.items())
        if not entry.kind
    )


def standing(snapshot: Snapshot) -> list[tuple[str, bool]]:
    """What can be kept from a command that is about to start: paths, and whether as a whole.

    A repository itself must be written for a commit, and only stay where it is.
    """
    found: list[tuple[str, bool]] = []
    whole: set[str] = set()
    for path, entry in sorted(snapshot.items()):
        name = path.rpartition("/")[2]
        if not whole.isdisjoint(_above(path)):
            continue
        if stat.S_ISREG(entry.kind) or (stat.S_ISDIR(entry.kind) and name in _WHOLE):
            whole.add(path)
            found.append((path, True))
        elif stat.S_ISDIR(entry.kind) and name == ".git":
            found.append((path, False))
    return found


def told(found: Iterable[Change], quoted: Callable[[str], str] | None = None) -> str:
    """Changes as people read them: `a sandboxed command wrote /w/.envrc`."""
    shown = quoted or printable
    found = tuple(found)
    listed = found[:_MAX_TOLD]
    sure = _verbs((it for it in listed if not it.doubtful), shown)
    doubtful = _verbs((it for it in listed if it.doubtful), shown)
    more = f" and {len(found) - _MAX_TOLD} more" if len(found) > _MAX_TOLD else ""
    parts = [f"a sandboxed command {sure}"] if sure else []
    if doubtful:
        parts.append(f"a sandboxed command or a program outside, nobody saw which, {doubtful}")
    return "; ".join(parts) + more


def _verbs(found: Iterable[Change], shown: Callable[[str], str]) -> str:
    by_verb: dict[str, list[str]] = {}
    for verb, path, _ in found:
        by_verb.setdefault(verb, []).append(shown(path))
    return "; ".join(f"{verb} {', '.join(paths)}" for verb, paths in by_verb.items())


def printable(path: str) -> str:
    """A path that no terminal acts on."""
    return path if path.isprintable() else repr(path)


def _verb(before: Entry | None, after: Entry | None) -> str | None:
    if before is None or after is None:
        return REMOVED if after is None else WROTE
    if before.same(after):
        return None
    if (before.kind, before.content) == (after.kind, after.content):
        return CHANGED_MODE
    return WROTE


def _kind(entry: Entry | None) -> int | None:
    return entry.kind if entry is not None else None


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
