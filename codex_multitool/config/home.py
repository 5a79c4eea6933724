"""Where the user's configuration lives: CODEX_HOME."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping

from codex_multitool.config.errors import ConfigError


def codex_home(environ: Mapping[str, str]) -> str:
    """The folder of config.toml and rules: canonical CODEX_HOME, else ~/.codex.

    CODEX_HOME must be a folder; ~/.codex need not exist. Raises ConfigError.
    """
    stated = environ.get("CODEX_HOME")
    if not stated:
        return os.path.join(user_home(environ), ".codex")
    try:
        is_folder = stat.S_ISDIR(os.stat(stated).st_mode)
    except FileNotFoundError:
        raise ConfigError(
            f'CODEX_HOME points to "{stated}", but that path does not exist'
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f'failed to read CODEX_HOME "{stated}": {_reason(error)}') from error
    if not is_folder:
        raise ConfigError(f'CODEX_HOME points to "{stated}", but that path is not a directory')
    try:
        return os.path.realpath(stated, strict=True)
    except OSError as error:
        raise ConfigError(
            f'failed to canonicalize CODEX_HOME "{stated}": {_reason(error)}'
        ) from error


def user_home(environ: Mapping[str, str]) -> str:
    """The user's home directory, existing or not: $HOME, else the user database's."""
    home = environ.get("HOME")
    if home:
        return home
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = None
    if not home:
        raise ConfigError("Could not find home directory")
    return home


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
