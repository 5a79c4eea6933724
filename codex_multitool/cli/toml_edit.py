"""A few settings changed in the text of a TOML file, and all else left as it is written — pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence

_Path = tuple[str, ...]


def edited_toml(text: str, wanted: Mapping[str, object], ours: Mapping[str, object]) -> str | None:
    """The text changed to say what is wanted; None if its way of writing does not allow it.

    wanted: the whole document, which differs from what the text says only in settings of `ours`.
    """
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    said = tomllib.loads(text)
    for path, keys in _tables(ours, ()):
        new, old = _at(wanted, path), _at(said, path)
        if new is None:
            lines = _without_table(lines, path)
            continue
        for key in keys:
            if key in new and (old is None or key not in old or old[key] != new[key]):
                lines = _with_setting(lines, path, key, new[key])
            elif key not in new and old is not None and key in old:
                lines = _without_setting(lines, path, key)
    edited = "".join(lines)
    try:
        return edited if tomllib.loads(edited) == wanted else None
    except tomllib.TOMLDecodeError:
        return None


def _tables(values: Mapping[str, object], path: _Path) -> list[tuple[_Path, list[str]]]:
    """The tables among the values, each with the settings it holds itself."""
    own = [key for key, value in values.items() if not isinstance(value, Mapping)]
    found = [(path, own)] if own else []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _tables(value, (*path, key))
    return found


def _at(document: Mapping[str, object], path: _Path) -> Mapping[str, object] | None:
    for key in path:
        inner = document.get(key)
        if not isinstance(inner, Mapping):
            return None
        document = inner
    return document


def _header(path: _Path, more: str = "") -> re.Pattern[str]:
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in path)
    return re.compile(rf"\s*\[\s*{name}{more}\s*\]\s*(#.*)?$")


def _table(lines: Sequence[str], path: _Path) -> tuple[int, int] | None:
    """Where the table's own lines begin, and where they end."""
    header = _header(path)
    start = next((at for at, line in enumerate(lines) if header.match(line)), None)
    return None if start is None else (start + 1, _end(lines, start + 1))


def _end(lines: Sequence[str], start: int) -> int:
    """The end of what begins there: comments before the next header are that one's."""
    end = start
    while end < len(lines) and not lines[end].lstrip().startswith("["):
        end += 1
    while end > start and lines[end - 1].lstrip()[:1] in ("", "#"):
        end -= 1
    return end


def _setting(lines: Sequence[str], path: _Path, key: str) -> int | None:
    table = _table(lines, path)
    stated = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    return table and next((at for at in range(*table) if stated.match(lines[at])), None)


def _with_setting(lines: list[str], path: _Path, key: str, value: object) -> list[str]:
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    said = f"{key} = {json.dumps(value, ensure_ascii=False, default=str)}"
    at = _setting(lines, path, key)
    if at is not None:
        return [*lines[:at], said + _remark(lines[at]) + end, *lines[at + 1 :]]
    table = _table(lines, path)
    if table is not None:
        return [*lines[: table[1]], said + end, *lines[table[1] :]]
    before = [end] if lines else []
    return [*lines, *before, f"[{'.'.join(path)}]{end}", said + end]


def _remark(line: str) -> str:
    """The comment behind a setting, with the blanks before it."""
    for found in re.finditer(r"\s*#", line):
        try:
            tomllib.loads(line[: found.start()])
        except tomllib.TOMLDecodeError:
            continue  # it is in a string
        return line[found.start() :].rstrip()
    return ""


def _without_setting(lines: list[str], path: _Path, key: str) -> list[str]:
    at = _setting(lines, path, key)
    return lines if at is None else lines[:at] + lines[at + 1 :]


def _without_table(lines: list[str], path: _Path) -> list[str]:
    """The lines without the table and those in it, and without the blank line before each."""
    header = _header(path, r"(\s*\..+)?")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        if not header.match(lines[at]):
            kept.append(lines[at])
            at += 1
            continue
        at = _end(lines, at + 1)
        if kept and not kept[-1].strip():
            kept.pop()
    return kept
