"""Brings the host of a network rule into the one form in which hosts are compared."""

from __future__ import annotations

from codex_multitool.execpolicy.mistake import Mistake

_SPECIFIC = 'name one host: host="example.org", host="192.0.2.1" or host="[2001:db8::1]"'


def normalise(raw: str) -> str:
    """The host without port, brackets, final dots and capitals; raises Mistake."""
    host = raw.strip()
    if not host:
        raise _mistake("cannot be empty")
    if any(mark in host for mark in "/?#"):
        raise _mistake("must be a hostname or IP literal (without scheme or path)")
    if host.startswith("["):
        host = _without_brackets(host, raw)
    else:
        name, colon, port = host.rpartition(":")
        if colon and name and ":" not in name and _is_port(port):
            host = name
    host = host.rstrip(".").lower()
    if not host:
        raise _mistake("cannot be empty")
    if "*" in host:
        raise _mistake("must be a specific host; wildcards are not allowed")
    if any(character.isspace() for character in host):
        raise _mistake("cannot contain whitespace")
    return host


def _without_brackets(host: str, raw: str) -> str:
    literal, bracket, suffix = host[1:].partition("]")
    if not bracket:
        raise _mistake("has an invalid bracketed IPv6 literal")
    if suffix and not (suffix.startswith(":") and _is_port(suffix[1:])):
        raise _mistake(f"contains an unsupported suffix: {raw}")
    return literal


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _mistake(what: str) -> Mistake:
    return Mistake(f"invalid rule: network_rule host {what}", _SPECIFIC)
