"""First module of the executable: name the folder of dependencies, then run the role.

Runs before the role is known, at every exec a patched shell makes: it imports only what the
interpreter has frozen in, starts no thread and leaves argv and the environment as found.
"""

import os
import sys

from codex_multitool import roles


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


def main() -> None:
    """Run the role that argv[0] names and exit with its status."""
    sys.path.append(os.path.realpath(sys.argv[0]) + ".lib")
    undo_locale_coercion()
    sys.exit(roles.main(sys.argv))
