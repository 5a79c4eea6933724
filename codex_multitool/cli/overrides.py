"""The option `-c key=value` of the subcommands that have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from codex_multitool.cli.stated import StatedTwiceError
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
    """The option -c, as the argument `overrides`; a StatedTwiceError is a UsageError then."""

    @wraps(function)
    def called(*arguments: Any, **more: Any) -> Any:
        try:
            return function(*arguments, **more)
        except StatedTwiceError as error:
            raise click.UsageError(str(error)) from None

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
    return option(called)
