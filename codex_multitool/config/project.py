"""Which folders a project has, and whether the user trusts them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from os.path import normpath
from typing import NamedTuple, cast

from codex_multitool.config.settings import MARKERS, PROJECTS, Statements

_MARKERS = (".git",)
_REPOSITORY = (".git",)
_TRUSTED = "trusted"


class Project(NamedTuple):
    """The project around a working directory; all paths canonical.

    folders: from the project's root down to the working directory. repository: the git
    repository's root, if it is in one. The first two and `trust` come from the user's own files.
    """

    folders: tuple[str, ...]
    repository: str | None
    trust: dict[str, str]

    def distrust(self, folder: str, file: str) -> str | None:
        """Why a folder's file is not read; None if it is trusted. file: where trust is stated."""
        # A worktree's `.git` names its repository, and anybody may write that: not followed.
        for path in (folder, self.folders[0], self.repository or folder):
            if path in self.trust:
                if self.trust[path] == _TRUSTED:
                    return None
                return (
                    f"{path} is marked as untrusted in {file}. "
                    "To load config.toml, mark it trusted."
                )
        root = self.folders[0]
        return f"To load config.toml, add {root} as a trusted project in {file}."


def find_project(cwd: str, stated: Statements) -> Project:
    """The project of a directory. stated: what the user, not the project, says."""
    cwd = os.path.realpath(cwd)
    markers: tuple[str, ...] = _MARKERS
    if (MARKERS,) in stated:
        markers = cast("tuple[str, ...]", stated[(MARKERS,)].value)
    root = _nearest(cwd, markers) or cwd
    folders = [folder for folder in _upwards(cwd) if len(folder) >= len(root)]
    return Project(tuple(reversed(folders)), _nearest(cwd, _REPOSITORY), _trust(stated))


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while folder != (folder := os.path.dirname(folder)):
        yield folder


def _nearest(folder: str, names: Sequence[str]) -> str | None:
    for above in _upwards(folder):
        if any(os.path.lexists(os.path.join(above, name)) for name in names):
            return above
    return None


def _trust(stated: Statements) -> dict[str, str]:
    """By path as written, without `.`, `..` and a final slash. Of two words the worse counts."""
    found: dict[str, str] = {}
    for key, each in stated.items():
        if key[0] == PROJECTS and found.get(path := normpath(key[1]), _TRUSTED) == _TRUSTED:
            found[path] = str(each.value)
    return found
