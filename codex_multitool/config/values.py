"""What a single value of the configuration may be — pure.

A check takes what TOML says and gives what it means, or raises WrongValueError.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from os.path import isabs, join, normpath
from typing import NamedTuple

from codex_multitool.config.toml_places import Path

_MAX_PATH = 4096  # PATH_MAX, its NUL included
_LARGEST = (1 << 63) - 1  # rlim_t, less RLIM_INFINITY and what is negative in C: getrlimit(2)
_FEWEST_FILES = 64
_LEAST_OUTPUT, _MOST_OUTPUT = 1 << 10, 1 << 20
_SIZE = r"([0-9]{1,19}) ?([KMGT]?)(?:i?B)?"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Base(NamedTuple):
    """What paths are relative to: the folder of their file; after `~/` the user's home, if any."""

    folder: str
    home: str | None


class WrongValueError(Exception):
    """What is wrong with a value, how to mend it; `at` leads from the value to the wrong part."""

    def __init__(self, what: str, mend: str, at: Path = ()) -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend
        self.at = at


Check = Callable[[object, Base], object]


def named(value: object) -> str:
    """A value's TOML type."""
    match value:
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a float"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def boolean(value: object, _base: Base) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise WrongValueError(f"must be a boolean, not {named(value)}", "write true or false")
    return value


def choice(*words: str) -> Check:
    """One of some words."""
    mend = "write one of " + ", ".join(f'"{word}"' for word in words)

    def check(value: object, _base: Base) -> str:
        if not isinstance(value, str):
            raise WrongValueError(f"must be a string, not {named(value)}", mend)
        if value not in words:
            raise WrongValueError(f"unknown value {value!r}", mend)
        return value

    return check


def array(element: Check) -> Check:
    """Any number of values of one kind; a tuple."""

    def check(value: object, base: Base) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise WrongValueError(
                f"must be an array of strings, not {named(value)}", 'write ["...", "..."]'
            )
        found = []
        for index, each in enumerate(value):
            try:
                found.append(element(each, base))
            except WrongValueError as error:
                raise WrongValueError(error.what, error.mend, (index, *error.at)) from None
        return tuple(found)

    return check


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise WrongValueError(f"must be a string, not {named(value)}", 'write it in quotes: "..."')
    return value


def path(value: object, base: Base) -> str:
    """An absolute path: as it is, below home after `~/`, or below the folder of the file."""
    text = _string(value)
    if text == "~" or text.startswith("~/"):
        if base.home is None:
            raise WrongValueError("no home directory is known", "write an absolute path")
        found = normpath(join(base.home, text[2:]))
    elif isabs(text):
        found = text
    else:
        found = normpath(join(base.folder, text))
    if not text or "\0" in text or len(os.fsencode(found)) >= _MAX_PATH:
        raise WrongValueError(f"not a path: {text[:40]!r}", "write the path of a file or folder")
    return found


def marker(value: object, _base: Base) -> str:
    """The name of a file that marks the root of a project."""
    text = _string(value)
    if text in ("", ".", "..") or "/" in text or "\0" in text:
        raise WrongValueError(
            f"not the name of a file: {text[:40]!r}", 'write a name without slash, such as ".git"'
        )
    return text


def variable(text: str) -> str:
    """The name of an environment variable: environ(7)."""
    if not text or "=" in text or "\0" in text:
        raise WrongValueError(
            f"no variable can have the name {text[:40]!r}", "a name is not empty and has no `=`"
        )
    return text


def pattern(value: object, _base: Base) -> str:
    """A name of variables in which `*` stands for any text and `?` for any character."""
    return variable(_string(value))


def beginning(value: object, _base: Base) -> str:
    """A name of variables, or with a final `*` the beginning of their names."""
    text = variable(_string(value))
    if "*" in text[:-1] or text == "*":
        raise WrongValueError(
            f"`*` stands only at the end of a name: {text[:40]!r}", 'write "NAME" or "BEGINNING*"'
        )
    return text


def program(text: str) -> str:
    """A program's base name, or its absolute path."""
    if not text or "\0" in text or ("/" in text and (not isabs(text) or normpath(text) != text)):
        raise WrongValueError(
            f"neither a program's name nor its path: {text[:40]!r}",
            'write "make" or "/usr/bin/make"',
        )
    return text


def variable_value(value: object, _base: Base) -> str:
    """What a variable can hold."""
    text = _string(value)
    if "\0" in text:
        raise WrongValueError("no variable can hold a NUL", "remove \\u0000")
    return text


def seconds(value: object, _base: Base) -> float:
    """A time that passes: more than 0, and finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongValueError(f"must be a number, not {named(value)}", "write seconds: 600 or 2.5")
    if not 0 < value <= _LARGEST:  # nor is it NaN
        raise WrongValueError(f"out of range: {_short(value)}", "write more than 0 seconds")
    return float(value)


def count(value: object, _base: Base) -> int:
    """A number of things, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongValueError(f"must be an integer, not {named(value)}", "write a whole number")
    if not 1 <= value <= _LARGEST:
        raise WrongValueError(f"out of range: {_short(value)}", "write a whole number from 1 up")
    return value


def descriptors(value: object, base: Base) -> int:
    """A number of open files with which a shell and its programs can do their work."""
    number = count(value, base)
    if number < _FEWEST_FILES:
        raise WrongValueError(
            f"too few to work with: {number}", f"write a whole number from {_FEWEST_FILES} up"
        )
    return number


def limit(check: Check) -> Check:
    """A value, or the word that stands for none."""

    def checked(value: object, base: Base) -> object:
        return None if value == "unlimited" else check(value, base)

    return checked


def size(value: object, base: Base) -> int:
    """A number of bytes: an integer, or a string with a binary unit such as `512 MiB`."""
    if not isinstance(value, str):
        return count(value, base)
    found = re.fullmatch(_SIZE, value.strip())
    if found is None:
        raise WrongValueError(
            f"not a size: {value[:40]!r}", 'write bytes, or "512M", "2 GiB" (1 KiB is 1024 bytes)'
        )
    return count(int(found[1]) * _UNITS[found[2]], base)


def output_size(value: object, base: Base) -> int:
    """A number of bytes that a model may be given, and a server hold for each call."""
    found = size(value, base)
    if not _LEAST_OUTPUT <= found <= _MOST_OUTPUT:
        mend = 'write a size from "1 KiB" to "1 MiB"'
        raise WrongValueError(f"out of range: {_short(found)}", mend)
    return found


def _short(number: float) -> str:
    # CPython writes no integer of more than 4300 digits, and TOML may have it in hexadecimal.
    return str(number) if not abs(number) > 10**20 else "a number of more than 20 digits"
