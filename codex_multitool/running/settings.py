"""What all commands of one process have in common: rules, shell, the way execs are seen."""

from collections.abc import Mapping
from typing import NamedTuple

from codex_multitool.config.configuration import Limits
from codex_multitool.escalation.decide import Judgement
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.running.choice import Choice
from codex_multitool.running.configured import Environments


class Settings(NamedTuple):
    """What all commands have in common. shell, wrapper: absolute paths.

    wrapper: None in kernel mode. own_mounts: protected names are kept by a mount namespace.
    """

    shell: str
    wrapper: str | None
    judgement: Judgement
    environment: Mapping[str, str]
    surroundings: Surroundings
    limits: Limits = Limits()
    own_mounts: bool = False


def settings(
    choice: Choice,
    judgement: Judgement,
    environments: Environments,
    limits: Limits,
    *,
    own_mounts: bool,
) -> Settings:
    """The settings. own_mounts: as of Settings."""
    return Settings(
        shell=choice.shell,
        wrapper=choice.wrapper,
        judgement=judgement,
        environment=environments.shell,
        surroundings=_surroundings(environments),
        limits=limits,
        own_mounts=own_mounts,
    )


def _surroundings(environments: Environments) -> Surroundings:
    """The environments of escalated programs."""
    own, shell, keep, drop = environments
    withheld = {name: value for name, value in own.items() if name not in shell}
    return Surroundings(own, withheld=withheld, keep=keep, drop=drop)
