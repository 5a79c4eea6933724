"""First module of the executable: name the folder of dependencies, then run the role.

Runs before the role is known, at every exec a patched shell makes: it imports only what the
interpreter has frozen in, starts no thread and leaves argv and the environment as found.
"""

import os
import sys

from codex_multitool import roles

NOT_STARTED = 125  # as of codex-linux-sandbox, which must not seem to be its command's


def undo_locale_coercion() -> None:
    """Give LC_CTYPE back the value the process was started with.

    Under the C locale CPython sets LC_CTYPE itself (PEP 538), and isolated mode cannot tell it
    not to. The initial environment is still in /proc/self/environ (proc_pid_environ(5)).
    """
    if os.environ.get("LC_CTYPE") not in ("C.UTF-8", "C.utf8", "UTF-8"):
        return
    try:
        with open("/proc/self/environ", "rb") as file:
            initial = file.read().split(b"\0")
    except OSError:
        return
    values = [entry[9:] for entry in initial if entry.startswith(b"LC_CTYPE=")]
    if values:
        os.environb[b"LC_CTYPE"] = values[0]
    else:
        del os.environ["LC_CTYPE"]


def unloadable(library: str, error: ImportError) -> str | None:
    """What to say of an import that failed for want of the folder of dependencies."""
    if os.path.isdir(library) or (error.name or "").startswith("codex_multitool"):
        return None
    return (
        f"{sys.argv[0]}: {library} is missing, where its libraries are ({error}): "
        "copy the whole folder that it was built in, or link to it"
    )


def main() -> None:
    """Run the role that argv[0] names and exit with its status."""
    library = os.path.realpath(sys.argv[0]) + ".lib"
    sys.path.append(library)
    undo_locale_coercion()
    try:
        status = roles.main(sys.argv)
    except ImportError as error:
        told = unloadable(library, error)
        if told is None:
            raise
        print(told, file=sys.stderr)
        status = NOT_STARTED
    sys.exit(status)
