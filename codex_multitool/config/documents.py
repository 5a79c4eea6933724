"""Layers of configuration: a file's text, or one `-c key=value`; values know their place — pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.toml_places import Path, Place, line_and_column, places, toml

# tomllib says where only in its message; CPython has attributes for it from 3.14 on.
_LOCATED = r"(?s)(.*) \(at (?:line (\d+), column (\d+)|end of document)\)"
_MEND = "correct the line; the syntax of TOML is at https://toml.io/en/v1.0.0"


class Document:
    """One layer of configuration.

    name: a path, or `-c` and what follows it. folder: what its relative paths are relative to.
    text: None for an override, whose name says it all.
    """

    def __init__(
        self, name: str, folder: str, values: Mapping[str, object], text: str | None = None
    ) -> None:
        self.name = name
        self.folder = folder
        self.values = values
        self._text = text

    @property
    def is_override(self) -> bool:
        """Whether it is one `-c`, not a file."""
        return self._text is None

    def where(self, path: Path, *, value: bool = False) -> str:
        """`name:line:column` of what a path leads to, or of its value, or of what is around it."""
        if self._text is None:
            return self.name
        while path and path not in self._places:
            path = path[:-1]
        if not path:
            return self.name
        place = self._places[path]
        line, column = line_and_column(self._text, place.start if value else place.key)
        return f"{self.name}:{line}:{column}"

    @cached_property
    def _places(self) -> dict[Path, Place]:
        try:
            return places(self._text or "")
        except RecursionError:  # nested deeper than we can walk: the file alone is named
            return {}


def file_document(name: str, folder: str, text: str) -> Document:
    """The document of a file; raises ConfigError."""
    text = text.replace("\r\n", "\n")
    try:
        return Document(name, folder, toml(text), text)
    except RecursionError:
        raise ConfigError("nested too deeply", _MEND, where=name) from None
    except ValueError as error:
        raise _malformed(name, text, str(error)) from None


def _malformed(name: str, text: str, error: str) -> ConfigError:
    found = re.fullmatch(_LOCATED, error)
    if found is None:  # CPython reads no integer of more than 4300 digits
        return ConfigError(error, _MEND, where=name)
    what, line, column = found.groups()
    if line is None:
        line, column = line_and_column(text, len(text))
    return ConfigError(f"not TOML: {what}", _MEND, where=f"{name}:{line}:{column}")


def override_document(stated: str, folder: str) -> Document:
    """The document of `key=value` on a command line; raises ConfigError.

    The key may be dotted. The value is TOML; what is not is a string.
    """
    name = f"-c {stated}"
    key, sign, value = stated.partition("=")
    keys = _keys(key.strip())
    if not sign or not all(keys):
        raise ConfigError("not of the form key=value", "write -c KEY=VALUE", where=name)
    nested = _value(value.strip())
    for part in reversed(keys):
        nested = {part: nested}
    assert isinstance(nested, dict)
    return Document(name, folder, nested)


def _keys(text: str) -> list[str]:
    """The parts of a dotted key; a part that TOML wants quoted may be bare all the same."""
    try:
        found: object = toml(f"{text} = 0")
    except ValueError:
        return [part.strip() for part in text.split(".")]
    keys = []
    while isinstance(found, dict) and len(found) == 1:
        ((key, found),) = found.items()
        keys.append(key)
    return keys if found == 0 else [""]


def _value(text: str) -> object:
    try:
        found = toml(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip("\"'")
    return found["value"] if len(found) == 1 else text
