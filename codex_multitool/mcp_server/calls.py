"""The types that pass between the protocol and what runs a call — pure.

A tool is an async function `run(spec, state, asker) -> CommandResult`. It is called once for each
`tools/call`, concurrently, and cancelled when the client cancels the call or goes: then it ends
what it started before it lets `Cancelled` through. Any exception but ToolError is a defect.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from codex_multitool.keeper.outcome import Decision
from codex_multitool.keeper.output import SIZE, Output
from codex_multitool.mcp_server.state import SandboxState


class ToolError(Exception):
    """A call cannot be served; the text tells the client why, in a result with isError."""


class CommandSpec(NamedTuple):
    """The arguments of one `shell` call. workdir: absolute. timeout_ms: of running time."""

    command: str
    workdir: str
    timeout_ms: int
    login: bool


class Question(NamedTuple):
    """May the program run? What the human is told of it, besides what would run and where.

    because: the rule, or what is dangerous about it. outside: it leaves the sandbox if accepted.
    justification, warning: what the rule's author says for asking, and what speaks against
    agreeing; perhaps nothing.
    """

    program: str
    argv: tuple[str, ...]
    workdir: str
    because: str
    outside: bool
    justification: str = ""
    warning: str = ""


class Answer(NamedTuple):
    """What a human said. action: accept, decline, cancel, or unavailable: nobody could be asked.

    reason: why nobody could be asked, or more of what is known of the answer.
    """

    action: str
    reason: str | None = None


class CommandResult(NamedTuple):
    """How a command ended. exit_code: 124 after a timeout, 128 + signal after a signal.

    signal: number, or None. output: stdout and stderr in order of arrival. file: with all of it,
    if some was left out. background: what the shell left running, as (process id, command line).
    notes: for the reader of the result.
    """

    exit_code: int
    signal: int | None
    timed_out: bool
    duration_ns: int
    output: Output
    file: str | None = None
    decisions: tuple[Decision, ...] = ()
    background: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()


class Asker(NamedTuple):
    """How a call reaches the client and the human behind it.

    ask puts a question; it never fails and never waits for ever. It may be used after the call has
    ended, by what the call left running. can_ask: whether this client takes questions at all.
    progress(latest) says what tells where the call is: the client hears of it now and then, and
    never after the call has ended. None: it did not ask to. size: bytes of output that the client
    passes on, as JSON spells them.
    """

    ask: Callable[[Question], Awaitable[Answer]]
    can_ask: bool
    progress: Callable[[Callable[[], str]], None] | None = None
    size: int = SIZE


Run = Callable[[CommandSpec, SandboxState | None, Asker], Awaitable[CommandResult]]
