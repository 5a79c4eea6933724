"""The beginning of the process that all keepers are forked from.

It is forked before its front starts any thread or loads anything large, and loads what keepers
need while the front loads what it needs itself. Zygote and keepers are child subreapers (prctl(2)):
whatever a command leaves behind, by setsid or double forks, is below its keeper and can be found.
When the front goes, its sockets close, and every process below ends.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable

import _prctl  # type: ignore[import-not-found]  # see sandbox/enforce.py

from codex_multitool.launcher.hardening import Limits
from codex_multitool.running.probe import Probe


def start(started_with: Limits = (), probe: Probe | None = None) -> socket.socket:
    """Fork the zygote; returns the socket on which it takes `Begin`, and `Grow` for each keeper.

    To be called before any thread is started. The zygote ends when the socket is closed.
    started_with: limits that are others in this process, and given back to what is executed.
    probe: whose trial the zygote begins, as soon as it has loaded what that takes.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        ours.close()
        run_service("codex-zygote", lambda: _serve(theirs, started_with, probe))
    theirs.close()
    if probe is not None:
        probe.left_to_others()
    return ours


def _serve(control: socket.socket, started_with: Limits, probe: Probe | None) -> None:
    _let_go(control.fileno(), *([] if probe is None else [probe.writer]))
    # All that is loaded here is little that the front needs, too.
    if probe is not None:
        from codex_multitool.running import trial  # noqa: F401 — not once more by the trial itself

        probe.begin()
    from codex_multitool.keeper.forking import Zygote

    # A collector that looks at what forks share makes copies of it. Loading leaves no garbage.
    gc.freeze()
    gc.disable()
    Zygote(control, started_with).serve()


def run_service(name: str, serve: Callable[[], None]) -> None:
    """Do what a process of ours is there for, and end it."""
    status = 1
    try:
        _prctl.prctl(_prctl.PR_SET_NAME, name)
        _prctl.prctl(_prctl.PR_SET_CHILD_SUBREAPER, 1)
        # What the terminal or the user sends to the group is for the front to act on: it ends us
        # by closing its sockets. Handled, not ignored: what a process ignores, a program that it
        # starts does, and a wrapper whose parent it is would take for the shell's wish.
        for number in (
            signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE,
            signal.SIGXFSZ, signal.SIGTSTP,
        ):  # fmt: skip
            signal.signal(number, lambda *_: None)
        # A fork has it of its parent, and not the descriptor.
        signal.set_wakeup_fd(-1)
        serve()
        status = 0
    except Exception:  # noqa: BLE001 — a defect: it costs this process and its command
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _let_go(*kept: int) -> None:
    """Drop the front's streams, and whatever its starter may have left it: no command's business.

    A client that waits for the end of the output must not wait for the last keeper, too.
    """
    close_all_but(*kept)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)


def close_all_but(*kept: int) -> None:
    """Close what a fork brought along."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, *kept):
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
