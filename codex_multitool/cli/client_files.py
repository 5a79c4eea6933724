"""The files of a client read together, and replaced together or not at all."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codex_multitool.cli.client_merge import Document, MergeError
from codex_multitool.cli.replace import read, replace


class StateError(Exception):
    """What was noted of earlier changes cannot be read; the text says which file."""


@dataclass(frozen=True, slots=True)
class File:
    """A document's file as it was read. None: there is none."""

    document: Document
    path: str  # with its links followed: people keep such files elsewhere and link to them
    text: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """What a file is to say; None: it goes."""

    file: File
    text: str | None


def opened(document: Document) -> File:
    """Read it; raises MergeError or OSError."""
    path = os.path.realpath(document.path)
    content = read(path)
    try:
        # Its line ends stay as they are.
        return File(document, path, None if content is None else content.decode())
    except UnicodeDecodeError as error:
        raise MergeError(f"not UTF-8 ({error.reason})") from None


def perform(changes: Sequence[Change]) -> dict[str, str]:
    """Make all the changes; gives the backup of each file that was there and stays.

    Raises OSError with everything as it was before.
    """
    backups: dict[str, str] = {}
    done: list[Change] = []
    folders: list[str] = []
    try:
        for change in changes:
            folders += _make_folder(os.path.dirname(change.file.path))
        for change in changes:
            if opened(change.file.document).text != change.file.text:
                raise OSError(0, "it was changed meanwhile", change.file.path)
            if change.file.text is not None and change.text is not None:
                backups[change.file.path] = _back_up(change.file.path)
            done.append(change)
            _put(change.file.path, change.text)
    except BaseException:
        for change in reversed(done):
            _put(change.file.path, change.file.text)
        for backup in backups.values():
            os.unlink(backup)
        for folder in reversed(folders):
            os.rmdir(folder)
        raise
    return backups


def _put(path: str, text: str | None) -> None:
    if text is not None:
        replace(path, text.encode())
    elif os.path.exists(path):
        os.unlink(path)


def _make_folder(path: str) -> list[str]:
    """Make it and what is above it; gives what was made."""
    if os.path.isdir(path):
        return []
    made = _make_folder(os.path.dirname(path))
    os.mkdir(path)
    return [*made, path]


def _back_up(path: str) -> str:
    """Keep the file's content beside it under a name that is free."""
    with open(path, "rb") as file:
        content, mode = file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    name, number = f"{path}.bak", 0
    while True:
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            number += 1
            name = f"{path}.bak.{number}"
        else:
            with os.fdopen(descriptor, "wb") as backup:
                backup.write(content)
            return name


class Notes:
    """What the files said before, by their paths: {"new": bool, "before": {...}} of each."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        stated = environ.get("XDG_STATE_HOME", "")
        folder = stated if stated.startswith("/") else os.path.expanduser("~/.local/state")
        self.document = Document(os.path.join(folder, "codex-multitool", "mcp-config.json"), {})
        try:
            self._file = opened(self.document)
            self._of = json.loads(self._file.text or "{}")
        except (MergeError, ValueError, RecursionError):
            self._of = None
        if not isinstance(self._of, dict) or not all(map(_is_note, self._of.values())):
            raise StateError(f"{self.document.path}: not as it was written; remove it")

    def before(self, path: str) -> dict[str, object]:
        """What the file said of our settings before they were merged, as far as is known."""
        found: dict[str, object] = self._of.get(path, {}).get("before", {})
        return found

    def was_new(self, path: str) -> bool:
        """Whether the file was made for our settings."""
        return bool(self._of.get(path, {}).get("new"))

    def add(self, path: str, before: Mapping[str, object], *, new: bool) -> None:
        """Note this, unless there is a note already."""
        self._of.setdefault(path, {"new": new, "before": before})

    def drop(self, path: str) -> None:
        """Forget the note."""
        self._of.pop(path, None)

    def change(self) -> Change:
        """The change of the file in which they are kept."""
        text = json.dumps(self._of, indent=1, default=str) + "\n" if self._of else None
        return Change(self._file, text)


def _is_note(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("before"), dict)
