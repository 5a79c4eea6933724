"""What all commands of one process have in common: rules, shell, the way execs are seen."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codex_multitool.config.configuration import Limits
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.rules_files import load_policy, rules_files
from codex_multitool.escalation.decide import Judgement
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.execpolicy.rules import Policy, RulesError
from codex_multitool.launcher.pool import LauncherError, Pool
from codex_multitool.running.configured import Environments
from codex_multitool.running.intercept import KERNEL, WRAPPER
from codex_multitool.running.probe import refusal

log = logging.getLogger(__name__)


class StartError(Exception):
    """It cannot start as asked; the text says why and how to mend it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all commands have in common. shell, wrapper: absolute paths.

    wrapper: None in kernel mode. own_mounts: protected names are kept by a mount namespace.
    """

    shell: str
    wrapper: str | None
    judgement: Judgement
    environment: Mapping[str, str]
    surroundings: Surroundings
    limits: Limits = Limits()  # noqa: RUF009 — a tuple
    own_mounts: bool = False


@dataclass(frozen=True, slots=True)
class Interception:
    """How execs are to be seen, as the user asked for it.

    mode: kernel, wrapper or auto. shell: absolute path, or None for the best there is in each
    mode: `stock_shell` in kernel mode, `patched_shell`, if any, in wrapper mode.
    """

    mode: str
    shell: str | None
    stock_shell: str
    patched_shell: str | None
    wrapper: str


def load_rules(more: Sequence[str]) -> Policy:
    """The policy of the user's rules files and of `more`. Raises StartError."""
    try:
        return load_policy([*rules_files(codex_home(os.environ)), *more])
    except (RulesError, ConfigError) as error:
        raise StartError(str(error)) from None


async def settings(
    wanted: Interception,
    judgement: Judgement,
    pool: Pool,
    environments: Environments | None = None,
    limits: Limits | None = None,
    *,
    own_mounts: bool = False,
) -> tuple[Settings, str | None]:
    """The settings, and what the user must be told of them. Raises StartError.

    environments: without them commands have all that this process has. limits: without them, the
    defaults. own_mounts: as of Settings.
    """
    environments = environments or Environments(dict(os.environ), dict(os.environ))
    environment, limits = environments.shell, limits or Limits()
    refused = None
    if wanted.mode != WRAPPER:
        try:
            refused = await refusal(pool, environments.own)
        except LauncherError as error:
            raise StartError(str(error)) from None
        if refused is not None and wanted.mode == KERNEL:
            raise StartError(
                f"--intercept=kernel: {refused}; --intercept=wrapper works with a patched shell"
            )
    surroundings = _surroundings(environments)
    if wanted.mode != WRAPPER and refused is None:
        shell = wanted.shell or wanted.stock_shell
        return Settings(shell, None, judgement, environment, surroundings, limits, own_mounts), None
    patched = wanted.shell or wanted.patched_shell
    if patched is None:
        because = "--intercept=wrapper" if refused is None else f"no kernel interception: {refused}"
        raise StartError(
            f"{because}; a patched bash or zsh is needed: give --shell PATH, set CODEX_BASH_PATH, "
            "or build one with `make shells`"
        )
    notice = None
    if refused is not None:
        notice = (
            "Only programs that the shell itself starts are judged, not what they start in turn: "
            f"{refused}."
        )
        log.warning("%s", notice)
    found = Settings(
        patched, wanted.wrapper, judgement, environment, surroundings, limits, own_mounts
    )
    return found, notice


def _surroundings(environments: Environments) -> Surroundings:
    """The environments of escalated programs."""
    own, shell, keep, drop = environments
    withheld = {name: value for name, value in own.items() if name not in shell}
    return Surroundings(own, withheld=withheld, keep=keep, drop=drop)
