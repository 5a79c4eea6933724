"""What a keeper has for its commands, one after the other."""

from collections.abc import Callable
from typing import NamedTuple

from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.interception.waiting import Children
from codex_multitool.keeper.front import Front
from codex_multitool.keeper.pipes import Arrivals
from codex_multitool.keeper.processes import Processes
from codex_multitool.keeper.spawners import Spawners
from codex_multitool.launcher.start import Starter
from codex_multitool.loop import Loop
from codex_multitool.running.settings import Environments, Settings


class Means(NamedTuple):
    """All of it. quiet: see quiet.py."""

    loop: Loop
    arrivals: Arrivals
    front: Front
    settings: Settings
    surroundings: Surroundings
    spawners: Spawners
    starter: Starter
    processes: Processes
    children: Children
    quiet: Callable[[], bool]


def surroundings(environments: Environments) -> Surroundings:
    """The environments of programs outside."""
    own, shell, keep, drop, keep_of = environments
    withheld = own.keys() - shell.keys()
    return Surroundings(own, withheld=withheld, keep=keep, drop=drop, keep_of=keep_of)
