"""By which names a program is judged, and whether an allow rule may trust them.

Whatever the sandbox could write, replace, or make a path lead to, may forbid or ask, never allow.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from stat import S_ISVTX

from codex_multitool.escalation.decide import ExecRequest
from codex_multitool.escalation.git_arguments import git_arguments
from codex_multitool.escalation.writable import (
    beneath,
    leads_to,
    mounted_beneath,
    redirectable,
)
from codex_multitool.interception.program import Kind, Program
from codex_multitool.interception.tracee import Loaded

_MANY_IN_ONE = frozenset(("busybox", "toybox"))

# Folders that our user cannot write, nor any above them: nobody but root can change that.
_kept: set[str] = set()
_MOST_KEPT = 256

Command = tuple[str, ...]


def exec_request(
    program: Program,
    asked: str,
    argv: Command,
    workdir: str,
    writable: Collection[str],
    *,
    executed: Command,
    interpreters: Sequence[Program] = (),
    linker: Program | None = None,
    loaded: Loaded | None = None,
) -> ExecRequest:
    """The request for one exec.

    asked: absolute path the caller used. executed: the arguments with which the kernel starts what
    really runs: `program`, or the last of its interpreters. linker: the program that it names to be
    run in its place. loaded: what the ELF loader loads.
    """
    path = program.path or asked
    names, also = [path], list[Command]()
    if asked != path:
        if _leads(asked, path, writable):
            names.append(asked)
        else:
            also.append((asked, *argv[1:]))
    for interpreter in interpreters:
        also += [(name, *executed[1:]) for name in _names(interpreter, workdir)]
    if linker is not None and linker.kind is not Kind.LOADER:
        also += [(name, *executed[1:]) for name in _names(linker, workdir)]
    if loaded is not None and loaded.program is not None:
        also += [(name, *loaded.argv[1:]) for name in _names(loaded.program, workdir)]
    also += _all_meant([(name, *argv[1:]) for name in names] + also, argv)
    others = (*interpreters, linker) if linker is not None else interpreters
    reason = untrusted(program, writable) or _untrusted_interpreter(others, workdir, writable)
    yours = next(filter(None, map(replaceable, (program, *others))), None)
    return ExecRequest(tuple(names), argv, workdir, tuple(also), reason, yours)


def with_arguments(request: ExecRequest, argv: Command) -> ExecRequest:
    """The request of the same program, no script or loader and by the same names, with these."""
    commands = [(name, *argv[1:]) for name in request.programs]
    return request._replace(argv=argv, interpreters=tuple(_all_meant(commands, argv)))


def named_request(path: str, argv: Command, workdir: str, writable: Collection[str]) -> ExecRequest:
    """The request for a program that is not there, as far as its path, absolute, tells."""
    lies = f"{path} lies where the sandbox can write" if beneath(path, writable) else None
    meant = _meant((path, *argv[1:]), argv)
    return ExecRequest((path,), argv, workdir, tuple(meant), untrusted=lies)


def untrusted(program: Program, writable: Collection[str]) -> str | None:
    """Why the sandbox could have written or replaced the program; None if it could not."""
    if program.path is None:
        what = "lives in memory only" if program.memfd else "has no path that leads to it"
        return f"{program.asked} {what}"
    if beneath(program.path, writable) or mounted_beneath(program.path, tuple(writable)):
        return f"{program.path} lies where the sandbox can write"
    return None


def replaceable(program: Program) -> str | None:
    """Why our user could have written or replaced the program, by owner and mode.

    None if he could not. root could any, so of root's this tells nothing and is None, too.
    """
    user, path = os.geteuid(), program.path
    if user == 0 or path is None:
        return None
    if program.owner == user or (program.mode & 0o022 and _writable_by_mode(path)):
        return f"your user can write {path}"
    folder, below = os.path.dirname(path), program.owner
    while folder not in _kept:
        try:
            status = os.stat(folder)
        except OSError as error:
            return f"{folder} above {path}: {error.strerror}"
        # In a sticky folder of another's nobody replaces what is not his: unlink(2).
        kept = status.st_mode & S_ISVTX and status.st_uid != user and below != user
        if status.st_uid == user or (not kept and _writable_by_mode(folder)):
            return f"your user can replace {path}: he can write {folder}"
        if folder == "/":
            break
        folder, below = os.path.dirname(folder), status.st_uid
    if len(_kept) < _MOST_KEPT:
        _kept.add(os.path.dirname(path))
    return None


def absolute(file: str, workdir: str) -> str:
    """`file` as an absolute path, by its text alone."""
    return os.path.normpath(os.path.join(workdir, file))


def _names(program: Program, workdir: str) -> list[str]:
    """The name it was asked by, and its canonical path."""
    asked = absolute(program.asked, workdir)
    return [asked] if program.path in (None, asked) else [asked, program.path]


def _leads(asked: str, path: str, writable: Collection[str]) -> bool:
    """Whether the name leads to the program, and nobody inside can change that."""
    return leads_to(asked, tuple(writable)) == path


def _writable_by_mode(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)


def _untrusted_interpreter(
    interpreters: Iterable[Program], workdir: str, writable: Collection[str]
) -> str | None:
    for interpreter in interpreters:
        reason = untrusted(interpreter, writable)
        # The kernel looks it up once more by its name.
        if reason is None and redirectable(os.path.join(workdir, interpreter.asked), writable):
            reason = f"the sandbox can exchange its interpreter {interpreter.asked}"
        if reason is not None:
            return reason
    return None


def _all_meant(commands: Iterable[Command], argv: Command) -> list[Command]:
    return [meant for command in commands for meant in _meant(command, argv)]


def _meant(command: Command, argv: Command) -> list[Command]:
    """The same command in plain words, where a program of many tells by other means which it is.

    git takes options before its subcommand, and may be called by a dashed name; what counts for
    such programs is argv[0], whatever the file.
    """
    folder, _, name = command[0].rpartition("/")
    words = command[1:]
    called = argv[0].rpartition("/")[2] if argv else name
    if name in _MANY_IN_ONE:
        chosen = words if called == name else (called, *words)
        return [(f"{folder}/{chosen[0]}", *chosen[1:])] if chosen else []
    if name != "git" and not name.startswith("git-"):
        return []
    parsed = (git_arguments(each, words) for each in (name, called))
    found = {(f"{folder}/git", git.subcommand, *git.words) for git in parsed if git is not None}
    return [meant for meant in found if meant[1] and meant != command]
