"""LEAF: signals as a readable descriptor, signalfd(2)."""

import ctypes
import os
import signal
from collections.abc import Iterable

_INFO_BYTES = 128  # sizeof(struct signalfd_siginfo)
_CODE_AT = 8  # ssi_code
_MOST = 64  # more than there are
_SET_BYTES = 128  # sizeof(sigset_t) of glibc and musl
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK  # SFD_CLOEXEC, SFD_NONBLOCK

_libc = ctypes.CDLL(None, use_errno=True)


class Signals:
    """Blocks these signals in this thread for good; they are read from `descriptor`."""

    def __init__(self, numbers: Iterable[int]) -> None:
        numbers = frozenset(numbers)
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        wanted = sum(1 << (number - 1) for number in numbers)
        descriptor = _libc.signalfd(-1, wanted.to_bytes(_SET_BYTES, "little"), _FLAGS)
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.descriptor = int(descriptor)

    def take(self) -> list[int]:
        """The si_code of those that came, sigaction(2)."""
        try:
            found = os.read(self.descriptor, _INFO_BYTES * _MOST)
        except BlockingIOError:
            return []
        return [
            int.from_bytes(found[at : at + 4], "little")
            for at in range(_CODE_AT, len(found), _INFO_BYTES)
        ]
