"""LEAF: everything about one blocked execve or execveat, read once from its caller.

The caller may be hostile: what is read is bounded, and belongs to the caller only if the
notification is still valid after the last read, which `read_exec` makes sure of. No single-thread
test is offered here: other threads, CLONE_VM and MAP_SHARED peers and writers of the mem file
cannot be excluded, so every CONTINUE needs the check of `exec_stop`.
"""

import os
from collections.abc import Callable, Sequence
from errno import EACCES, EFAULT, EINVAL, ELOOP, ENOENT, ENOEXEC
from typing import NamedTuple

from codex_multitool.interception import loader
from codex_multitool.interception.architecture import Architecture
from codex_multitool.interception.exec_stop import Expected, command_line
from codex_multitool.interception.kernel import KernelError, leads
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.memory import Memory, glance
from codex_multitool.interception.program import NOTHING_KNOWN, Kind, Known, Program, examine
from codex_multitool.interception.resolve import AT_FDCWD, View

AT_SYMLINK_NOFOLLOW = 0x100
AT_EMPTY_PATH = 0x1000
AT_EXECVE_CHECK = 0x10000  # Linux 6.14
_FLAGS = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_EXECVE_CHECK

_TGID = b"\nTgid:"
_MOST_INTERPRETERS = 5  # exec_binprm, fs/exec.c
_MOST_CANDIDATES = 32  # where a loader looks for one program


class Gone:
    """The caller died, or was interrupted, before all was read."""


class Unreadable(NamedTuple):
    """The caller may not be looked at (errno of the refusal): nothing about this exec is known."""

    errno: int


class Loaded(NamedTuple):
    """What the ELF loader was asked to load. program: None if it was not found."""

    program: Program | None
    argv: tuple[str, ...]
    preload: bool


class ExecSnapshot(NamedTuple):
    """One exec as its caller asked for it; owns descriptors until `close`.

    tid is the blocked thread of process tgid. file: the name as given. directory:
    number of the descriptor it is relative to, or AT_FDCWD. filename: what the kernel calls the
    program (AT_EXECFN). workdir: directory, opened; cwd: its path. errno: what the kernel will
    surely answer, None if the exec may succeed; then `program` is there. interpreters: of a script,
    in turn, the last one being what really runs. linker: the program that it names to be run in its
    place, unless that is known to be the ELF loader. loaded: if it is that itself.
    """

    tid: int
    tgid: int
    file: str
    directory: int
    filename: str
    flags: int
    argv: tuple[str, ...]
    cwd: str
    workdir: int
    errno: int | None
    program: Program | None
    interpreters: tuple[Program, ...]
    linker: Program | None
    loaded: Loaded | None
    memory: Memory
    envp_at: int

    def close(self) -> None:
        """Close all descriptors."""
        self.memory.close()
        os.close(self.workdir)
        loaded = self.loaded.program if self.loaded else None
        for program in (self.program, *self.interpreters, self.linker, loaded):
            if program is not None:
                os.close(program.fd)

    def envp(self) -> tuple[str, ...]:
        """The environment, read now; it is the caller's only if the notification is valid after.

        Only an escalation needs it, and it takes as long as all the rest. Raises OSError.
        """
        return self.memory.vector(self.envp_at)

    @property
    def executed(self) -> Program | None:
        """The program whose code will run: the last interpreter of a script."""
        return self.interpreters[-1] if self.interpreters else self.program

    def argv_executed(self) -> tuple[str, ...]:
        """The arguments the new program will find, as the kernel makes them for scripts."""
        return _argv_executed(self.program, self.interpreters, self.filename, self.argv)

    @property
    def expected(self) -> Expected:
        """What will stand in memory if the exec is the one that was read."""
        program = self.executed
        assert program is not None, "an exec without a program has an errno"
        unseen = program.kind is Kind.UNREADABLE
        device, inode, *_ = program.identity
        return Expected(device, inode, command_line(self.argv_executed()), unseen)


class Repeated(NamedTuple):
    """An execve(2) of process tgid that somebody knows, and what will run; nothing is open.

    said: its path and command line. Only if the notification is valid was that its caller's.
    """

    tgid: int
    said: tuple[bytes, bytes]
    expected: Expected

    @property
    def file(self) -> str:
        """As of ExecSnapshot."""
        return os.fsdecode(self.said[0])

    @property
    def argv(self) -> tuple[str, ...]:
        """As of ExecSnapshot."""
        return tuple(os.fsdecode(self.said[1]).split("\0")[:-1])

    def close(self) -> None:
        """As of ExecSnapshot."""


