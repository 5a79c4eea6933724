"""What a word on the command line names, also for the shell that completes it."""

from __future__ import annotations

import os
import re
from typing import Any

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


_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|)", re.ASCII)


class _Duration(click.ParamType[float]):
    """A time above zero; its value is in seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it, unless it is read already."""
        if isinstance(value, float):
            return value
        found = _TIME.fullmatch(value)
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
        if not seconds:
            self.fail(f"{value} is no time: seconds, or like 500ms, 90s, 2m, 1h", param, ctx)
        return seconds


DURATION = _Duration()
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
