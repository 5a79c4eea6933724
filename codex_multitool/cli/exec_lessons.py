"""The file of `exec --learn`, held open while the command runs, which may not lead us elsewhere."""

import os
from contextlib import suppress

from codex_multitool.cli import learn, replace
from codex_multitool.cli.exec_start import NotRunError
from codex_multitool.running.standard_streams import write_all


class Lessons:
    """Raises NotRunError where nothing could be written, or somebody else's would be lost."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._new = not os.path.lexists(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            self._file = os.open(path, flags, 0o666)
            replace.require_regular(os.fstat(self._file), path)
            content = os.pread(self._file, len(learn.FIRST_LINE), 0)
        except OSError as error:
            missing = not os.path.isdir(os.path.dirname(path) or ".")
            why = "its folder does not exist" if missing else error.strerror
            raise NotRunError(f"--learn {path}: {why}") from None
        if content and not content.startswith(learn.FIRST_LINE.encode()):
            os.close(self._file)
            raise NotRunError(f"--learn {path}: the file exists, and was not learned; name another")

    def give_up(self) -> None:
        """Nothing ran: leave no empty file behind."""
        os.close(self._file)
        if self._new:
            with suppress(OSError):
                os.unlink(self._path)

    def write(self, text: str) -> str | None:
        """Write it in the place of what was there; why it cannot be, if so."""
        found = os.fstat(self._file)
        try:
            os.ftruncate(self._file, 0)
            write_all(self._file, text.encode())
            there = os.stat(self._path, follow_symlinks=True)
        except OSError as error:
            return error.strerror
        finally:
            os.close(self._file)
        same = (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
        return None if same else "it was replaced while the command ran"
