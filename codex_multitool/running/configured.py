"""The configuration of this process, and the environments in which what it runs starts."""

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from codex_multitool.config.configuration import Config
from codex_multitool.config.dotenv import load_dotenv
from codex_multitool.config.layers import load
from codex_multitool.config.shell_environment import shell_environment
from codex_multitool.escalation.surroundings import Surroundings

log = logging.getLogger(__name__)


class Environments(NamedTuple):
    """own: this process's, the ground of escalated programs'. shell: of everything else.

    keep, drop: what the user says of the variables of escalated programs.
    """

    own: Mapping[str, str]
    shell: Mapping[str, str]
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def surroundings(self) -> Surroundings:
        """The environments of escalated programs."""
        withheld = {name: value for name, value in self.own.items() if name not in self.shell}
        return Surroundings(self.own, withheld=withheld, keep=self.keep, drop=self.drop)


def configured(cwd: str | None) -> tuple[Config, Environments]:
    """What is configured for commands in `cwd`; warnings are logged. Raises ConfigError."""
    config = load(os.environ, cwd)
    for warning in config.warnings:
        log.warning("%s", warning)
    own = load_dotenv(os.environ)
    shell = shell_environment(config.environment, own)
    return config, Environments(own, shell, config.keep_environment, config.drop_environment)
