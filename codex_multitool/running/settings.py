"""What all commands of one process have in common: rules, shell, the way execs are seen."""

from collections.abc import Mapping
from typing import NamedTuple

from codex_multitool.config.limits import Limits
from codex_multitool.escalation.judgement import Judgement


class Environments(NamedTuple):
    """own: the user's, the ground of escalated programs'. shell: of everything else.

    keep, drop, keep_of: what the user says of the variables of escalated programs.
    """

    own: Mapping[str, str]
    shell: Mapping[str, str]
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    keep_of: Mapping[str, tuple[str, ...]] = {}


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
