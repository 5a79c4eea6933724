"""execvp(3), with the exit statuses of env(1): 127 for a command not found, 126 for any other."""

import errno
import os

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_DEFAULT_PATH = "/bin:/usr/bin"  # execvp(3), where PATH is not set
_SHELL = "/bin/sh"

# What one directory of PATH says that leaves the next one worth a try (execvp(3)).
_TRY_NEXT = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EACCES),
    *(errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT),
)


class CommandError(Exception):
    """The command could not be executed."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


def execvp(command: list[str], environ: dict[str, str]) -> None:
    """Become the command; return only by CommandError."""
    file = command[0]
    refused: OSError | None = None
    for path in _candidates(file, environ):
        try:
            _execve(path, command, environ)
        except OSError as error:
            if error.errno not in _TRY_NEXT:
                raise _failure(path, error) from None
            if error.errno != errno.ENOENT or os.path.exists(path):
                refused = refused or error
    if refused is None:
        raise CommandError(NOT_FOUND, f"{file}: {_not_found(file)}")
    raise _failure(str(refused.filename), refused)


def _candidates(file: str, environ: dict[str, str]) -> list[str]:
    if not file:
        return []  # os.execve takes no empty argv[0]; no file has that name
    if "/" in file:
        return [file]
    # An empty element of PATH is the working directory.
    return [os.path.join(folder, file) for folder in environ.get("PATH", _DEFAULT_PATH).split(":")]


def _execve(path: str, command: list[str], environ: dict[str, str]) -> None:
    try:
        os.execve(path, command, environ)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    # A text without `#!` is a script of the shell's.
    os.execve(_SHELL, [_SHELL, path, *command[1:]], environ)


def _not_found(file: str) -> str:
    return os.strerror(errno.ENOENT) if "/" in file else "command not found"


def _failure(path: str, error: OSError) -> CommandError:
    if error.errno == errno.ENOENT:  # the file is there: its interpreter is not
        return CommandError(NOT_EXECUTABLE, f"{path}: its interpreter does not exist")
    return CommandError(NOT_EXECUTABLE, f"{path}: {error.strerror}")
