"""A process in the sandbox that answers questions put in Python, each in a fork of its own.

Children inherit what confines their parent (landlock(7), seccomp(2)): the role starts once for a
policy, and not for every question.
"""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Sequence

_DEADLINE = 120.0  # seconds

# A program so begun prints the name of the errno that ends it.
PROBE = """
import ctypes, errno, os, socket, sys
def _end(kind, error, trace):
    if isinstance(error, OSError):
        print(errno.errorcode[error.errno])
        sys.stdout.flush()
        os._exit(0)
    sys.__excepthook__(kind, error, trace)
sys.excepthook = _end
def syscall(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result
"""

# Takes a line of JSON with a program and its arguments; answers with a line: wait status, what was
# printed, and what was complained of.
PROGRAM = """
import ctypes, errno, json, os, socket, sys
def run(program, arguments, ends):
    os.dup2(null, 0)
    for number, (read, write) in enumerate(ends, 1):
        os.dup2(write, number)
        os.close(read)
        os.close(write)
    os.close(null)
    status = 1
    try:
        sys.argv[1:] = arguments
        exec(program, {"__name__": "__main__"})
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
null = os.open(os.devnull, os.O_RDWR)
for line in sys.stdin:
    ends = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        run(*json.loads(line), ends)
    said = []
    for read, write in ends:
        os.close(write)
    for read, write in ends:
        with open(read, errors="replace") as stream:
            said.append(stream.read())
    print(json.dumps([os.waitpid(child, 0)[1], *said]), flush=True)
"""


class Answers:
    """Asks `process`, which has to run PROGRAM. Close it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, program: str, arguments: Sequence[str]) -> tuple[int, str, str]:
        """The wait status of a process that runs `program`, its output and its complaints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, arguments]) + "\n")
        self._process.stdin.flush()
        readable, _, _ = select.select([self._process.stdout], [], [], _DEADLINE)
        assert readable, f"no answer in {_DEADLINE} seconds"
        line = self._process.stdout.readline()
        try:
            status, output, complaints = json.loads(line)
        except ValueError:
            raise AssertionError(f"no answer: {line}{self._process.stdout.read()}") from None
        return status, output, complaints

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(_DEADLINE)
