"""`-c key=value`, and the configuration in force where it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from codex_multitool.config.configuration import Config
from codex_multitool.config.documents import override_document
from codex_multitool.config.errors import ConfigError

HELP = """\
\b
Settings of config.toml hold here, too; -c states one for this run, and may be given again:
  -c sandbox_workspace_write.network_access=true
  -c 'sandbox_workspace_write.writable_roots=["~/.cache"]'
  -c 'shell_environment_policy.set={CI="1"}'
"""


def _stated(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """What was given, each of the form that it must have."""
    for text in given:
        try:
            override_document(text, "/")
        except ConfigError as error:
            raise click.UsageError(f"{error.where}: {error.what}; {error.mend}") from None
    return given


def override_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option -c, as the argument `overrides`."""
    option = click.option(
        "-c",
        "--config",
        "overrides",
        multiple=True,
        callback=_stated,
        metavar="KEY=VALUE",
        help="A setting of config.toml for this run. VALUE is TOML; what is not is a string. May "
        "be given again.",
    )
    return option(function)


def stated_here(config: Config, *key: str) -> str | None:
    """The `-c key=value` that states a setting, or one of a table; None if none does."""
    for found, stated in config.stated.items():
        if found[: len(key)] == key and stated.document.is_override:
            return stated.where
    return None


def refuse_both(config: Config, flag: str, given: object, *key: str) -> None:
    """Raise UsageError where an option and a `-c` say the same: either may be the mistake."""
    if given and (stated := stated_here(config, *key)):
        raise click.UsageError(f"{flag} and {stated} are about the same: give one of them.")
