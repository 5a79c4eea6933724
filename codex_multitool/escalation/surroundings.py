"""The environment in which an escalated program starts, and what of its caller's was refused."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack

from codex_multitool.escalation.environment import EscalatedEnvironment, escalated_environment
from codex_multitool.escalation.git_guards import git_guards, settings
from codex_multitool.escalation.identity import replaceable, untrusted
from codex_multitool.escalation.writable import redirectable
from codex_multitool.interception.program import Kind, examine
from codex_multitool.launcher.spawn import NotStartedError, Spawn, Start
from codex_multitool.loop import Task, Wait

_GIT_SECONDS = 10.0
_CHUNK = 1 << 16
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

    def environment(
        self,
        start: Start,
        program: str,
        argv: Sequence[str],
        caller: Mapping[str, str],
        writable: Collection[str],
    ) -> Task[tuple[dict[str, str], tuple[str, ...]]]:
        """The environment for `program`; and what was kept from it, each with its reason.

        start: starts git, if its settings must be asked for. Raises OSError if it cannot be.
        """
        escalated = self._escalated(caller, writable)
        environment = dict(escalated.environment)
        if git_guards(program, argv[1:], environment):
            own = yield from self._own_git(start, writable)
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

    def _own_git(self, start: Start, writable: Collection[str]) -> Task[Sequence[tuple[str, str]]]:
        if self._git is None:
            # What the sandbox could make of PATH and the loader's variables counts here, too.
            environment = self._escalated(self._server, writable).environment
            git = _trusted(environment.get("PATH", ""), "git", writable)
            self._git = (
                () if git is None else settings((yield from _listing(start, git, environment)))
            )
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


def _listing(start: Start, git: int, environment: Mapping[str, str]) -> Task[bytes]:
    """What `git config` lists where no repository is; nothing, if that takes too long."""
    until = time.monotonic() + _GIT_SECONDS
    with ExitStack() as stack:
        stack.callback(os.close, git)
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
        _start_listing(start, git, environment, writer, stack)
        listing = b""
        while (yield Wait(readable=reader, until=until)):
            text = os.read(reader, _CHUNK)
            if not text:
                return listing
            listing += text
    return b""


def _start_listing(
    start: Start, git: int, environment: Mapping[str, str], output: int, stack: ExitStack
) -> None:
    """Start it until `stack` is left. output: closed."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        process = start(
            Spawn(
                path=os.fsencode(os.readlink(f"/proc/self/fd/{git}")),
                argv=[b"git", b"config", b"--list", b"--null"],
                environment=environment,
                workdir=root,
                descriptors=((output, 1),),
                program=git,
            )
        )
    except NotStartedError as error:
        raise OSError(error.errno, str(error)) from None
    finally:
        os.close(root)
        os.close(output)
    stack.callback(process.kill)
