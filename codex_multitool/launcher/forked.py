"""A program outside any sandbox by fork(2): for what posix_spawn(3) cannot give a child.

What runs in the child has no way back: a step that fails is told to the parent and ends the child.
"""

import _signal  # type: ignore[import-not-found]  # see start.py
import os
import resource
from typing import NoReturn

from codex_multitool.launcher.hardening import Limits
from codex_multitool.launcher.placing import first_free, moved
from codex_multitool.launcher.spawn import AS_OURS, Spawn

_FAILED_STATUS = 127
_ERRNO_BYTES = 4


def start(spawn: Spawn, started_with: Limits) -> int:
    """The process id of the program, which is being executed. Raises OSError.

    started_with: the limits, where ours are others, that our own programs have in place of ours.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _be(spawn, writer, started_with)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    try:
        failure = int.from_bytes(os.read(reader, _ERRNO_BYTES), "little")
    finally:
        os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(failure, os.strerror(failure))
    return pid


def _be(spawn: Spawn, report: int, started_with: Limits) -> NoReturn:
    try:
        above = first_free([target for _, target in spawn.descriptors])
        report = moved(report, above, _kept)
        program = None if spawn.program is None else moved(spawn.program, above, _kept)
        os.fchdir(spawn.workdir)
        _place(spawn, above)
        os.setsid()
        _limits(spawn, started_with)
        _signals(spawn)
        if program is None:
            os.execve(spawn.path, spawn.argv, spawn.environment)
        # A script's interpreter opens it once more, as /dev/fd/N.
        os.set_inheritable(program, spawn.script)
        os.execve(program, spawn.argv, spawn.environment)
    except OSError as error:
        os.write(report, (error.errno or 0).to_bytes(_ERRNO_BYTES, "little"))
    finally:
        os._exit(_FAILED_STATUS)


def _place(spawn: Spawn, above: int) -> None:
    sources = [(moved(source, above, _kept), target) for source, target in spawn.descriptors]
    for source, target in sources:
        os.dup2(source, target)
    for standard in {0, 1, 2} - {target for _, target in sources}:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, standard)


def _kept(_: int) -> None:
    """Close-on-exec is enough."""


def _limits(spawn: Spawn, started_with: Limits) -> None:
    if spawn.umask != AS_OURS:
        os.umask(spawn.umask)
    for kind, soft, hard in (*started_with, *spawn.limits):
        resource.setrlimit(kind, (soft, hard))
    if spawn.nice > os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, spawn.nice)


def _signals(spawn: Spawn) -> None:
    """What our processes handle, or Python ignores, is the default again."""
    for number in {*spawn.ignored, *_signal.valid_signals()} - {_signal.SIGKILL, _signal.SIGSTOP}:
        wanted = _signal.SIG_IGN if number in spawn.ignored else _signal.SIG_DFL
        if _signal.getsignal(number) not in (wanted, None):
            _signal.signal(number, wanted)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, spawn.blocked)
