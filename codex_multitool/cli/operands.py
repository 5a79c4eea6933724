"""What a word on the command line names, for the shell that completes it."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem


class _Named(click.types.UnprocessedParamType):
    """The word as it is: whether there is such a thing is found out by whoever uses it."""

    def __init__(self, kind: str) -> None:
        self.name = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Let the shell complete it as it does after its own commands."""
        return [CompletionItem(incomplete, type=self.name)]


class _Command(_Named):
    """A program of PATH, then whatever it takes."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Programs for the first word, files for the others."""
        first = not ctx.params.get(param.name or "")
        found = _programs(incomplete) if first and "/" not in incomplete else []
        # bash takes either words or files.
        return [CompletionItem(name) for name in found] or super().shell_complete(
            ctx, param, incomplete
        )


FILE = _Named("file")
FOLDER = _Named("dir")
COMMAND = _Command("file")


def _programs(prefix: str) -> list[str]:
    found = set()
    for folder in os.environ.get("PATH", "").split(":") if prefix else []:
        try:
            with os.scandir(folder or ".") as entries:
                found |= {it.name for it in entries if it.name.startswith(prefix) and _runs(it)}
        except OSError:
            continue  # PATH names many a folder that is not there
    return sorted(found)


def _runs(entry: os.DirEntry[str]) -> bool:
    return entry.is_file() and os.access(entry.path, os.X_OK)
