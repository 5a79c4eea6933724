"""Run as a program: put oneself under the exec filter, hand the listener over, become a command.

confined.py ROOT SOCKET OPTIONS COMMAND...: ROOT is the checkout, SOCKET a descriptor. OPTIONS is
one word of letters: k (killable waits wanted), - (nothing).
"""

import ctypes
import os
import socket
import sys

root, number, options, *command = sys.argv[1:]
sys.path.insert(0, root)

from codex_multitool.interception.architecture import architecture  # noqa: E402
from codex_multitool.interception.filter import exec_filter  # noqa: E402
from codex_multitool.interception.kernel import KernelError  # noqa: E402
from codex_multitool.interception.listener import install  # noqa: E402

PR_SET_NO_NEW_PRIVS = 38

machine = architecture(os.uname().machine)
assert machine is not None
ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
channel = socket.socket(fileno=int(number))
try:
    listener, killable = install(machine, exec_filter(machine), killable="k" in options)
except KernelError as error:
    channel.sendall(f"{error.errno} {type(error).__name__}".encode())
    sys.exit(99)
socket.send_fds(channel, [b"k" if killable else b"-"], [listener])
os.close(listener)
channel.close()
os.execvp(command[0], command)
