"""What a configuration file must say is merged into it, taken out again, or found missing — pure.

A change keeps everything it has no say in, comments of TOML included, or is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from codex_multitool.cli.toml_edit import edited_toml


class MergeError(Exception):
    """A file that cannot be changed without loss; the text says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file, and what it must say.

    whole: the text of a file that is ours alone. entry: where among the values the server is.
    """

    path: str
    values: Mapping[str, object]
    whole: str | None = None
    entry: tuple[str, ...] = ()

    @property
    def toml(self) -> bool:
        """Whether it is TOML; else JSON."""
        return self.path.endswith(".toml")


# Stands for what is not there; None is a value of JSON's.
_NOTHING = object()

# Settings that are right only as long as the user has none.
_DEFAULTS = frozenset((("version",), ("editor", "vimMode")))


def printed(document: Document) -> str:
    """A new file that says nothing else."""
    return merged_text(document, "")


def merged_text(document: Document, text: str) -> str:
    """The file's text with what it must say; raises MergeError."""
    if document.whole is not None:
        if text not in ("", document.whole):
            raise MergeError("it says something else")
        return document.whole
    return _changed(document, text, lambda old: _merged(old, document.values))


def removed_text(document: Document, text: str, before: Mapping[str, object]) -> str:
    """The file's text without what was merged into it; raises MergeError.

    before: what it said of the same settings then. Empty: nothing is left to be said.
    """
    if document.whole is not None:
        return "" if text == document.whole else text
    entry = document.entry

    def without(old: object) -> object:
        left = _without(old, document.values, before, entry)
        return {} if left is _NOTHING else left

    return _changed(document, text, without)


def said_before(document: Document, text: str) -> dict[str, object]:
    """What the file says of the settings that are to be merged; raises MergeError."""
    said = _common(_parsed(document, text), document.values) if document.whole is None else {}
    return said if isinstance(said, dict) else {}


def is_empty(document: Document, text: str) -> bool:
    """Whether the file says nothing at all; raises MergeError."""
    return not text or (document.whole is None and _parsed(document, text) == {})


def lacking(document: Document, text: str) -> list[str]:
    """What of it the file does not say, in words; raises MergeError."""
    if document.whole is not None:
        return [] if text == document.whole else ["does not say what it must"]
    now = _parsed(document, text)
    found = list(_lacking(now, document.values, ()))
    for key in document.entry:
        now = now.get(key) if isinstance(now, dict) else None
    if isinstance(now, dict) and (now.get("enabled") is False or now.get("disabled") is True):
        found.append(f"{'.'.join(document.entry)} is switched off")
    return found


def _parsed(document: Document, text: str) -> object:
    try:
        if document.toml:
            return tomllib.loads(text)
        return json.loads(text, object_pairs_hook=_unique) if text.strip() else {}
    except RecursionError:
        raise MergeError("it is nested too deeply") from None
    except ValueError as error:
        if document.toml:
            raise MergeError(f"not TOML: {error}") from None
        raise MergeError(f"not plain JSON ({error}); comments would be lost") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _changed(document: Document, text: str, change: Callable[[object], object]) -> str:
    old = _parsed(document, text)
    try:
        new = change(old)
        if new == old:
            return text
        assert isinstance(new, dict)
        if document.toml:
            edited = edited_toml(text, new, document.values)
            if edited is None:
                raise MergeError("its tables are written in a way that is not changed safely")
            return edited
        indent = re.search(r"\n([ \t]+)\S", text)
        return json.dumps(new, indent=indent[1] if indent else 2, allow_nan=False) + "\n"
    except RecursionError:
        raise MergeError("it is nested too deeply") from None
    except ValueError as error:
        raise MergeError(str(error)) from None


def _merged(old: object, new: object, path: tuple[str, ...] = ()) -> object:
    """`old` with `new`: members of objects and elements of lists are added."""
    if isinstance(new, Mapping):
        if not isinstance(old, dict):
            raise MergeError(f"{'.'.join(path) or 'the whole'} is no object")
        found = dict(old)
        for key, value in new.items():
            empty = {} if isinstance(value, Mapping) else value
            found[key] = _merged(old.get(key, empty), value, (*path, key))
        return found
    if isinstance(new, list):
        if not isinstance(old, list):
            raise MergeError(f"{'.'.join(path)} is no list")
        return [*old, *(element for element in new if element not in old)]
    return old if path in _DEFAULTS else new


def _common(old: object, ours: object) -> object:
    """What of `old` stands where `ours` will."""
    if not isinstance(ours, Mapping) or not isinstance(old, dict):
        return old
    return {key: _common(old[key], value) for key, value in ours.items() if key in old}


def _without(now: object, ours: object, before: object, entry: tuple[str, ...] | None) -> object:
    """`now` without `ours`, where that was not there before; _NOTHING if nothing is left.

    entry: where below here the server is: it goes whole, with what was added to it since.
    """
    if entry == () and before is _NOTHING:
        return _NOTHING if _starts_server(now) else now
    if isinstance(ours, Mapping) and isinstance(now, dict):
        said = before if isinstance(before, Mapping) else {}
        members = dict(now)
        for key in ours.keys() & now.keys():
            below = entry[1:] if entry and entry[0] == key else None
            value = _without(now[key], ours[key], said.get(key, _NOTHING), below)
            if value is _NOTHING:
                del members[key]
            else:
                members[key] = value
        return _NOTHING if not members and before is _NOTHING else members
    if isinstance(ours, list) and isinstance(now, list):
        kept = before if isinstance(before, list) else []
        elements = [it for it in now if it not in ours or it in kept]
        return _NOTHING if not elements and before is _NOTHING else elements
    return before if now == ours else now


def _starts_server(entry: object) -> bool:
    command = entry.get("command") if isinstance(entry, dict) else None
    words = command if isinstance(command, list) else [command]
    return any(isinstance(it, str) and it.endswith("/codex-exec-mcp-server") for it in words)


def _lacking(now: object, ours: object, path: tuple[str, ...]) -> Iterator[str]:
    name = ".".join(path)
    if now is _NOTHING:
        yield f"{name} is missing"
    elif isinstance(ours, Mapping):
        if not isinstance(now, dict):
            yield f"{name or 'the whole'} is no object"
            return
        for key, value in ours.items():
            yield from _lacking(now.get(key, _NOTHING), value, (*path, key))
    elif isinstance(ours, list):
        for element in ours:
            if not isinstance(now, list) or element not in now:
                yield f"{name} lacks {json.dumps(element)}"
    elif now != ours and path not in _DEFAULTS:
        yield f"{name} is {json.dumps(now, default=str)}, not {json.dumps(ours)}"
