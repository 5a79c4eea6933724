"""LEAF: executable files in memory that nobody can change, memfd_create(2)."""

import fcntl
import os
from errno import EFBIG, EINVAL

from codex_multitool.interception.program import Program, identity

_MFD_EXEC = 0x10  # Linux 6.3; before, every memfd is executable
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_MOST_BYTES = 256 << 20


def memory_file(name: str) -> int:
    """An executable file, also where vm.memfd_noexec is 1; sysctl/vm.rst."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != EINVAL:
            raise
        return os.memfd_create(name, flags)


def seal(file: int) -> None:
    """From now on it stays as it is."""
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)


def sealed(program: Program) -> Program:
    """The program as it is now, in a copy; closes the original.

    A file may change without a trace in its times, by a mapping that was written to before.
    Raises OSError, and the original stays open.
    """
    source = os.open(f"/proc/self/fd/{program.fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        size = os.fstat(source).st_size
        if size > _MOST_BYTES:
            raise OSError(EFBIG, os.strerror(EFBIG))
        copy = memory_file(os.path.basename(program.asked)[:200])
        try:
            while size > 0 and (count := os.sendfile(copy, source, None, size)):
                size -= count
            seal(copy)
        except BaseException:
            os.close(copy)
            raise
    finally:
        os.close(source)
    os.close(program.fd)
    return program._replace(fd=copy, identity=identity(os.fstat(copy)))
