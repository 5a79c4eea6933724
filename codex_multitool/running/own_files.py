"""The files that make up this program, and those it obeys: no command may be able to write them.

Whoever changes one of them is outside the sandbox as soon as the next server, or `exec`, starts.
A trusted project's own files are none of them: what they may say opens nothing
(config/project_limits.py).
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from codex_multitool.config.home import codex_home
from codex_multitool.config.layers import SYSTEM_FILE
from codex_multitool.config.rules_files import rules_files
from codex_multitool.escalation.writable import beneath, redirectable
from codex_multitool.running.choice import Choice

_OPTION = "--accept-writable-server"
_STATED_HOME = "CODEX_HOME"


class OwnFiles:
    """Files and folders by what they are.

    accepted: is told, once, that commands may write them; without it they must not.
    """

    def __init__(
        self,
        files: Iterable[tuple[str, str]] = (),
        *,
        accepted: Callable[[str], None] | None = None,
    ) -> None:
        self._files = tuple(files)
        self._accepted = accepted
        self._told: set[str] = set()

    def exposed(self, roots: Sequence[str]) -> str | None:
        """Why commands must not get these writable directories; None if they may."""
        reason = self._exposed(roots)
        if reason is None or self._accepted is None:
            return reason
        if reason not in self._told:
            self._told.add(reason)
            self._accepted(f"accepted: {reason}")
        return None

    def _exposed(self, roots: Sequence[str]) -> str | None:
        canonical = {os.path.realpath(root): root for root in roots}
        for what, path in self._files:
            if not changeable(path, tuple(canonical)):
                continue
            root = next(root for place, root in canonical.items() if changeable(path, (place,)))
            return (
                f"commands could write in {root}, and so change {path}, {what}: what they leave "
                f"there would act outside the sandbox. Move it, make less writable, or accept that "
                f"with {_OPTION}"
            )
        return None


def changeable(path: str, roots: tuple[str, ...]) -> bool:
    """Whether who may write below `roots`, canonical, can change the file or what is in it."""
    own = os.path.realpath(path)
    return any(beneath(root, (own,)) for root in roots) or redirectable(path, roots)


class Names(NamedTuple):
    """By which names this program is found. started: the one it was started by.

    executable: that one with all links followed. Both absolute.
    """

    started: str
    executable: str


def own_files(
    names: Names, environ: Mapping[str, str], rules: Sequence[str], choice: Choice
) -> list[tuple[str, str]]:
    """What there is. environ: this process's. rules: all files besides those in CODEX_HOME.

    Raises ConfigError.
    """
    home = codex_home(environ)
    # Whoever can exchange the link makes another folder of it.
    homes = dict.fromkeys((home, os.path.abspath(environ.get(_STATED_HOME) or home)))
    users = [os.path.join(each, name) for each in homes for name in ("config.toml", ".env")]
    return [
        ("the folder of codex-multitool", os.path.dirname(names.executable)),
        ("the name by which codex-multitool was started", names.started),
        ("the code of codex-multitool", os.path.dirname(os.path.dirname(__file__))),
        ("its interpreter", sys.executable),
        *(("its libraries", folder) for folder in _libraries()),
        *(("its configuration", path) for path in (*users, SYSTEM_FILE)),
        *(("its rules", os.path.join(each, "rules")) for each in homes),
        *(("its rules", os.path.abspath(path)) for path in (*rules_files(home), *rules)),
        ("the shell it runs", choice.shell),
        *([("the exec wrapper", choice.wrapper)] if choice.wrapper is not None else []),
    ]


def _libraries() -> Iterator[str]:
    """The folders that this process's code is from: Python's, ours, and those of ld.so(8)."""
    yield os.path.dirname(os.__file__)
    yield from filter(os.path.isabs, sys.path)
    mapped = set()
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            *_, name = line.rstrip(b"\n").split(b" ", 5)
            name = name.strip()
            if name.startswith(b"/") and b".so" in name:
                mapped.add(os.fsdecode(os.path.dirname(name)))
    yield from sorted(mapped)
