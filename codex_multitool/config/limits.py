"""What a command may use — pure."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Most a command may use; None: as much as the server. memory, file_size: bytes.

    processes: more than there are when the command starts. The others: of each process.
    """

    memory: int | None = None
    processes: int | None = 4096
    cpu_seconds: int | None = None
    file_size: int | None = None
    open_files: int | None = None
