"""`execpolicy fmt`: rules files in one layout, or left as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from codex_multitool.cli.replace import replace, require_regular
from codex_multitool.config.rules_files import MAXIMUM_BYTES, decoded
from codex_multitool.execpolicy.amend import AmendError, is_at, lock
from codex_multitool.execpolicy.layout import laid_out
from codex_multitool.execpolicy.layout_tree import LayoutError
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Location, Policy, RulesError

STDIN = "-"
_MEND = "it is left as it is; write this another way, or keep the layout"


class FormatError(Exception):
    """A file that is left as it is; the text says which, where and why."""


def formatted(path: str, content: bytes) -> bytes:
    """A rules file's content in the one layout. Raises FormatError.

    Proven to state the same: both texts are evaluated.
    """
    try:
        source = decoded(path, content)
        meant = _meaning(source)
        try:
            text = laid_out(source.text)
        except LayoutError as error:
            raise RulesError(
                Location(path, error.line, error.column), f"no layout: {error}", _MEND
            ) from None
        if _meaning(Source(path, text)) != meant:
            raise RulesError(None, "no layout: it would state something else", _MEND, path=path)
    except RulesError as error:
        raise FormatError(str(error)) from None
    return text.encode()


def format_file(path: str, *, check: bool) -> bool:
    """Lay a file out, unless only to check; returns whether it was another layout.

    Raises FormatError.
    """
    try:
        # A link stays one: people keep such files elsewhere and link to them.
        real = os.path.realpath(path)
        with _opened(path, real) as file:
            content = _content(file)
            wanted = formatted(path, content)
            if wanted == content:
                return False
            if not check:
                replace(real, wanted)
    except AmendError as error:
        raise FormatError(str(error)) from None
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from None
    return True


def format_stdin() -> tuple[bytes, bool]:
    """What stdin holds, laid out; and whether it was another layout. Raises FormatError."""
    try:
        content = _content(0)
    except OSError as error:
        raise FormatError(f"<stdin>: {error.strerror}") from None
    wanted = formatted("<stdin>", content)
    return wanted, wanted != content


@contextmanager
def _opened(path: str, real: str) -> Iterator[int]:
    """The file, for nobody else to add a rule to meanwhile."""
    # A pipe would be waited for: open(2).
    file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(os.fstat(file), path)
        lock(file, path)
        if not is_at(file, real):
            raise FormatError(f"{path}: another program has just replaced it; try again")
        yield file
    finally:
        os.close(file)


def _content(file: int) -> bytes:
    content = b""
    while part := os.read(file, 1 << 20):
        content += part
        if len(content) > MAXIMUM_BYTES:
            break  # which `decoded` refuses
    return content


def _meaning(source: Source) -> Policy:
    """What a file states, wherever in it. Its examples may need another file: they are not held."""
    policy = parse([source], examples=False)
    return Policy(
        {
            token: tuple(rule._replace(location=None) for rule in listed)
            for token, listed in policy.rules.items()
        },
        dict(policy.host_executables),
        tuple(rule._replace(location=None) for rule in policy.network_rules),
    )


def format_all(paths: Sequence[str], *, check: bool) -> int:
    """Lay out each of the files, and tell; returns the exit status."""
    status = 0
    for path in paths:
        try:
            if path == STDIN:
                text, other = format_stdin()
                if not check:
                    click.echo(text, nl=False)
            else:
                other = format_file(path, check=check)
        except FormatError as error:
            click.echo(str(error), err=True)
            status = 1
            continue
        if other and check:
            click.echo(os.fsencode(f"{path}: not in the layout of `execpolicy fmt`"))
            status = 1
        elif other and path != STDIN:
            click.echo(f"{path}: formatted", err=True)
    return status
