"""What one command's execs have shown: most are like one before, and need no second judging.

Kept is only what nobody in the sandbox can make untrue, and little enough that an enemy who never
executes the same twice fills no memory with it.
"""

from codex_multitool.escalation.decide import ExecRequest, Run, Verdict
from codex_multitool.interception.program import Identity, Interpreter, Kind
from codex_multitool.interception.tracee import ExecSnapshot

_MOST = 1024
_LONGEST = 4096  # characters of all arguments

_RUN = Run()

Facts = tuple[object, ...]


class Precedents:
    """known: what files out of the sandbox's reach are, for tracee.read_exec()."""

    def __init__(self) -> None:
        self.known: dict[tuple[Identity, str], tuple[Kind, Interpreter | None]] = {}
        self._harmless: dict[Facts, ExecRequest] = {}

    def harmless(self, facts: Facts) -> ExecRequest | None:
        """The request of an exec with the same facts that was let run as it is, without a note."""
        return self._harmless.get(facts)

    def learn(
        self, facts: Facts, snapshot: ExecSnapshot, request: ExecRequest, verdict: Verdict
    ) -> None:
        """Remember what holds again.

        That an exec just runs depends, beyond its facts, on whether the sandbox could exchange a
        file by which it is judged; and that only adds that an allow rule takes it outside.
        """
        if verdict == _RUN and snapshot.loaded is None and _short(snapshot):
            if len(self._harmless) >= _MOST:
                self._harmless.clear()
            self._harmless[facts] = request
        if request.untrusted is None:
            self._learn_files(snapshot)

    def _learn_files(self, snapshot: ExecSnapshot) -> None:
        if len(self.known) >= _MOST:
            self.known.clear()
        for program in (snapshot.program, *snapshot.interpreters):
            if program is not None and program.path is not None:
                self.known[program.identity, program.path] = program.kind, program.interpreter


def facts_of(snapshot: ExecSnapshot) -> Facts:
    """All that a request is made of, but for what an ELF loader loads."""
    programs = (snapshot.program, *snapshot.interpreters)
    return (
        snapshot.file,
        snapshot.directory,
        snapshot.argv,
        snapshot.cwd,
        tuple((it.identity, it.path, it.interpreter) for it in programs if it is not None),
        snapshot.loaded is None,
    )


def _short(snapshot: ExecSnapshot) -> bool:
    return sum(map(len, snapshot.argv)) + len(snapshot.argv) <= _LONGEST
