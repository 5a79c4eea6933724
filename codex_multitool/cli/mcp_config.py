"""`mcp-config`: a client's configuration for the server, shown or merged into its files."""

from __future__ import annotations

import os
import stat

import click

from codex_multitool import roles
from codex_multitool.cli.client_config import (
    FILES,
    NOTES,
    Document,
    MergeError,
    documents,
    merged_text,
    printed,
)
from codex_multitool.cli.operands import FILE
from codex_multitool.cli.replace import read, replace
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home

HELP = f"""\
Show what an MCP client's configuration must say to run commands through {roles.MCP_SERVER},
with the client's own shell tool disabled where it has a setting for that.

Without --write nothing is changed: file names go to stderr, what they must say to stdout. With
--write it is merged into them: everything else stays as it is, and the file as it was is kept
beside it as FILE.bak (.bak.1, ...). A file that cannot be changed without loss, such as JSON with
comments, is left alone: what to add is printed.

\b
Exit status: 0, or 1 if a file was left alone or cannot be written.

\b
Examples:
  codex-multitool mcp-config codex
  codex-multitool mcp-config claude --write
  codex-multitool mcp-config claude --path .mcp.json --write      for this project alone
  codex-multitool mcp-config vscode --path .vscode/mcp.json
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("client", type=click.Choice(list(FILES)))
@click.option("--write", is_flag=True, help="Merge it into the client's files.")
@click.option("--path", type=FILE, metavar="FILE", help="The file that lists the client's servers.")
def mcp_config(client: str, write: bool, path: str | None) -> None:
    """Show or write the configuration."""
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
    listed = documents(client, file, server, project=project, moved=moved)
    if not write:
        for document in listed:
            click.echo(f"{document.path}:", err=True)
            click.echo(printed(document), nl=False)
    else:
        written = [_write(document) for document in listed]
        if not all(written):
            raise click.exceptions.Exit(1)
    click.echo(NOTES[client], err=True)


def _usual(client: str) -> str:
    try:
        if client == "codex":
            return os.path.join(codex_home(os.environ), FILES[client])
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    if client == "claude" and (folder := _claude_folder()):
        return os.path.join(os.path.abspath(folder), FILES[client])
    stated = os.environ.get("XDG_CONFIG_HOME", "")
    if client == "vscode" and stated.startswith("/"):
        return os.path.join(stated, FILES[client].removeprefix(".config/"))
    return os.path.expanduser(f"~/{FILES[client]}")


def _claude_folder() -> str | None:
    return os.environ.get("CLAUDE_CONFIG_DIR")


def _write(document: Document) -> bool:
    """Merge one file; False if it was left alone, which is then told."""
    # A link stays one: people keep such files elsewhere and link to them.
    path = os.path.realpath(document.path)
    try:
        content = read(path)
        # Its line ends stay as they are.
        text = None if content is None else content.decode()
        wanted = merged_text(document, text or "")
        if wanted == text:
            click.echo(f"{document.path}: nothing to change", err=True)
            return True
        backup = None if text is None else _back_up(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace(path, wanted.encode())
    except (MergeError, UnicodeDecodeError) as error:
        click.echo(f"{document.path}: left alone: {error}. Add by hand:", err=True)
        click.echo(printed(document), nl=False)
        return False
    except OSError as error:
        raise click.ClickException(f"{error.filename or path}: {error.strerror}") from error
    kept = f" (before: {backup})" if backup else ""
    click.echo(f"{document.path}: written{kept}", err=True)
    return True


def _back_up(path: str) -> str:
    """Keep the file's content beside it under a name that is free."""
    with open(path, "rb") as file:
        content, mode = file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    name, number = f"{path}.bak", 0
    while True:
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            number += 1
            name = f"{path}.bak.{number}"
        else:
            with os.fdopen(descriptor, "wb") as backup:
                backup.write(content)
            return name
