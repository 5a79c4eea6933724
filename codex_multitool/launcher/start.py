"""Programs outside any sandbox: started as their callers would have, signalled, waited for.

By posix_spawn(3), which copies nothing; what the child is to have then is ours for a moment, since
there is a single thread. What cannot be ours even for a moment takes a fork.
"""

# `signal` turns every number into a member of an enumeration.
import _signal  # type: ignore[import-not-found]
import os
import resource
from collections.abc import Sequence
from contextlib import ExitStack

from codex_multitool.launcher import forked
from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.placing import Action, actions, defaults, first_free, ignoring, moved
from codex_multitool.launcher.spawn import AS_OURS, Process, Spawn, not_started


class Starter:
    """Starts programs, and hears from whoever waits for children which have ended.

    started_with: limits that are others in this process, and given back to what is executed.
    """

    def __init__(self, started_with: Limits) -> None:
        # But for cores: a program that is just beginning shall leave none either.
        self._started_with = tuple(it for it in started_with if it[0] != resource.RLIMIT_CORE)
        self._processes: dict[int, Process] = {}

    def start(self, spawn: Spawn) -> Process:
        """Start a program; returns when it is being executed. Raises NotStartedError."""
        started_with = self._started_with
        try:
            if _needs_fork(spawn):
                pid = forked.start(spawn, started_with)
            else:
                pid = _vforked(spawn, started_with)
        except OSError as error:
            raise not_started(error.errno or 0) from None
        process = self._processes[pid] = Process(pid, _signal_group)
        return process

    def ended(self, pid: int, status: int) -> None:
        """A child was waited for."""
        process = self._processes.pop(pid, None)
        if process is not None:
            process.end(status)

    def running(self) -> set[int]:
        """The process ids of those that have not ended."""
        return set(self._processes)


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has just ended, or is a setuid program that is not ours to signal


def _needs_fork(spawn: Spawn) -> bool:
    """Whether a child must have what its parent cannot have for a moment."""
    if spawn.nice > os.getpriority(os.PRIO_PROCESS, 0):
        return True  # it could not be taken back
    # Children that end at that moment would leave no status: wait(2).
    return _signal.SIGCHLD in spawn.ignored


def _are_beyond(placed: Sequence[Action], started_with: Limits) -> bool:
    """Whether a descriptor's number, here or there, is one that the limit does not allow."""
    highest = max(max(source, target) for _, source, target in placed)
    return any(
        kind == resource.RLIMIT_NOFILE and soft != resource.RLIM_INFINITY and soft <= highest
        for kind, soft, _ in started_with
    )


def _vforked(spawn: Spawn, started_with: Limits) -> int:
    """The process id of the program. Raises OSError."""
    with ExitStack() as stack:

        def opened(fd: int) -> None:
            stack.callback(os.close, fd)

        placed = actions(spawn.descriptors, opened)
        if _are_beyond(placed, started_with):
            return forked.start(spawn, started_with)
        path = spawn.path
        if spawn.program is not None:
            above = first_free([target for _, target in spawn.descriptors])
            program = moved(spawn.program, above, opened)
            path = b"/proc/self/fd/%d" % program
            if spawn.script:
                # Its interpreter opens it once more.
                path = b"/dev/fd/%d" % program
                os.set_inheritable(program, True)
                stack.callback(os.set_inheritable, program, False)
        os.fchdir(spawn.workdir)
        stack.callback(os.chdir, "/")
        if spawn.umask != AS_OURS:
            stack.callback(os.umask, os.umask(spawn.umask))
        for limit in started_with:
            _limit(*limit, stack)
        if spawn.ignored:
            stack.enter_context(ignoring(spawn.ignored))
        pid = os.posix_spawn(
            path,
            spawn.argv,
            spawn.environment,
            file_actions=placed,
            setsid=True,
            setsigmask=spawn.blocked,
            setsigdef=defaults(spawn.ignored),
        )
    for kind, soft, hard in spawn.limits:
        try:
            resource.prlimit(pid, kind, (soft, hard))
        except (ProcessLookupError, PermissionError):
            pass  # it has ended, or is a setuid program, which has its own reasons
    return pid


def _limit(kind: int, soft: int, hard: int, stack: ExitStack) -> None:
    """Have a limit until `stack` is left."""
    ours = resource.getrlimit(kind)
    if ours != (soft, hard):
        stack.callback(resource.setrlimit, kind, ours)
        resource.setrlimit(kind, (soft, hard))
