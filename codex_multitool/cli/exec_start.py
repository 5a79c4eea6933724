"""`exec` from its options on: what was asked for is checked, then the zygote is forked.

Large imports come after that: the zygote loads meanwhile what it needs itself.
"""

import gc
import os
import signal
import sys
from contextlib import closing, nullcontext
from typing import NoReturn

from codex_multitool import roles
from codex_multitool.cli.exec_options import Options
from codex_multitool.cli.main import CANNOT_START
from codex_multitool.keeper import zygote as keepers
from codex_multitool.launcher.hardening import harden
from codex_multitool.running import rules_engine, shells
from codex_multitool.running.probe import Probe

# Ignored by whoever started us (nohup(1), a background job): for the command to find the same.
_HEREDITARY = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class NotRunError(Exception):
    """The command was not run; the text says why."""


def run(options: Options) -> NoReturn:
    """Run the command, and end with its status. Raises StatedTwiceError."""
    try:
        status = _run(options)
    except NotRunError as error:
        sys.stderr.write(f"{roles.CLI} exec: {error}\n")
        status = CANNOT_START
    # All is written, and to undo what was loaded would take as long again.
    os._exit(status)


def _run(options: Options) -> int:
    options = _checked(options)
    try:
        probe = Probe()
        zygote = keepers.start(harden(), probe)
        engine = rules_engine.begin()
    except OSError as error:
        raise NotRunError(f"no process to start CMD from: {error.strerror}") from None
    # What is loaded here leaves no garbage, and none of it is ever given back.
    from codex_multitool.cli import exec_run

    gc.freeze()
    gc.enable()
    with closing(probe), closing(engine) if engine else nullcontext():
        return exec_run.run(options, zygote, probe, engine)


def _checked(options: Options) -> Options:
    """With absolute paths, and what the surroundings say. Raises NotRunError."""
    shells.open_standard_descriptors()
    ignored = tuple(int(n) for n in _HEREDITARY if signal.getsignal(n) is signal.SIG_IGN)
    if signal.SIGINT not in ignored:
        # Until the run listens to it, Ctrl-C ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    shell = options.shell and os.path.abspath(options.shell)
    if shell and (reason := shells.unusable(shell)):
        raise NotRunError(f"--shell {shell}: {reason}")
    if options.json_fd is not None:
        _own(options.json_fd)
    try:
        directory = os.path.abspath(options.directory)
    except FileNotFoundError:
        raise NotRunError("the current directory was removed") from None
    return options._replace(shell=shell, directory=directory, ignored=ignored)


def _own(descriptor: int) -> None:
    try:
        os.set_inheritable(descriptor, False)
    except OSError as error:
        raise NotRunError(f"--json-fd {descriptor}: {error.strerror}") from None
