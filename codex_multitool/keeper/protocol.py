"""What a keeper and its front say to each other.

The front is the server, or `exec`: it holds what outlives a command. Both ends, and the zygote
between them, are forks of one interpreter, so a message is a pickled value behind its length;
descriptors ride on the first byte. Only processes outside any sandbox hold these sockets.

A front says `Order` (or `Prepare`), then perhaps `Signal` or `End`, and `Answer` to each message
that has a number. A keeper says `Hello` once; of each order `Refused`, or else `Done` and then
`Over`; between them, whatever it needs to know or has to tell.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.running.settings import Settings
from codex_multitool.sandbox.policy import SandboxPolicy

MAX_DESCRIPTORS = 4


# front to zygote


class Begin(NamedTuple):
    """What all keepers work by; comes once, before the first `Grow`.

    quiet: whether a descriptor comes along, see quiet.py.
    """

    settings: Settings
    quiet: bool = False


class Grow(NamedTuple):
    """One more keeper: a descriptor comes along, the socket that it shall serve."""


# front to keeper


class Sandbox(NamedTuple):
    """What a command is confined by, and what of that it takes a look to know.

    roots: what the sandbox may write. mounts: what it cannot write in a mount namespace of its own.
    """

    policy: SandboxPolicy
    roots: tuple[str, ...]
    mounts: tuple[tuple[bytes, bool], ...] = ()


class Prepare(NamedTuple):
    """Commands of this kind will come: have a spawner ready. Nothing is answered."""

    sandbox: Sandbox


class Order(NamedTuple):
    """Run this. argv: its first word is the path of what is executed. workdir: absolute.

    writable: what no allow rule may trust. timeout: seconds of running time, perhaps inf.
    size: bytes of output to keep, as JSON spells them; None: the three descriptors that come along
    are the command's own. environment: on top of the settings'. ignored: signals that it ignores.
    watched: whether the front watches protected names for it. lines: whether `Line` is wanted.
    traced: whether `Traced` and `Exited` are.
    """

    argv: tuple[str, ...]
    workdir: str
    sandbox: Sandbox
    writable: tuple[str, ...]
    timeout: float
    size: int | None = None
    environment: Mapping[str, str] = {}
    ignored: tuple[int, ...] = ()
    watched: bool = False
    lines: bool = False
    traced: bool = False


class Signal(NamedTuple):
    """Send it to the process group of the command's first process."""

    number: int


class End(NamedTuple):
    """End the command and all of its processes."""


class Answer(NamedTuple):
    """What became of the message with this number. descriptor: whether one comes along."""

    number: int
    value: Any
    descriptor: bool = False


# keeper to front


class Hello(NamedTuple):
    """Said first. pid: of the keeper, below which all processes of its commands are."""

    pid: int


class Refused(NamedTuple):
    """The zygote, or the keeper, could not do it; nothing of the order runs. errno: int, or 0.

    sandbox: it is the sandbox that is not to be had. workdir: it is the working directory.
    """

    text: str
    errno: int = 0
    sandbox: bool = False
    workdir: bool = False


class Began(NamedTuple):
    """The command runs. pid: of its first process. lacking: roots it was not given, and why.

    when: of time.monotonic(). Said only where that is wanted (`Order.traced`), or something is
    lacking.
    """

    pid: int
    lacking: tuple[str, ...]
    when: float


class Ask(NamedTuple):
    """Put it to the human. Answer: (accept | decline | cancel | unavailable, reason or None)."""

    number: int
    question: Question


class Look(NamedTuple):
    """Answer: (what differs, as Change's; a number for that finding; whether `workdir` moved)."""

    number: int
    workdir: str
    above: tuple[tuple[int, int], ...] = ()


class Agree(NamedTuple):
    """A human agreed to the finding with this number. Nothing is answered."""

    finding: int


class Leaving(NamedTuple):
    """A program is about to start outside, see Watch. unchanged: only if nothing differs.

    Answer: a number for its absence, 0 if nobody wants to hear of its end; or what differs, as of
    `Look`.
    """

    number: int
    workdir: str
    words: Sequence[str]
    held: int | None
    unchanged: bool = False
    above: tuple[tuple[int, int], ...] = ()


class Handed(NamedTuple):
    """It is to have these files open, see Absence.handed. Answer: paths."""

    number: int
    absence: int
    files: tuple[tuple[int, int], ...]


class Returned(NamedTuple):
    """It has ended. Answer, if one is wanted (number is not 0): None, once the sandbox may know."""

    number: int
    absence: int


class WantFile(NamedTuple):
    """There is more output than is kept. Answer: (path, bytes it may have), and the file; or
    (None, why there is none).
    """

    number: int


class WantRoom(NamedTuple):
    """The file has all the bytes it may have. Answer: (how many more, ""), or (0, why none)."""

    number: int


class Withdrawn(NamedTuple):
    """Nobody waits any more for the answer to the message with this number."""

    number: int


class Line(NamedTuple):
    """The last line the command printed."""

    text: str


class Recorded(NamedTuple):
    """A verdict worth telling, where all are wanted (`Order.traced`)."""

    verdict: Verdict


class Traced(NamedTuple):
    """An exec. parents: the processes above, from its parent to the keeper. program: its path.

    decision, reason: as of a Verdict, perhaps without a reason. because: why a human is asked,
    if one is; outside: whether it then leaves the sandbox. trusted: whether a rule could lift
    the program out of the sandbox. when: of time.monotonic().
    """

    pid: int
    parents: tuple[int, ...]
    program: str
    argv: tuple[str, ...]
    decision: str
    reason: str
    because: str | None
    outside: bool
    trusted: bool
    when: float


class Exited(NamedTuple):
    """A process that had executed something ended. status: as wait(2) has it, None if unknown.

    when: of time.monotonic().
    """

    pid: int
    status: int | None
    when: float


class Done(NamedTuple):
    """The command's first process has ended. over: so has all else of it, and no `Over` follows."""

    outcome: Outcome
    over: bool


class Over(NamedTuple):
    """No process of the command is left: the keeper takes the next order."""


Message = tuple[Any, ...]
