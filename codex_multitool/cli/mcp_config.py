"""`mcp-config`: a client's configuration for the server, shown, written, checked, taken out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

import click

from codex_multitool import roles
from codex_multitool.cli.client_config import FILES, NOTES, documents
from codex_multitool.cli.client_files import Change, File, Notes, StateError, opened, perform
from codex_multitool.cli.client_merge import (
    Document,
    MergeError,
    is_empty,
    lacking,
    merged_text,
    printed,
    removed_text,
    said_before,
)
from codex_multitool.cli.operands import FILE
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home

HELP = f"""\
Show what an MCP client's configuration must say to run commands through {roles.MCP_SERVER},
with the client's own shell tool disabled where it has a setting for that.

Without an option nothing is changed: file names go to stderr, what they must say to stdout. With
--write it is merged into them: everything else stays as it is, and the file as it was is kept
beside it as FILE.bak (.bak.1, ...). All files are changed or none: where one cannot be changed
without loss, such as JSON with comments, nothing is written and what to add is printed.

--remove takes out what --write put in, and puts back what that replaced. --check says what is
missing.

\b
Exit status: 0, or 1 if nothing was written, or something is missing.

\b
Examples:
  codex-multitool mcp-config codex
  codex-multitool mcp-config claude --write
  codex-multitool mcp-config claude --check
  codex-multitool mcp-config claude --path .mcp.json --write      for this project alone
  codex-multitool mcp-config vscode --path .vscode/mcp.json
"""

# Before it, `features.code_mode` was a yes or no, and tools of servers were always offered.
_FIRST_DEFERRING_CODEX = (0, 143)


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("client", type=click.Choice(list(FILES)))
@click.option("--write", "mode", flag_value="write", help="Merge it into the client's files.")
@click.option("--remove", "mode", flag_value="remove", help="Take it out of them again.")
@click.option("--check", "mode", flag_value="check", help="Say what is missing there.")
@click.option("--path", type=FILE, metavar="FILE", help="The file that lists the client's servers.")
def mcp_config(client: str, mode: str | None, path: str | None) -> None:
    """Show, write, remove or check the configuration."""
    listed = _documents(client, path)
    if mode is None:
        for document in listed:
            click.echo(f"{document.path}:", err=True)
            click.echo(printed(document), nl=False)
        click.echo(NOTES[client], err=True)
        return
    try:
        if mode == "write":
            _write(listed)
            click.echo(NOTES[client], err=True)
        elif mode == "remove":
            _remove(listed)
        else:
            _check(listed)
    except StateError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{error.strerror}") from error


def _documents(client: str, path: str | None) -> list[Document]:
    server = roles.executable(roles.MCP_SERVER)
    if not os.access(server, os.X_OK):
        raise click.ClickException(
            f"{server} is not there; the executable and its other names belong in one folder"
        )
    try:
        server.encode()
    except UnicodeEncodeError:
        raise click.ClickException(
            "the executable's path is not UTF-8, as configuration files are; move it"
        ) from None
    usual = _usual(client)
    try:
        file = os.path.abspath(path or usual)
    except FileNotFoundError:
        raise click.ClickException("the current folder was removed; go to another one") from None
    project = file != usual
    moved = not project and bool(_claude_folder())
    deferring = client != "codex" or _codex_version() >= _FIRST_DEFERRING_CODEX
    return documents(client, file, server, project=project, moved=moved, deferring=deferring)


def _usual(client: str) -> str:
    try:
        if client == "codex":
            return os.path.join(codex_home(os.environ), FILES[client])
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    if client == "claude" and (folder := _claude_folder()):
        return os.path.join(os.path.abspath(folder), FILES[client])
    stated = os.environ.get("XDG_CONFIG_HOME", "")
    if FILES[client].startswith(".config/") and stated.startswith("/"):
        return os.path.join(stated, FILES[client].removeprefix(".config/"))
    if client == "gemini" and (folder := os.environ.get("GEMINI_CLI_HOME")):
        return os.path.join(os.path.abspath(folder), FILES[client])
    return os.path.expanduser(f"~/{FILES[client]}")


def _claude_folder() -> str | None:
    return os.environ.get("CLAUDE_CONFIG_DIR")


def _codex_version() -> tuple[int, ...]:
    """That of the Codex in PATH; the newest where there is none, or it does not say."""
    codex = shutil.which("codex")
    try:
        said = subprocess.run(
            [codex or "codex", "--version"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = b""
    found = re.search(rb"(\d+)\.(\d+)\.\d+", said)
    return (int(found[1]), int(found[2])) if found else _FIRST_DEFERRING_CODEX


def _write(listed: Sequence[Document]) -> None:
    notes = Notes(os.environ)
    changes = []
    for file, text in _changed(listed, merged_text, "write"):
        if text == file.text:
            continue
        before = said_before(file.document, file.text or "")
        if file.document.entry and not _entry(file.document, before):
            notes.drop(file.path)  # somebody took it out by hand
        notes.add(file.path, before, new=file.text is None)
        changes.append(Change(file, text))
    _perform(listed, changes, notes, "written")


def _entry(document: Document, values: object) -> object:
    for key in document.entry:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _remove(listed: Sequence[Document]) -> None:
    notes = Notes(os.environ)

    def without(document: Document, text: str) -> str:
        return removed_text(document, text, notes.before(os.path.realpath(document.path)))

    changes = []
    for file, text in _changed(listed, without, "remove"):
        if file.text is not None and text != file.text:
            goes = is_empty(file.document, text) and (
                file.document.whole is not None or notes.was_new(file.path)
            )
            changes.append(Change(file, None if goes else text))
        notes.drop(file.path)
    _perform(listed, changes, notes, "removed from it")


def _changed(
    listed: Sequence[Document], change: Callable[[Document, str], str], what: str
) -> list[tuple[File, str]]:
    """Each file, and what it is to say; says why where one cannot be changed, and ends."""
    changed, refused = [], False
    for document in listed:
        try:
            file = opened(document)
            changed.append((file, change(document, file.text or "")))
        except MergeError as error:
            refused = True
            click.echo(f"{document.path}: left alone: {error}", err=True)
    if not refused:
        return changed
    by_hand = "Add by hand" if what == "write" else "Remove by hand"
    click.echo(f"Nothing was changed. {by_hand}:", err=True)
    for document in listed:
        click.echo(f"{document.path}:", err=True)
        click.echo(printed(document), nl=False)
    raise click.exceptions.Exit(1)


def _perform(
    listed: Sequence[Document], changes: Sequence[Change], notes: Notes, done: str
) -> None:
    noted = notes.change()
    kept = perform([*changes, *([noted] if noted.text != noted.file.text else [])])
    if noted.file.path in kept:
        os.unlink(kept[noted.file.path])
    changed = {change.file.document.path: change for change in changes}
    for document in listed:
        change = changed.get(document.path)
        if change is None:
            click.echo(f"{document.path}: nothing to change", err=True)
        else:
            backup = kept.get(change.file.path)
            before = f" (before: {backup})" if backup else ""
            click.echo(f"{document.path}: {done}{before}", err=True)


def _check(listed: Sequence[Document]) -> None:
    complete = True
    for document in listed:
        try:
            missing = lacking(document, opened(document).text or "")
        except MergeError as error:
            missing = [str(error)]
        complete = complete and not missing
        click.echo(f"{document.path}: {'; '.join(missing) or 'as it must be'}")
    if not complete:
        raise click.exceptions.Exit(1)