# By path and command line of an execve(2): what will run, if that is known from before.
Knows = Callable[[bytes, bytes], Expected | None]


def read_known(
    architecture: Architecture, notification: Notification, knows: Knows
) -> Repeated | None:
    """No more of an exec than it takes to know it; None: read all of it.

    One that is to go on need not be asked for whether that was its caller's: the answer reaches no
    other, and the exec stop shows what was executed.
    """
    tid = notification.tid
    if notification.number != architecture.execve:
        return None
    said = glance(tid, notification.arguments[0], notification.arguments[1])
    expected = None if said is None else knows(*said)
    if said is None or expected is None or not leads(tid):
        return None
    return Repeated(tid, said, expected)


def read_exec(
    listener: Listener, notification: Notification, known: Known = NOTHING_KNOWN
) -> ExecSnapshot | Gone | Unreadable:
    """Read the exec of `notification`, unanswered as yet. known: as of program.examine()."""
    found: ExecSnapshot | Gone | Unreadable
    try:
        found = _read(listener.architecture, notification, known)
    except (KernelError, OSError) as error:
        found = Unreadable(error.errno or EACCES)
    if listener.valid(notification):
        return found
    if isinstance(found, ExecSnapshot):
        found.close()
    return Gone()


def _read(architecture: Architecture, notification: Notification, known: Known) -> ExecSnapshot:
    tid = notification.tid
    tgid = _process(tid)
    directory, path_at, argv_at, envp_at, flags = _arguments(architecture, notification)
    memory = Memory(tid)
    view, workdir, opened = None, -1, None
    try:
        file, argv, failure = _strings(memory, path_at, argv_at)
        view = View(tid, tgid)
        workdir = view.workdir()
        opened = Opened(view, workdir, known)
        opened.failure = failure or (EINVAL if flags & ~_FLAGS else None)
        opened.find(file, directory, flags)
        opened.load(_filename(file, directory), argv, lambda: memory.vector(envp_at))
        return ExecSnapshot(
            tid=tid,
            tgid=tgid,
            file=file,
            directory=directory,
            filename=_filename(file, directory),
            flags=flags,
            argv=argv,
            cwd=os.readlink(f"/proc/self/fd/{workdir}"),
            workdir=workdir,
            errno=opened.failure,
            program=opened.program,
            interpreters=tuple(opened.interpreters),
            linker=opened.linker,
            loaded=opened.loaded,
            memory=memory,
            envp_at=envp_at,
        )
    except BaseException:
        memory.close()
        if opened is not None:
            opened.close()
        if workdir >= 0:
            os.close(workdir)
        raise
    finally:
        if view is not None:
            view.close()


def _arguments(
    architecture: Architecture, notification: Notification
) -> tuple[int, int, int, int, int]:
    """Directory descriptor, addresses of path, argv and envp, flags."""
    a, b, c, d, e, _ = notification.arguments
    if notification.number == architecture.execve:
        return AT_FDCWD, a, b, c, 0
    directory = a & 0xFFFF_FFFF  # an int: the upper half is not looked at
    return directory - (1 << 32) if directory >> 31 else directory, b, c, d, e & 0xFFFF_FFFF


def _strings(memory: Memory, path_at: int, argv_at: int) -> tuple[str, tuple[str, ...], int | None]:
    """Path, argv; and the errno if the kernel could not read them either."""
    file = ""
    memory.ahead((path_at, argv_at))
    try:
        file = os.fsdecode(memory.path(path_at))
        return file, memory.vector(argv_at), None
    except OSError as error:
        return file, (), error.errno or EFAULT


