"""The environment in which an escalated program starts, and what of its caller's was refused."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from types import MappingProxyType

from codex_multitool.escalation.environment import (
    Environment,
    escalated_environment,
    own_environment,
    told,
)
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

    server: the server's environment. withheld: names of it that commands never had, and escalated
    programs have all the same. keep, drop: as of escalated_environment(); keep_of: the same as
    keep for one program, by its path or its base name. The user's git settings are read when the
    first git needs them: outside any repository, so they are nobody else's.
    """

    def __init__(
        self,
        server: Mapping[str, str],
        *,
        withheld: Collection[str] = (),
        keep: Collection[str] = (),
        drop: Collection[str] = (),
        keep_of: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self._server = server
        self._withheld = withheld
        self._keep = keep
        self._drop = drop
        self._keep_of = keep_of
        self._git: Sequence[tuple[str, str]] | None = None
        self._latest: tuple[Collection[str], float, Environment] | None = None

    def environment(
        self,
        start: Start,
        program: str,
        argv: Sequence[str],
        caller: Mapping[str, str],
        writable: Collection[str],
        workdir: str = "/",
    ) -> Task[tuple[dict[str, str], str]]:
        """The environment for `program`; and what was kept from it, with the reasons, or nothing.

        start: starts git, if its settings must be asked for. workdir: where the program starts.
        Raises OSError if git cannot be started.
        """
        escalated = self._escalated(program, caller, writable, workdir)
        environment = dict(escalated.variables)
        if git_guards(program, argv[1:], environment):
            own = yield from self._own_git(start, writable)
            environment.update(git_guards(program, argv[1:], environment, own=own))
        return environment, told(escalated.dropped)

    def _escalated(
        self, program: str, caller: Mapping[str, str], writable: Collection[str], workdir: str
    ) -> Environment:
        of_program = (self._keep_of.get(it, ()) for it in (program, os.path.basename(program)))
        return escalated_environment(
            self._own(writable),
            self._server,
            caller,
            writable=lambda path: redirectable(path, writable),
            true={"PWD": _logical(caller.get("PWD", ""), workdir), "_": program},
            withheld=self._withheld,
            keep=(*self._keep, *chain(*of_program)),
            drop=self._drop,
        )

    def _own(self, writable: Collection[str]) -> Environment:
        now = time.monotonic()
        if self._latest is None or self._latest[0] != writable or now >= self._latest[1]:
            own = own_environment(
                self._server, writable=lambda path: redirectable(path, writable), drop=self._drop
            )
            self._latest = writable, now + _MOMENT, own
        return self._latest[2]

    def _own_git(self, start: Start, writable: Collection[str]) -> Task[Sequence[tuple[str, str]]]:
        if self._git is None:
            # What the sandbox could make of PATH and the loader's variables counts here, too.
            environment = self._escalated("git", self._server, writable, "/").variables
            git = _trusted(environment.get("PATH", ""), "git", writable)
            self._git = (
                () if git is None else settings((yield from _listing(start, git, environment)))
            )
        return self._git


def _logical(path: str, workdir: str) -> str:
    """The caller's name for its working directory, if it is one: pwd(1), -L."""
    try:
        same = path.startswith("/") and os.path.samefile(path, workdir)
    except (OSError, ValueError):
        same = False
    return path if same else workdir


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
