"""Acting on processes outside."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import REFUSED, Attack, Class, More, Need, Sandbox

_VICTIM = frozenset({Need.VICTIM})
_PREPARED = """import ctypes, fcntl, os, resource, signal, struct
victim, at = int(os.environ["VICTIM"]), int(os.environ["VICTIM_AT"])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
x86 = os.uname().machine == "x86_64"
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name + ": " + os.strerror(ctypes.get_errno()))
    return result
"""
# Not those of a process with more capabilities: cap_task_setnice, security/commoncap.c.
_PRIORITY = (
    "the kernel lets a user's processes set each other's priority and processors, and threads of"
    " one program need the same calls"
    if os.geteuid()
    else None
)


_TERMINALS = "pseudo-terminals need the whole of /dev/pts, where the user's own are, too"


def _python(name: str, program: str, **more: Unpack[More]) -> Attack:
    files = {"a.py": _PREPARED + program}
    return replace(Attack(name, "$PYTHON -IS a.py", REFUSED, files=files, needs=_VICTIM), **more)


# The kernel sends SIGKILL in our name when the pipe becomes readable: fcntl(2), F_SETOWN.
_BY_PIPE = """
reader, writer = os.pipe()
fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGKILL)
fcntl.fcntl(reader, fcntl.F_SETOWN, victim)
fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
os.write(writer, b"x")
import time
time.sleep(0.1)
print("EPERM is not told to the sender")
"""
_SHARED_MEMORY = """
piece = (ctypes.c_char_p * 1)(b"hacked")
class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))
text = ctypes.create_string_buffer(b"hacked")
ours, theirs = Vector(ctypes.addressof(text), 6), Vector(at, 6)
call("process_vm_writev", victim, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
"""
_MEMORY_FILE = """
with open(f"/proc/{victim}/mem", "r+b", 0) as memory:
    memory.seek(at)
    memory.write(b"hacked")
"""
_STOLEN = """
fd = call("syscall", 438, os.pidfd_open(victim), 3, 0)
os.write(fd, b"written")
"""
_QUEUED = """
information = ctypes.create_string_buffer(128)
struct.pack_into("iii", information, 0, 9, 0, -1)
call("syscall", 129 if x86 else 138, victim, 9, information)
"""


def _signal(name: str, script: str, **more: Unpack[More]) -> Attack:
    return replace(Attack(name, script, REFUSED, needs=_VICTIM, abi=6), **more)


SIGNALS = Class(
    "signals to a process outside",
    (
        _signal("kill", "kill -KILL $VICTIM"),
        _signal("kill-program", "env kill -KILL $VICTIM"),
        _signal("kill-group", "kill -KILL -- -$VICTIM"),
        _signal("stop", "kill -STOP $VICTIM"),
        _signal("probe", "kill -0 $VICTIM", bare=False),
        _python("pidfd", "signal.pidfd_send_signal(os.pidfd_open(victim), 9)", abi=6),
        _python("thread-kill", "call('syscall', 234 if x86 else 131, victim, victim, 9)", abi=6),
        _python("queued-signal", _QUEUED, abi=6),
        _python("signal-by-pipe", _BY_PIPE, abi=6),
    ),
)  # fmt: skip

REACH = Class(
    "reaching into a process outside",
    (
        _python("trace", "call('ptrace', 16, victim, 0, 0)\nimport time\ntime.sleep(0.1)\n"
                "call('ptrace', 4, victim, at, 0)"),
        _python("seize", "call('ptrace', 0x4206, victim, 0, 0)\nos.kill(victim, 19)\n"
                "os.waitpid(victim, 0x40000000)\ncall('ptrace', 4, victim, at, 0)"),
        _python("write-memory", _SHARED_MEMORY),
        _python("memory-file", _MEMORY_FILE),
        _python("steal-descriptor", _STOLEN),
        _python("limits", "resource.prlimit(victim, resource.RLIMIT_CPU, (1, 1))"),
        Attack("oom-score", "echo 1000 >/proc/$VICTIM/oom_score_adj", REFUSED, needs=_VICTIM),
        Attack("debugger", "gdb -batch -p $VICTIM -ex 'set var *(char *)'$VICTIM_AT' = 0'"
               " -ex detach", REFUSED, needs=_VICTIM, programs=("gdb",)),
        Attack("nice-value", "renice 19 $VICTIM", REFUSED, needs=_VICTIM, open=_PRIORITY),
        Attack("processor", "taskset -p 1 $VICTIM", REFUSED, needs=_VICTIM, open=_PRIORITY,
               bare=(os.cpu_count() or 1) > 1),
        Attack("scheduling", "chrt -i -p 0 $VICTIM", REFUSED, needs=_VICTIM, open=_PRIORITY),
    ),
)  # fmt: skip

_SHARED_PREPARED = """import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
given = {name: int(os.environ[name]) for name in ("SHARED_MEMORY", "SEMAPHORE", "MESSAGES")}
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    if result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), name + ": " + os.strerror(ctypes.get_errno()))
    return result
