"""LEAF: whether there is anything to be watched, as a page of memory tells.

The front writes it, and its keepers read it, so that a program can leave without a word between
them where there is not. Who reads it cannot write it, nor what inherits it.
"""

import fcntl
import mmap
import os
from collections.abc import Callable

_FUTURE_WRITE = 0x10  # F_SEAL_FUTURE_WRITE, linux/fcntl.h: Linux 5.1
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _FUTURE_WRITE | fcntl.F_SEAL_SEAL


class Quiet:
    """The front's. descriptor: for `heard`; to be closed once that has it."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.descriptor = os.memfd_create("quiet", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.truncate(self.descriptor, mmap.PAGESIZE)
            self._page = mmap.mmap(self.descriptor, mmap.PAGESIZE)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
        except BaseException:
            os.close(self.descriptor)
            raise

    def tell(self, quiet: bool) -> None:
        """There is nothing to be watched from now on, or there may be."""
        self._page[0] = quiet

    def close(self) -> None:
        """There may be, for ever."""
        self.tell(False)
        self._page.close()


def made() -> Quiet | None:
    """One, if it can be had; without one, keepers ask each time."""
    try:
        return Quiet()
    except OSError:
        return None


def heard(descriptor: int) -> Callable[[], bool]:
    """Whether there is nothing to be watched now, by a front's descriptor, which is closed.

    Raises OSError.
    """
    try:
        page = mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
    return lambda: page[0] == 1


def never() -> bool:
    """In place of it, for the keepers of a front that has none."""
    return False
