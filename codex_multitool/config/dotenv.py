"""Variables from $CODEX_HOME/.env.

    NAME=value            up to a blank; a backslash takes the next character as it is
    export NAME='as is'   in single quotes nothing is special, and lines may end
    NAME="text $OTHER"    in double quotes backslashes and variables are, and lines may end
    # a comment, also after a blank behind a value

A line that is none of these is skipped, as the original does. Names in CODEX_ are left out: what
they steer is not for this file to say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from codex_multitool.config import files
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home

_PRIVATE = "CODEX_"
_ASSIGNMENT = r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*(?:#.*)?"
_LINE = r"[^\n]*(?:\n|\Z)"
_REST = r"[ \t]*(?:[ \t]#[^\n]*)?(?:\n|\Z)"
_PLAIN = r"""[^'"\\$ \t\n]+"""
_PLAIN_QUOTED = r'[^"\\$]+'
_SINGLE = r"'([^']*)'"
_ESCAPE = r"""\\([n\\'"$ ])"""
_VARIABLE = r"\$(?:\{([^}\n]*)\}|(?!\{)([A-Za-z0-9_]*))"


def load_dotenv(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with what the file states in place of what was there.

    Without the file, or without a CODEX_HOME to look in, it is as it was. Raises ConfigError if
    the file cannot be read.
    """
    try:
        home = codex_home(environ)
    except ConfigError:
        return dict(environ)  # whoever needs the home will say what is wrong with it
    content = files.read(os.path.join(home, ".env"), "environment file") or b""
    return {**environ, **parse(os.fsdecode(content), environ)}


def parse(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that `text` states. environ: where else `$NAME` is looked up."""
    stated: dict[str, str] = {}
    private: dict[str, str] = {}

    def look_up(name: str) -> str:
        sources = (stated, environ, private)
        return next((source[name] for source in sources if name in source), "")

    text = text.replace("\r\n", "\n")
    at = 0
    while at < len(text):
        name, value, end = _line(text, at, look_up)
        if name.upper().startswith(_PRIVATE):
            private[name] = value
        elif name:
            stated[name] = value
        at = end
    return stated


def _line(text: str, at: int, look_up: Callable[[str], str]) -> tuple[str, str, int]:
    """Name, value and the start of the next line; no name if the line is to be skipped."""
    found = re.compile(_ASSIGNMENT).match(text, at)
    if found is not None:
        value = _Value(text, found.end(), look_up)
        if value.read():
            return found[1], "".join(value.pieces), value.at
    line = re.compile(_LINE).match(text, at)
    return "", "", line.end() if line else len(text)


class _Value:
    """Reads a value up to the end of its line. at: where that is."""

    def __init__(self, text: str, at: int, look_up: Callable[[str], str]) -> None:
        self.at = at
        self.pieces: list[str] = []
        self._text = text
        self._look_up = look_up

    def read(self) -> bool:
        """Whether it is one: quotes are closed, nothing but a comment follows a blank."""
        while not self._take(_REST):
            if self._text.startswith('"', self.at):
                if not self._quoted():
                    return False
            elif found := self._take(_PLAIN) or self._take(_SINGLE):
                self.pieces.append(found[found.lastindex or 0])
            elif not self._special():
                return False
        return not any("\0" in piece for piece in self.pieces)

    def _quoted(self) -> bool:
        self.at += 1
        while not self._text.startswith('"', self.at):
            if found := self._take(_PLAIN_QUOTED):
                self.pieces.append(found[0])
            elif not self._special():
                return False
        self.at += 1
        return True

    def _special(self) -> bool:
        if found := self._take(_ESCAPE):
            self.pieces.append("\n" if found[1] == "n" else found[1])
        elif found := self._take(_VARIABLE):
            self.pieces.append(self._look_up(found[1] or found[2] or ""))
        return found is not None

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self._text, self.at)
        if found is not None:
            self.at = found.end()
        return found
