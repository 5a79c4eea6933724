"""What a hostile command leaves under the names that programs outside obey."""

from __future__ import annotations

import os
import shutil

from codex_multitool.escalation.protected import changes, told, unseen
from codex_multitool.escalation.protected_look import look
from fuzz.pieces import head, pieces
from fuzz.tracees import Ground, free

_PARTS = (
    *(".git", ".git/config", ".git/commondir", ".git/hooks", ".git/hooks/x", ".git/info"),
    *(".git/info/attributes", ".git/modules", ".git/modules/m", ".git/modules/m/HEAD", ".envrc"),
    *(".codex", ".codex/config.toml", ".claude", ".vscode/tasks.json", "d/.git", "d/.git/config"),
)
_grounds: list[Ground] = []


def _ground() -> Ground:
    if not _grounds:
        _grounds.append(Ground("tree"))
    return _grounds[0]


def close() -> None:
    """Remove what the target made."""
    while _grounds:
        _grounds.pop().close()


def protected_names(data: bytes) -> None:
    """Whatever stands under protected names is looked at, and every change found and told."""
    ground = _ground()
    folder = ground.folder
    shutil.rmtree(f"{folder}/tree", ignore_errors=True)
    os.makedirs(f"{folder}/tree/d")
    places = (f"{folder}/tree", f"{folder}/tree/d")
    lowest = free()
    before = look(places, [folder])
    for piece in pieces(data, 12):
        number, rest = head(piece)
        kind, text = head(rest)
        _make(folder, f"{folder}/tree/{_PARTS[number % len(_PARTS)]}", kind % 3, text)
    after = look(places, [folder])
    assert free() == lowest
    assert changes(after, after) == ()
    found = changes(before, after)
    assert bool(found) == (before != after)
    assert told(found).isprintable()
    unseen(after)


def _make(folder: str, path: str, kind: int, text: bytes) -> None:
    """A directory, a file or a link, if that can be; never through a link that leads out."""
    try:
        if not os.path.realpath(os.path.dirname(path)).startswith(f"{folder}/"):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if kind == 0:
            os.mkdir(path)
        elif kind == 1:
            with open(path, "xb") as file:
                file.write(text)
        else:
            os.symlink(text.replace(b"\0", b""), os.fsencode(path))
    except OSError:
        return
