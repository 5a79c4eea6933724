"""How execs will be seen, and by which rules judged: what is settled before anything is served."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.rules_files import load_policy, overlooked, rules_files
from codex_multitool.execpolicy.engine_process import Engine
from codex_multitool.execpolicy.rules import Policy, RulesError

KERNEL, WRAPPER = "kernel", "wrapper"


class StartError(Exception):
    """It cannot start as asked; the text says why and how to mend it."""


class Interception(NamedTuple):
    """How execs are to be seen, as the user asked for it.

    mode: kernel, wrapper or auto. shell: absolute path, or None for the best there is in each
    mode: `stock_shell` in kernel mode, `patched_shell`, if any, in wrapper mode.
    """

    mode: str
    shell: str | None
    stock_shell: str
    patched_shell: str | None
    wrapper: str


class Choice(NamedTuple):
    """How execs are seen. wrapper: None in kernel mode. notice: what the user must be told.

    refused: why the kernel's way is not to be had, where that was wanted. unconfined: that no
    command can be confined here, and why.
    """

    shell: str
    wrapper: str | None
    notice: str | None = None
    refused: str | None = None
    unconfined: str | None = None

    @property
    def told(self) -> str | None:
        """What the model is told: not what goes unjudged, which `notice` says."""
        judged = f"Programs are judged in wrapper mode: {self.refused}." if self.refused else None
        return " ".join(filter(None, (judged, self.unconfined))) or None


def load_rules(more: Sequence[str], engine: Engine | None = None) -> Policy:
    """The policy of the user's rules files and of `more`. Raises StartError.

    engine: one that was begun for this.
    """
    try:
        home = codex_home(os.environ)
        policy = load_policy([*rules_files(home), *more], engine)
    except (RulesError, ConfigError) as error:
        raise StartError(str(error)) from None
    return policy._replace(warnings=(*policy.warnings, *overlooked(home)))


def choose(wanted: Interception, refusal: Callable[[], str | None]) -> Choice:
    """The way that is to be had. Raises StartError.

    refusal: why the kernel's is not; asked only where that makes a difference.
    """
    refused = None if wanted.mode == WRAPPER else refusal()
    if refused is not None and wanted.mode == KERNEL:
        raise StartError(
            f"--intercept=kernel: {refused}; --intercept=wrapper works with a patched shell"
        )
    if wanted.mode != WRAPPER and refused is None:
        return Choice(wanted.shell or wanted.stock_shell, None)
    patched = wanted.shell or wanted.patched_shell
    if patched is None:
        because = "--intercept=wrapper" if refused is None else f"no kernel interception: {refused}"
        raise StartError(
            f"{because}; a patched bash or zsh is needed: give --shell PATH, set CODEX_BASH_PATH, "
            "or build one with `make shells`"
        )
    if refused is None:
        return Choice(patched, wanted.wrapper)
    notice = (
        "Only programs that the shell itself starts are judged, not what they start in turn: "
        f"{refused}."
    )
    return Choice(patched, wanted.wrapper, notice, refused)
