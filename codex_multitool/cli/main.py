"""Role: the human command line.

Reads argv and execs; it confines and judges nothing itself. What reads most command lines takes as
long to load as all else that a command needs to be run, so plain ones of `exec` do without.
"""

import errno
import os
import signal
import sys

from codex_multitool import roles
from codex_multitool.cli.exec_options import plain
from codex_multitool.running import standard_streams

# As env(1), timeout(1) and nohup(1) say that they, not the command, failed.
CANNOT_START = 125

# Of descriptors, processes or memory: nobody's mistake, and any call may meet it.
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


def main(argv: list[str]) -> int:
    """Run the command line; argv[0] is the name it was started under. Returns the status."""
    # Ctrl-C ends the process as it ends others, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    standard_streams.claim()
    try:
        return _run(argv[1:])
    except standard_streams.OutputError as error:
        if str(error):
            _complain(argv[1:], str(error))
        return error.status
    except OSError as error:
        if error.errno not in _SCARCE:
            raise
        _complain(argv[1:], error.strerror or str(error))
        return 1


def _run(words: list[str]) -> int:
    options = plain(words, os.environ)
    if options is not None:
        from codex_multitool.cli.exec_start import run

        run(options)
    from codex_multitool.cli.commands import command_line

    try:
        command_line.main(args=words, prog_name=roles.CLI)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _complain(words: list[str], text: str) -> None:
    from codex_multitool.cli.commands import command_line

    sys.stderr.write(f"{command_line.called(words, roles.CLI)}: {text}\n")
