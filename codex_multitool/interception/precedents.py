"""What one command's execs have shown: most are like one before, and need no second judging.

Kept is only what nobody in the sandbox can make untrue, and little enough that an enemy who never
executes the same twice fills no memory with it.
"""

import os
from typing import NamedTuple

from codex_multitool.escalation.decide import Deny, ExecRequest, Run, Verdict
from codex_multitool.escalation.identity import with_arguments
from codex_multitool.interception.exec_stop import Expected, command_line
from codex_multitool.interception.program import Identity, Interpreter, Kind, Known, identity
from codex_multitool.interception.resolve import AT_FDCWD
from codex_multitool.interception.tracee import ExecSnapshot

_MOST = 1024
_LONGEST = 4096  # characters of all arguments

_RUN = Run()

Facts = tuple[object, ...]


class _Plain(NamedTuple):
    """What is known of an execve(2) by its path and arguments. denied: if it may not run."""

    which: Identity
    expected: Expected
    denied: tuple[ExecRequest, Deny] | None


class Precedents:
    """known: what files out of the sandbox's reach are, for tracee.read_exec().

    our_view: whether all callers see our file system: none can have changed its root or its mounts.
    """

    def __init__(self, *, our_view: bool) -> None:
        self._files: dict[tuple[Identity, str], tuple[Kind, Interpreter | None]] = {}
        self._loaders: set[str] = set()
        self.known = Known(self._files, self._loaders)
        self._judged: dict[Facts, tuple[ExecRequest, Verdict]] = {}
        self._decided: dict[ExecRequest, Verdict] = {}
        self._our_view = our_view
        self._plain: dict[tuple[bytes, bytes], _Plain] = {}
        self._programs: dict[bytes, tuple[Identity, ExecRequest]] = {}

    def knows(self, path: bytes, said: bytes) -> Expected | None:
        """What an execve(2) is of, if there was the same before, of the same unchanged file.

        said: its command line, see exec_stop.command_line(). It just runs again, unless `denied`
        tells otherwise.
        """
        plain = self._plain.get((path, said))
        if plain is None:
            return None
        try:
            return plain.expected if identity(os.stat(path)) == plain.which else None
        except OSError:
            return None

    def denied(self, path: bytes, said: bytes) -> tuple[ExecRequest, Deny] | None:
        """The request and the verdict, if what is known of this execve(2) is that it may not."""
        plain = self._plain.get((path, said))
        return None if plain is None else plain.denied

    def like(self, path: bytes, said: bytes) -> ExecRequest | None:
        """The request of an execve(2) that has but other arguments than one before.

        None, too, if there was none of the same unchanged file.
        """
        which, request = self._programs.get(path, (None, None))
        try:
            if request is None or not said or identity(os.stat(path)) != which:
                return None
        except OSError:
            return None
        return with_arguments(request, tuple(os.fsdecode(said[:-1]).split("\0")))

    def learn_like(self, path: bytes, said: bytes) -> Expected:
        """Remember that what such a request is of just runs, too."""
        which, _ = self._programs[path]
        return self._learn_plain(path, said, which, None)

    def judged(self, facts: Facts) -> tuple[ExecRequest, Verdict] | None:
        """The request and the verdict, Run without a note or Deny, of an exec with these facts."""
        return self._judged.get(facts)

    def decided(self, request: ExecRequest) -> Verdict | None:
        """What `decide` said of the same request."""
        return self._decided.get(request)

    def learn(
        self, facts: Facts, snapshot: ExecSnapshot, request: ExecRequest, verdict: Verdict
    ) -> None:
        """Remember what holds again.

        That an exec just runs, or is forbidden, depends, beyond its facts, on whether the sandbox
        could exchange a file by which it is judged; and that only adds that an allow rule takes
        outside what else would run inside.
        """
        runs = verdict == _RUN
        if snapshot.loaded is not None or not _short(snapshot):
            pass
        elif runs or isinstance(verdict, Deny):
            if len(self._judged) >= _MOST:
                self._judged.clear()
            self._judged[facts] = request, verdict
            if self._our_view and _plain(snapshot, request):
                assert snapshot.program is not None, "it was judged"
                which, path = snapshot.program.identity, os.fsencode(snapshot.file)
                denied = (request, verdict) if isinstance(verdict, Deny) else None
                self._learn_plain(path, command_line(snapshot.argv_executed()), which, denied)
                if len(self._programs) >= _MOST:
                    self._programs.clear()
                self._programs[path] = which, request
        else:
            if len(self._decided) >= _MOST:
                self._decided.clear()
            self._decided[request] = verdict
        if request.untrusted is None:
            self._learn_files(snapshot)

    def _learn_plain(
        self, path: bytes, said: bytes, which: Identity, denied: tuple[ExecRequest, Deny] | None
    ) -> Expected:
        if len(self._plain) >= _MOST:
            self._plain.clear()
        expected = Expected(which[0], which[1], said, path=path)
        self._plain[path, said] = _Plain(which, expected, denied)
        return expected

    def _learn_files(self, snapshot: ExecSnapshot) -> None:
        if len(self._files) >= _MOST:
            self._files.clear()
        for program in (snapshot.program, *snapshot.interpreters, snapshot.linker):
            if program is not None and program.path is not None:
                self._files[program.identity, program.path] = program.kind, program.interpreter
        linker = snapshot.linker
        if linker is not None and linker.kind is Kind.LOADER and linker.asked.startswith("/"):
            self._learn_loader(linker.asked)

    def _learn_loader(self, name: str) -> None:
        if self._our_view and len(self._loaders) < _MOST:
            self._loaders.add(name)


def facts_of(snapshot: ExecSnapshot) -> Facts:
    """All that a request is made of, but for what an ELF loader loads."""
    programs = (snapshot.program, *snapshot.interpreters, snapshot.linker)
    return (
        snapshot.file,
        snapshot.directory,
        snapshot.argv,
        snapshot.cwd,
        tuple((it.identity, it.path, it.interpreter) for it in programs if it is not None),
        snapshot.loaded is None,
    )


def _plain(snapshot: ExecSnapshot, request: ExecRequest) -> bool:
    """Whether path and arguments say all about it: no script, nothing relative, the usual loader.

    The programs of a request that is trusted lead to the file for everybody, whatever the sandbox
    does. Names in /proc, which do not, are not among them.
    """
    program, linker = snapshot.program, snapshot.linker
    return (
        program is not None
        and program.kind is Kind.ELF
        and (linker is None or linker.kind is Kind.LOADER)
        and request.untrusted is None
        and snapshot.file.startswith("/")
        and snapshot.file in request.programs
        and snapshot.directory == AT_FDCWD
        and snapshot.flags == 0
    )


def _short(snapshot: ExecSnapshot) -> bool:
    return sum(map(len, snapshot.argv)) + len(snapshot.argv) <= _LONGEST