"""


_SHARED = frozenset({Need.SHARED})


def _shared(name: str, program: str) -> Attack:
    files = {"a.py": _SHARED_PREPARED + program}
    return Attack(name, "$PYTHON -IS a.py", REFUSED, files=files, needs=_SHARED)


_POSIX = "programs that use shm_open(3) or sem_open(3) need /dev/shm, where the user's own are, too"

SHARED = Class(
    "memory and messages shared by programs outside",
    (
        _shared("sysv-memory",
                "ctypes.memmove(call('shmat', given['SHARED_MEMORY'], None, 0), b'hacked', 6)"),
        _shared("sysv-memory-removed", "call('shmctl', given['SHARED_MEMORY'], 0, None)"),
        Attack("sysv-memory-by-command", 'ipcrm -m "$SHARED_MEMORY"', REFUSED, needs=_SHARED,
               programs=("ipcrm",)),
        _shared("sysv-semaphore", "call('semctl', given['SEMAPHORE'], 0, 16, 7)"),
        _shared("sysv-message", "call('msgsnd', given['MESSAGES'], b'x' * 16, 8, 0o4000)"),
        _shared("posix-message",
                "call('mq_send', call('mq_open', os.environ['QUEUE'].encode(), 1), b'x', 1, 0)"),
        _shared("posix-message-queue-removed",
                "call('mq_unlink', os.environ['QUEUE'].encode())"),
        Attack("posix-memory", 'echo hacked >"/dev/shm$QUEUE"', REFUSED, needs=_SHARED,
               open=_POSIX),
        Attack("posix-memory-read-only", 'echo hacked >"/dev/shm$QUEUE"', REFUSED, needs=_SHARED,
               sandbox=Sandbox.READ_ONLY),
    ),
)  # fmt: skip

TERMINAL = Class(
    "the user's terminal",
    (
        Attack("type-into-it", "$PYTHON -IS a.py", REFUSED, needs=frozenset({Need.TERMINAL}),
               files={"a.py": """import fcntl, os
fd = os.open(os.environ["TERMINAL"], os.O_RDWR | os.O_NOCTTY)
for letter in b"id\\n":
    fcntl.ioctl(fd, 0x5412, bytes([letter]))
"""}, bare=False),  # the kernel may refuse it to everybody: CONFIG_LEGACY_TIOCSTI
        Attack("write-on-it", "echo written >$TERMINAL", REFUSED,
               needs=frozenset({Need.TERMINAL}), open=_TERMINALS),
        Attack("make-it-ours", "setsid -c sh -c 'echo x' <$TERMINAL >$TERMINAL", REFUSED,
               needs=frozenset({Need.TERMINAL}), bare=False, sandbox=Sandbox.READ_ONLY),
    ),
)  # fmt: skip

CLASSES = (SIGNALS, REACH, SHARED, TERMINAL)
