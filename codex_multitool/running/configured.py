"""The configuration of this process, and the environments in which what it runs starts."""

import os
from collections.abc import Sequence

from codex_multitool.config.configuration import Config
from codex_multitool.config.dotenv import load_dotenv
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.layers import load
from codex_multitool.config.shell_environment import shell_environment
from codex_multitool.running import shells
from codex_multitool.running.settings import Environments


def configured(cwd: str | None, overrides: Sequence[str] = ()) -> tuple[Config, Environments]:
    """What is configured for commands in `cwd`. Raises ConfigError.

    overrides: `key=value` each, of a command line.
    """
    config = load(os.environ, cwd, overrides)
    environ = load_dotenv(os.environ)
    environments = Environments(
        own={**environ, **config.users_variables},
        shell=shell_environment(config.environment, environ),
        keep=config.keep_environment,
        drop=config.drop_environment,
        keep_of=dict(config.keep_environment_of),
    )
    return config, environments


def configured_shell(config: Config) -> str | None:
    """The shell that is configured, if one is. Raises ConfigError if it cannot be executed."""
    if config.shell is not None and (reason := shells.unusable(config.shell)):
        where = config.stated["codex_multitool", "shell"].where
        raise ConfigError(
            f"`codex_multitool.shell`: {config.shell}: {reason}",
            "name the path of a shell",
            where=where,
        )
    return config.shell


def workspace(cwd: str | None) -> tuple[str, str | None]:
    """Where commands work of which nobody has said so, and why that is nowhere (empty) if it is.

    Some clients start their servers in the root directory, or at the user's home: neither all
    files nor our own configuration are a workspace. Raises ConfigError.
    """
    if cwd is None or cwd == "/":
        return "", "not all files are a workspace"
    home = codex_home(os.environ)
    if os.path.commonpath([cwd, os.path.realpath(home)]) == cwd:
        return "", f"{home} is in it"
    return cwd, None
