"""Does this shell ask before it starts a program? Tried, not believed: wrapper mode stands on it.

With a recorder in place of the exec wrapper the shell runs a few programs. What the recorder
prints shows that it was called, for which program and with which words; those the shell must
compute, so that whoever prints the same is a shell.
"""

import os
import select
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from codex_multitool.escalation import wire
from codex_multitool.running.choice import Choice, StartError

_SECONDS = 10.0
_MOST = 4096  # bytes of what it prints
_FOLDERS = ("/bin", "/usr/bin")
_NOWHERE = "/proc/self/nowhere"  # whose start-up files are none
_FAILED = b"\0"  # and why
_SUMS = ((1001, 7), (2003, 11), (4007, 13))


def prove(choice: Choice) -> None:
    """Raise StartError if rules hang on a shell that does not ask."""
    if choice.wrapper is None:
        return
    why = unasked(choice.shell)
    if why is not None:
        refused = f"no kernel interception: {choice.refused}; and " if choice.refused else ""
        raise StartError(
            f"{refused}no rule would hold under the shell {choice.shell}: {why}. A patched bash or "
            "zsh is needed: build one with `make shells`, or name it with --shell or "
            "CODEX_BASH_PATH"
        )


def unasked(shell: str) -> str | None:
    """Why this shell's programs would run unasked; None if it asks."""
    recorder = next(_recorders(), None)
    if recorder is None:
        return "it cannot be tried, for there is no program `echo`"
    program = shlex.quote(recorder)
    first, second, last = (f"{program} $(({a} + {b}))" for a, b in _SUMS)
    script = f"{first}; ({second}; true) | while read -r line; do echo $line; done; exec {last}"
    printed = _printed(shell, script, recorder)
    if printed is None:
        return f"it was tried, and did not end within {_SECONDS:g} seconds"
    if printed.startswith(_FAILED):
        return f"it cannot be started: {os.fsdecode(printed.removeprefix(_FAILED))}"
    # PATH, then argv[0] and the rest: wire.py
    expected = [f"{recorder} {recorder} {a + b}".encode() for a, b in _SUMS]
    lines = printed.split(b"\n")
    if [line for line in lines if line in expected] == expected:
        return None
    return "it was tried, and starts programs without calling the exec wrapper"


def _recorders() -> Iterator[str]:
    for folder in dict.fromkeys((*_FOLDERS, *os.get_exec_path())):
        path = os.path.join(folder, "echo")
        if os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK):
            yield path


def _printed(shell: str, script: str, recorder: str) -> bytes | None:
    """What the shell prints, as far as it matters; None if it does not end."""
    environment = {
        "PATH": ":".join(_FOLDERS),
        "HOME": _NOWHERE,
        "ZDOTDIR": _NOWHERE,
        wire.WRAPPER_VARIABLE: recorder,
        wire.OLDER_WRAPPER_VARIABLE: recorder,
    }
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _be_shell(writer, [shell, "-c", script], environment)
    os.close(writer)
    try:
        return _read(reader)
    finally:
        os.close(reader)
        # Whichever of us is first; it is not reaped yet, so the number is still its own.
        with suppress(OSError):
            os.setpgid(child, child)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _be_shell(writer: int, words: list[str], environment: dict[str, str]) -> NoReturn:
    """A group of its own, no descriptor of ours, and the signals Python ignores as they were."""
    try:
        os.setpgid(0, 0)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(ignored, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, number in ((null, 0), (writer, 1), (null, 2)):
            os.dup2(descriptor, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.chdir("/")
        os.execve(words[0], words, environment)
    except OSError as error:
        os.write(1, _FAILED + os.fsencode(error.strerror or ""))
    finally:
        os._exit(1)


def _read(descriptor: int) -> bytes | None:
    """All there is up to the end, or up to the most that is wanted; None when time is up."""
    deadline = time.monotonic() + _SECONDS
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    found = b""
    while len(found) < _MOST:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        data = os.read(descriptor, _MOST)
        if not data:
            break
        found += data
    return found
