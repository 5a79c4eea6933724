"""What all commands of one process have in common: rules, shell, the way execs are seen."""

from collections.abc import Mapping
from typing import NamedTuple

from codex_multitool.config.configuration import Limits
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.running.choice import Choice
from codex_multitool.running.configured import Environments


class Settings(NamedTuple):
    """What all commands have in common. shell, wrapper: absolute paths.

    wrapper: None in kernel mode. own_mounts: protected names are kept by a mount namespace.
    """

    shell: str
    wrapper: str | None
    judgement: Judgement
    environments: Environments
    limits: Limits = Limits()
    own_mounts: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        """Of commands."""
        return self.environments.shell


def settings(
    choice: Choice,
    judgement: Judgement,
    environments: Environments,
    limits: Limits,
    *,
    own_mounts: bool,
) -> Settings:
    """The settings. own_mounts: as of Settings."""
    return Settings(choice.shell, choice.wrapper, judgement, environments, limits, own_mounts)