class Opened:
    """What an exec opens, in the kernel's order, until something fails with errno `failure`.

    program, interpreters, linker, loaded: as in ExecSnapshot, which may take them over; else
    `close`. known: as of program.examine().
    """

    def __init__(self, view: View, workdir: int, known: Known = NOTHING_KNOWN) -> None:
        self._view, self._workdir, self._known = view, workdir, known
        self.failure: int | None = None
        self.program: Program | None = None
        self.interpreters: list[Program] = []
        self.linker: Program | None = None
        self.loaded: Loaded | None = None

    def close(self) -> None:
        """Close all programs."""
        loaded = self.loaded.program if self.loaded else None
        for program in (self.program, *self.interpreters, self.linker, loaded):
            if program is not None:
                os.close(program.fd)

    @property
    def found(self) -> Program:
        """The program, where nothing failed."""
        assert self.program is not None, "an exec without a program has a failure"
        return self.program

    def argv_executed(self, filename: str, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The arguments the new program will find. filename: as the kernel calls the program."""
        return _argv_executed(self.program, self.interpreters, filename, argv)

    def find(self, file: str, directory: int = AT_FDCWD, flags: int = 0) -> None:
        """Open the program, and if it is a script what interprets it."""
        if self.failure is not None:
            return
        try:
            self.program = examine(file, self._open(file, directory, flags), self._known)
            content = not flags & AT_EXECVE_CHECK  # else it may be meant for any interpreter
            self.failure = _unfit(self.program, content=content)
            if self.failure is None and content:
                self._follow(self.program)
        except OSError as error:
            self.failure = error.errno or ENOENT

    def _open(self, file: str, directory: int, flags: int) -> int:
        if not file and flags & AT_EMPTY_PATH:
            if directory == AT_FDCWD:
                return os.dup(self._workdir)
            return self._view.descriptor(directory)
        follow = not flags & AT_SYMLINK_NOFOLLOW
        if directory == AT_FDCWD or file.startswith("/"):
            return self._view.open(file, self._workdir, follow=follow)
        if not file:
            raise OSError(ENOENT, os.strerror(ENOENT))
        base = self._view.descriptor(directory)
        try:
            return self._view.open(file, base, follow=follow)
        finally:
            os.close(base)

    def _follow(self, program: Program) -> None:
        """The interpreters of a script, each perhaps a script itself; and what the last names."""
        while program.interpreter is not None and self.failure is None:
            if program.kind is not Kind.SCRIPT:
                name = program.interpreter[0]
                if name not in self._known.loaders:
                    self.linker = examine(name, self._view.open(name, self._workdir), self._known)
                    self.failure = _unfit(self.linker)
                return
            if len(self.interpreters) == _MOST_INTERPRETERS:
                self.failure = ELOOP
                return
            name = program.interpreter[0]
            program = examine(name, self._view.open(name, self._workdir), self._known)
            self.interpreters.append(program)
            self.failure = _unfit(program)

    def load(self, filename: str, argv: tuple[str, ...], envp: Callable[[], Sequence[str]]) -> None:
        """If what will run is the ELF loader, open what it is told to load."""
        executed = self.interpreters[-1] if self.interpreters else self.program
        if executed is None or executed.kind is not Kind.LOADER:
            return
        asked = loader.loading(self.argv_executed(filename, argv))
        if asked is None:
            return
        program = None
        candidates = _candidates(asked, envp())
        for name in candidates[:_MOST_CANDIDATES]:
            try:
                program = examine(name, self._view.open(name, self._workdir))
                break
            except OSError:
                continue  # the loader will not find it either
        if program is None and (len(candidates) > _MOST_CANDIDATES or self._view.exhausted):
            self.failure = ELOOP  # it may well find what we have not looked for
        self.loaded = Loaded(program, asked.argv, asked.preload)


def _unfit(program: Program, *, content: bool = True) -> int | None:
    if not program.regular:
        return EACCES
    return ENOEXEC if program.kind is Kind.OTHER and content else None


def _argv_executed(
    program: Program | None, interpreters: Sequence[Program], filename: str, argv: tuple[str, ...]
) -> tuple[str, ...]:
    argv = argv or ("",)  # Linux 5.18: never empty
    name = filename
    for script in (program, *interpreters):
        if script is None or script.kind is not Kind.SCRIPT or script.interpreter is None:
            break
        interpreter, argument = script.interpreter
        argv = (interpreter, *((argument,) if argument else ()), name, *argv[1:])
        name = interpreter
    return argv


def _candidates(asked: loader.Loading, envp: Sequence[str]) -> list[str]:
    """Where the loader looks: a name with a slash is a path, any other is searched for."""
    name = asked.argv[0]
    if "/" in name:
        return [name]
    path = asked.library_path
    for variable in envp:
        if path is None and variable.startswith("LD_LIBRARY_PATH="):
            path = variable.partition("=")[2]
    directories = [] if path is None else path.replace(";", ":").split(":")
    return [os.path.join(directory or ".", name) for directory in directories]


def _filename(file: str, directory: int) -> str:
    """alloc_bprm, fs/exec.c."""
    if directory == AT_FDCWD or file.startswith("/"):
        return file
    return f"/dev/fd/{directory}/{file}" if file else f"/dev/fd/{directory}"


def _process(tid: int) -> int:
    """The process of a thread."""
    return tid if leads(tid) else _status(tid)


def _status(tid: int) -> int:
    fd = os.open(f"/proc/{tid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, 4096)
    finally:
        os.close(fd)
    start = text.index(_TGID) + len(_TGID)
    return int(text[start : text.index(b"\n", start)])
