"""The two ways in which the execs of one command come to be judged, and what its front hears."""

import os
import socket
import time
from collections.abc import Callable

from codex_multitool.escalation.broker import Broker
from codex_multitool.escalation.caller import OwnShell, parent
from codex_multitool.escalation.context import Context, Settled
from codex_multitool.escalation.decide import Ask, Deny, Escalate, ExecRequest
from codex_multitool.escalation.decide import Verdict as Decided
from codex_multitool.escalation.question import Question, Verdict
from codex_multitool.escalation.watch import NoWatch
from codex_multitool.interception.listener import Listener
from codex_multitool.interception.supervisor import Supervisor
from codex_multitool.keeper import protocol
from codex_multitool.keeper.exits import Exits
from codex_multitool.keeper.means import Means
from codex_multitool.keeper.report import Report
from codex_multitool.keeper.shell import Shell
from codex_multitool.keeper.spawners import SOCKET_NUMBER, Spawner
from codex_multitool.keeper.watching import TheirWatch
from codex_multitool.loop import Running, Task

_MOST_PARENTS = 64


class Judging:
    """Of one command. clock: is to be stopped while a human is asked.

    descriptors: what the shell gets on top, pairs (ours, number there).
    """

    def __init__(
        self,
        means: Means,
        order: protocol.Order,
        spawner: Spawner,
        shell: Shell,
        report: Report,
        clock: Callable[[bool], None],
    ) -> None:
        self._means = means
        self._order = order
        self._shell = shell
        self._report = report
        self._clock = clock
        self._exits = Exits(means.loop, means.front) if order.traced else None
        self.descriptors: list[tuple[int, int]] = []
        context = self._context()
        listener = spawner.listener
        self._way: _ByKernel | _ByWrapper | None
        if listener is None:
            self._way = _ByWrapper(means, context)
            self.descriptors.append((self._way.theirs.fileno(), SOCKET_NUMBER))
        else:
            supervisor = Supervisor(
                context,
                listener,
                means.children,
                confined=spawner.confined,
                precedents=spawner.precedents(order.writable, traced=order.traced),
                first=shell.first,
            )
            self._way = _ByKernel(means, listener, supervisor)

    def handed_over(self) -> None:
        """The shell has its end of what it gets: drop ours of it."""
        if self._way is not None:
            self._way.handed_over()

    def close(self) -> None:
        """Judge no more."""
        if self._way is not None:
            self._way.close()
            self._way = None  # it knows us; a ring would stay in memory
        if self._exits is not None:
            self._exits.close()

    def _context(self) -> Context:
        means, order, settings = self._means, self._order, self._means.settings
        return Context(
            judgement=settings.judgement,
            surroundings=means.surroundings,
            start=means.starter.start,
            loop=means.loop,
            ask=self._ask,
            record=self._record,
            note=self._report.note,
            writable=order.writable,
            roots=None if order.sandbox.policy.full_write else order.sandbox.roots,
            own_shell=lambda: OwnShell(self._shell.pid, order.argv),
            watch=TheirWatch(means.front, means.quiet) if order.watched else NoWatch(),
            own_mounts=settings.own_mounts,
            trace=self._trace if order.traced else None,
        )

    def _ask(self, question: Question) -> Task[tuple[str, str | None]]:
        self._clock(True)
        try:
            (action, reason), _ = yield from self._means.front.ask(
                lambda number: protocol.Ask(number, question)
            )
            return action, reason
        finally:
            self._clock(False)

    def _record(self, verdict: Verdict) -> None:
        self._report.record(verdict)
        if self._order.traced:
            self._means.front.tell(protocol.Recorded(verdict))

    def _trace(self, pid: int, request: ExecRequest, decided: Decided, settled: Settled) -> None:
        parents, keeper = list[int](), os.getpid()
        above = pid
        while (above := parent(above)) > 1 and above != keeper and len(parents) < _MOST_PARENTS:
            parents.append(above)
        match settled:
            case Escalate(rule=reason):
                decision = "escalate"
            case Deny(reason=reason):
                decision = "deny"
            case _:
                decision, reason = "run", settled.note or ""
        asks = decided if isinstance(decided, Ask) else None
        self._means.front.tell(
            protocol.Traced(
                pid,
                tuple(parents),
                request.programs[0],
                request.argv,
                decision,
                reason,
                because=asks.because if asks else None,
                outside=asks is not None and isinstance(asks.accepted, Escalate),
                trusted=request.untrusted is None,
                when=time.monotonic(),
            )
        )
        if self._exits is not None:
            self._exits.follow(pid)


class _ByKernel:
    """The kernel holds every exec of the tree until it has been judged."""

    def __init__(self, means: Means, listener: Listener, supervisor: Supervisor) -> None:
        self._loop = means.loop
        self._number = listener.fd
        self._supervisor = supervisor
        self._loop.watch(listener.fd, supervisor.attend)
        supervisor.ended.on_set(self._forget)

    def handed_over(self) -> None:
        """Nothing was."""

    def close(self) -> None:
        """The listener goes on to serve the next command."""
        self._forget()
        self._supervisor.ended.forget(self._forget)
        self._supervisor.close()

    def _forget(self) -> None:
        self._loop.forget(self._number)


class _ByWrapper:
    """The patched shell asks before it starts a program, or has a wrapper ask."""

    def __init__(self, means: Means, context: Context) -> None:
        # Not SOCK_DGRAM, by which the sandbox could reach any datagram socket it can name: unix(7).
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._broker = Broker(context, self._ours)
        self._serving: Running = means.loop.start(self._broker.serve())

    def handed_over(self) -> None:
        """The shell has its end."""
        self.theirs.close()

    def close(self) -> None:
        """Drop both ends, and what goes on between them."""
        self._serving.cancel()
        self._broker.close()
        self.theirs.close()
