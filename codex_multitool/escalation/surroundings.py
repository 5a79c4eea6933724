"""The environment in which an escalated program starts, and what of its caller's was refused."""

import os
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence

import trio

from codex_multitool.escalation.environment import EscalatedEnvironment, escalated_environment
from codex_multitool.escalation.git_guards import git_guards, settings
from codex_multitool.escalation.identity import redirectable, replaceable, untrusted
from codex_multitool.interception.program import Kind, examine

_GIT_SECONDS = 10.0
_MOMENT = 1.0  # seconds for which an environment holds again: see identity.redirectable()


class Surroundings:
    """Environments for escalated programs, on the ground of the server's own.

    server: the server's environment. withheld: what of it commands never had, and escalated
    programs have all the same. keep, drop: as of escalated_environment(). The user's git settings
    are read when the first git needs them: outside any repository, so they are nobody else's.
    """

    def __init__(
        self,
        server: Mapping[str, str],
        *,
        withheld: Mapping[str, str] | None = None,
        keep: Collection[str] = (),
        drop: Collection[str] = (),
    ) -> None:
        self._server = server
        self._withheld = withheld or {}
        self._keep = keep
        self._drop = drop
        self._git: Sequence[tuple[str, str]] | None = None
        self._latest: tuple[object, float, EscalatedEnvironment] | None = None

    async def environment(
        self,
        program: str,
        argv: Sequence[str],
        caller: Mapping[str, str],
        writable: Collection[str],
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """The environment for `program`; and what was kept from it, each with its reason."""
        escalated = self._escalated(caller, writable)
        environment = dict(escalated.environment)
        if git_guards(program, argv[1:], environment):
            own = await self._own_git(writable)
            environment.update(git_guards(program, argv[1:], environment, own=own))
        # What the caller never had, it did not lose.
        lost = (
            it for it in escalated.dropped if it.name in caller or it.name not in self._withheld
        )
        return environment, tuple(f"{it.name}: {it.reason}" for it in lost)

    def _escalated(
        self, caller: Mapping[str, str], writable: Collection[str]
    ) -> EscalatedEnvironment:
        asked = caller, writable
        now = time.monotonic()
        if self._latest is not None and self._latest[0] == asked and now < self._latest[1]:
            return self._latest[2]
        escalated = escalated_environment(
            self._server,
            {**self._withheld, **caller},
            writable=lambda path: redirectable(path, writable),
            keep=self._keep,
            drop=self._drop,
        )
        self._latest = asked, now + _MOMENT, escalated
        return escalated

    async def _own_git(self, writable: Collection[str]) -> Sequence[tuple[str, str]]:
        if self._git is None:
            # What the sandbox could make of PATH and the loader's variables counts here, too.
            environment = self._escalated(self._server, writable).environment
            git = _trusted(environment.get("PATH", ""), "git", writable)
            self._git = () if git is None else settings(await _listing(git, environment))
        return self._git


def _trusted(path: str, name: str, writable: Collection[str]) -> int | None:
    """The first program of this name that nobody inside could have written, opened."""
    for directory in path.split(":"):
        asked = os.path.join(directory, name)
        if not asked.startswith("/") or redirectable(asked, writable):
            continue
        try:
            fd = os.open(asked, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        program = examine(asked, fd)
        if (
            program.regular
            and program.kind is Kind.ELF
            and untrusted(program, writable) is None
            and replaceable(program) is None
        ):
            return fd
        os.close(fd)
    return None


async def _listing(git: int, environment: Mapping[str, str]) -> bytes:
    try:
        with trio.move_on_after(_GIT_SECONDS):
            done = await trio.run_process(
                ["git", "config", "--list", "--null"],
                executable=f"/proc/self/fd/{git}",
                pass_fds=(git,),
                cwd="/",
                env=dict(environment),
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            return done.stdout
    finally:
        os.close(git)
    return b""
