"""Turns the arguments of a builtin's call into the values rules are made of, or a Mistake."""

from __future__ import annotations

import os.path
from collections.abc import Mapping

from codex_multitool.execpolicy.evaluation import Argument, Item
from codex_multitool.execpolicy.mistake import Mistake
from codex_multitool.execpolicy.rules import Decision, normal_path
from codex_multitool.execpolicy.shell_words import UnbalancedError, split

_PREFIX_DECISIONS = {decision.word: decision for decision in Decision}
_NETWORK_DECISIONS = {**_PREFIX_DECISIONS, "deny": Decision.FORBIDDEN}
_PROTOCOLS = {
    "http": "http",
    "https": "https",
    "https_connect": "https",
    "http-connect": "https",
    "socks5_tcp": "socks5_tcp",
    "socks5_udp": "socks5_udp",
}

_MEND_PATTERN = 'list words, and lists of alternative words: pattern=["git", ["pull", "fetch"]]'
_MEND_EXAMPLE = 'write each example as a command line or its words: match=["git pull"]'
_MEND_JUSTIFICATION = "say in a few words why, or leave the justification out"
_MEND_NAME = 'give the file name alone: host_executable(name="git", paths=["/usr/bin/git"])'
_MEND_PATHS = 'list absolute paths that end in the name: paths=["/usr/bin/git"]'


def text(arguments: Mapping[str, Argument], name: str) -> str:
    """The string that was given for the required parameter `name`."""
    value = arguments[name]
    if not isinstance(value, str):
        raise _unexpected_type(name, "str", value)
    return value


def optional_text(arguments: Mapping[str, Argument], name: str) -> str | None:
    """The string for `name`, or None where it was left out."""
    return None if arguments[name] is None else text(arguments, name)


def items(arguments: Mapping[str, Argument], name: str) -> list[Item | list[Item]]:
    """The list that was given for the required parameter `name`."""
    value = arguments[name]
    if not isinstance(value, list):
        raise _unexpected_type(name, "list", value)
    return value


def optional_items(arguments: Mapping[str, Argument], name: str) -> list[Item | list[Item]]:
    """The list for `name`, empty where it was left out."""
    return [] if arguments[name] is None else items(arguments, name)


def prefix_decision(word: str | None) -> Decision:
    """The decision of a prefix rule; left out, it is allow."""
    return Decision.ALLOW if word is None else _decision(_PREFIX_DECISIONS, word)


def network_decision(word: str) -> Decision:
    """The decision of a network rule."""
    return _decision(_NETWORK_DECISIONS, word)


def _decision(known: Mapping[str, Decision], word: str) -> Decision:
    if word not in known:
        choices = ", ".join(f'"{each}"' for each in known)
        raise Mistake(f"invalid decision: {word}", f"use one of {choices}")
    return known[word]


def justification(given: str | None) -> str | None:
    """The justification as written; a blank one is a mistake."""
    if given is not None and not given.strip():
        raise Mistake("invalid rule: justification cannot be empty", _MEND_JUSTIFICATION)
    return given


def protocol(word: str) -> str:
    """The protocol of a network rule under its one name."""
    if word not in _PROTOCOLS:
        names = "http, https, socks5_tcp, socks5_udp"
        raise Mistake(
            f"invalid rule: network_rule protocol must be one of {names} (got {word})",
            f"use one of {names}",
        )
    return _PROTOCOLS[word]


def pattern(elements: list[Item | list[Item]]) -> tuple[tuple[str, ...], ...]:
    """The accepted tokens of each position."""
    if not elements:
        raise _pattern_mistake("pattern cannot be empty")
    return tuple(_alternatives(element) for element in elements)


def _alternatives(element: Item | list[Item]) -> tuple[str, ...]:
    if isinstance(element, str):
        return (element,)
    if isinstance(element, dict):
        raise _pattern_mistake(
            f"pattern element must be a string or list of strings (got {element['type']})"
        )
    if not element:
        raise _pattern_mistake("pattern alternatives cannot be empty")
    tokens: list[str] = []
    for item in element:
        if not isinstance(item, str):
            raise _pattern_mistake(f"pattern alternative must be a string (got {item['type']})")
        tokens.append(item)
    return tuple(tokens)


def examples(given: list[Item | list[Item]]) -> tuple[tuple[str, ...], ...]:
    """Each example as the tokens of a command."""
    return tuple(_example(example) for example in given)


def _example(example: Item | list[Item]) -> tuple[str, ...]:
    if isinstance(example, dict):
        raise _example_mistake(
            f"example must be a string or list of strings (got {example['type']})"
        )
    if isinstance(example, str):
        try:
            words = split(example)
        except UnbalancedError:
            raise _example_mistake("example string has invalid shell syntax") from None
        if not words:
            raise _example_mistake("example cannot be an empty string")
        return tuple(words)
    if not example:
        raise _example_mistake("example cannot be an empty list")
    tokens: list[str] = []
    for item in example:
        if not isinstance(item, str):
            raise _example_mistake(f"example tokens must be strings (got {item['type']})")
        tokens.append(item)
    return tuple(tokens)


def executable_name(name: str) -> str:
    """The bare file name of a host executable."""
    if not name:
        raise Mistake("invalid rule: host_executable name cannot be empty", _MEND_NAME)
    if "/" in name or name in (".", ".."):
        raise Mistake(
            f"invalid rule: host_executable name must be a bare executable name (got {name})",
            _MEND_NAME,
        )
    return name


def executable_paths(name: str, given: list[Item | list[Item]]) -> tuple[str, ...]:
    """The absolute, lexically normal paths of the host executable `name`, each once."""
    paths: dict[str, None] = {}
    for item in given:
        if not isinstance(item, str):
            kind = "list" if isinstance(item, list) else item["type"]
            raise _path_mistake(f"host_executable paths must be strings (got {kind})")
        if not item.startswith("/"):
            raise _path_mistake(f"host_executable paths must be absolute (got {item})")
        path = normal_path(item)
        if os.path.basename(path) != name:
            raise _path_mistake(f"host_executable path `{item}` must have basename `{name}`")
        paths[path] = None
    return tuple(paths)


def _unexpected_type(name: str, expected: str, value: Argument) -> Mistake:
    if isinstance(value, dict):
        actual = value["type"]
    else:
        actual = "string" if isinstance(value, str) else "list"
    form = {"str": "a string in quotes", "list": "a list in brackets"}[expected]
    return Mistake(
        f"Type of parameter `{name}` doesn't match, expected `{expected}`, actual `{actual}`",
        f"give {name} as {form}",
    )


def _pattern_mistake(what: str) -> Mistake:
    return Mistake(f"invalid pattern element: {what}", _MEND_PATTERN)


def _example_mistake(what: str) -> Mistake:
    return Mistake(f"invalid example: {what}", _MEND_EXAMPLE)


def _path_mistake(what: str) -> Mistake:
    return Mistake(f"invalid rule: {what}", _MEND_PATHS)
