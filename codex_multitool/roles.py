"""The table of roles: the base name of argv[0] decides what this process is.

Nothing of a role is imported before its name is known, and roles never import each other:
to get another role's effect, exec the executable under that role's name.
"""

# `signal` would import enum, 2 ms; this is the module of the interpreter behind it.
import _signal  # type: ignore[import-not-found]
import gc
import os
import sys
from os.path import basename, dirname, isabs, join, realpath

CLI = "codex-multitool"
MCP_SERVER = "codex-exec-mcp-server"
EXECVE_WRAPPER = "codex-execve-wrapper"
LINUX_SANDBOX = "codex-linux-sandbox"

_NOT_STARTED = 125  # as env(1) and timeout(1) say that they, not the command, failed


def _started() -> str:
    # A relative name is one of the directory we were started in, which we may leave.
    name = sys.argv[0]
    try:
        return name if isabs(name) else join(os.getcwd(), name)
    except OSError:
        return name  # it was removed, and nothing is found there any more


_STARTED = _started()


def main(argv: list[str]) -> int:
    """Run the role that argv[0] names; any other name is the command line.

    argv: the whole vector, argv[0] included. Returns the exit status.
    """
    # Imports make much and leave no cycles behind: what collecting them finds is not worth a look.
    # A role that goes on for long collects again.
    gc.disable()
    _undo_locale_coercion()
    try:
        return _run(argv)
    except (MemoryError, ImportError) as error:
        if not _for_want_of_memory(error):
            raise
        _complain(f"{basename(argv[0])}: not enough memory to start; a limit is told by ulimit -v")
        return 1 if basename(argv[0]) in (MCP_SERVER, EXECVE_WRAPPER) else _NOT_STARTED


def _for_want_of_memory(error: Exception) -> bool:
    # The dynamic linker's words for it.
    said = ("failed to map segment", "cannot allocate memory")
    return isinstance(error, MemoryError) or any(each in str(error) for each in said)


def _complain(text: str) -> None:
    try:
        os.write(2, os.fsencode(f"{text}\n"))
    except OSError:
        pass  # nobody to tell; the exit status says it


def _run(argv: list[str]) -> int:
    match basename(argv[0]) if argv else "":
        case "codex-execve-wrapper":
            from codex_multitool import execve_wrapper

            return execve_wrapper.main(argv)
        case "codex-linux-sandbox":
            from codex_multitool.sandbox import main as linux_sandbox

            return linux_sandbox.main(argv)
        case "codex-exec-mcp-server":
            from codex_multitool.mcp_server import main as mcp_server

            return mcp_server.main(argv)
        case _:
            from codex_multitool.cli import main as cli

            return cli.main(argv)


def _undo_locale_coercion() -> None:
    # In the C locale Python sets LC_CTYPE for itself (PEP 538): no command of ours asked for that.
    if os.environ.get("LC_CTYPE") == "C.UTF-8":
        try:
            with open("/proc/self/environ", "rb") as environment:
                found = b"\0LC_CTYPE=" in b"\0" + environment.read()
        except OSError:
            return
        if not found:
            del os.environ["LC_CTYPE"]


def entry_point() -> int:
    """Run the role as a console script installed by pip."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    return main(sys.argv)


def executable(role: str) -> str:
    """The absolute path under which to exec `role`: a sibling of the running executable."""
    return join(dirname(realpath(_STARTED)), role)


def started() -> str:
    """The name this process was started by, absolute; perhaps a link, or no longer there."""
    return _STARTED
