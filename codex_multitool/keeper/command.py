"""One command, from its order to the end of its last process.

A command lives until nothing of its tree is left, which may be after its result: jobs that the
shell left behind run on, judged and confined as before. Whatever ends early (the deadline, a
front that says so, or goes) ends the whole tree.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from math import inf

from codex_multitool.keeper import protocol
from codex_multitool.keeper.ending import Ending
from codex_multitool.keeper.judging import Judging
from codex_multitool.keeper.means import Means
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.keeper.output import Capture, Output
from codex_multitool.keeper.pipes import Pipes
from codex_multitool.keeper.report import Report
from codex_multitool.keeper.shell import Shell
from codex_multitool.keeper.spawners import Spawner
from codex_multitool.keeper.whole_output import WholeOutput
from codex_multitool.launcher import spawner as words
from codex_multitool.launcher import tree
from codex_multitool.launcher.spawn import NotStartedError
from codex_multitool.loop import Running, Task, Timer, Wait, sleep
from codex_multitool.running.deadline import Deadline
from codex_multitool.running.limits import ended_by, process_limit
from codex_multitool.sandbox.enforce import SandboxError

# A background process may hold the pipes of a shell that has ended, and be named as what it left
# behind. What the shell wrote is read in any case; this is for filters that are about to write the
# last of it, and to end.
_DRAIN_SECONDS = 0.05
_LINE_SECONDS = 1.0  # between two that are told, at least
_MAX_JOBS = 32  # of a command's background processes, how many are named


class _NoWorkdirError(NotStartedError):
    """The working directory cannot be opened."""


class Command:
    """One order. descriptors: 0, 1 and 2 of the command, or none; ours from now on."""

    def __init__(self, means: Means, order: protocol.Order, descriptors: Sequence[int]) -> None:
        self._means = means
        self._order = order
        self._begun = time.monotonic_ns()
        self._deadline = Deadline(order.timeout, time.monotonic())
        self._report = Report()
        self._timed_out = self._told_to_end = False
        self._alarm: Timer | None = None
        self._lines: Running | None = None
        self._opened = ExitStack()
        for fd in descriptors:
            self._opened.callback(os.close, fd)
        self._descriptors = [(fd, number) for number, fd in enumerate(descriptors)]
        self._whole = WholeOutput(means.front, means.loop)
        self._capture = Capture(order.size or 0, self._whole.feed)
        self._pipes: Pipes | None = None
        self._workdir = -1
        self._signals: list[int] = []  # before there is a shell
        self._shell: Shell | None = None
        self._ending: Ending | None = None
        self._judging: Judging | None = None

    # What the keeper passes on

    def reaped(self, pid: int, status: int) -> None:
        """A child was waited for."""
        if self._shell is not None:
            self._shell.reaped(pid, status)

    def look(self, *, left: bool) -> None:
        """Children were looked at. left: whether any is left, apart from what a spawner started."""
        if self._ending is not None:
            self._ending.look(left=left)

    def signal(self, number: int) -> None:
        """Pass a signal on to the shell and its process group."""
        if self._shell is None:
            self._signals.append(number)
        else:
            self._shell.signal(number)

    def end(self, *, gently: bool = True) -> None:
        """End it."""
        self._told_to_end = True
        if self._ending is not None:
            self._ending.begin(gently=gently)

    def abandon(self) -> None:
        """The front has gone: end it at once, and whatever waits for an answer."""
        self.end(gently=False)
        if self._shell is not None and self._shell.pid:
            self._judge_no_more()  # what is held by it could not be waited for

    # Its life

    def live(self) -> Task[None]:
        """Run it to the end of its last process, and tell the front."""
        try:
            yield from self._started()
        except SandboxError as error:
            self._means.front.tell(protocol.Refused(str(error), sandbox=True))
        except NotStartedError as error:
            lacking = isinstance(error, _NoWorkdirError)
            self._means.front.tell(protocol.Refused(str(error), error.errno, workdir=lacking))
        except OSError as error:
            self._means.front.tell(protocol.Refused(_told(error), error.errno or 0))
        else:
            yield from self._seen_through()
        finally:
            self.close()

    def close(self) -> None:
        """Give up all that is open for it."""
        for part in (self._judging, self._ending, self._shell, self._pipes, self._whole):
            if part is not None:
                part.close()
        if self._lines is not None:
            self._lines.cancel()
        self._judging = self._ending = self._shell = self._pipes = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._opened.close()

    def _started(self) -> Task[None]:
        """See that the shell is executed; raises SandboxError, NotStartedError, OSError.

        A spawner that is gone has started nothing that is left: another gets its chance.
        """
        self._open()
        for _ in range(2):
            if self._timed_out or self._told_to_end:
                raise NotStartedError("it was ended before it had begun")
            shell = self._ask(self._means.spawners.get(self._order.sandbox))
            # Timeouts and the like end it from here on.
            yield Wait(event=shell.ended)
            if not shell.lost:
                break
            yield from self._cleared()
        else:
            raise NotStartedError("the process that starts commands was ended, twice")
        if shell.failure is not None:
            yield from self._cleared()
            try:
                raise shell.failure
            finally:
                del shell  # or the error, whose traceback has this frame, would keep itself

    def _open(self) -> None:
        order = self._order
        try:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
            # One that cannot be entered is none: its "." is found only where it can.
            self._workdir = os.open(f"{order.workdir}/.", flags)
        except OSError as error:
            text = f"workdir {order.workdir}: {error.strerror}"
            raise _NoWorkdirError(text, error.errno or 0) from None
        self._opened.callback(os.close, self._workdir)
        if order.size is not None:
            self._pipes = Pipes(self._means.arrivals, self._capture.feed)
            self._descriptors = self._pipes.write_ends()

    def _ask(self, spawner: Spawner) -> Shell:
        """The shell, asked of a spawner."""
        means, order = self._means, self._order
        shell = Shell(
            means.loop,
            spawner,
            began=lambda: self._began(spawner),
            reap=means.children.tell,
            limits=lambda: process_limit(means.settings.limits),
        )
        ending = Ending(means.loop, means.children, means.processes, shell)
        judging = Judging(means, order, spawner, shell, self._report, self._clock)
        self._shell, self._ending, self._judging = shell, ending, judging
        for number in self._signals:
            shell.signal(number)
        descriptors = [*self._descriptors, *judging.descriptors]
        request = words.request(
            [os.fsencode(word) for word in order.argv],
            {os.fsencode(k): os.fsencode(v) for k, v in order.environment.items()},
            [number for _, number in descriptors],
            order.ignored,
        )
        shell.start(request, [self._workdir, *(fd for fd, _ in descriptors)])
        judging.handed_over()
        return shell

    def _cleared(self) -> Task[None]:
        """Let nothing be left of an attempt."""
        assert self._ending is not None
        self._ending.begin(gently=False)
        yield from self._ending.awaited()
        for part in (self._judging, self._ending, self._shell):
            if part is not None:
                part.close()

    def _began(self, spawner: Spawner) -> None:
        self._opened.close()
        self._workdir = -1
        assert self._shell is not None
        if self._order.traced or spawner.lacking:
            began = protocol.Began(self._shell.pid, spawner.lacking, time.monotonic())
            self._means.front.tell(began)
        self._set_alarm()  # not before: what has not begun cannot be out of time
        if self._order.lines:
            self._lines = self._means.loop.start(self._tell_lines())

    def _seen_through(self) -> Task[None]:
        means, order, shell, ending = self._means, self._order, self._shell, self._ending
        assert shell is not None
        assert ending is not None
        duration = time.monotonic_ns() - self._begun
        until = time.monotonic() + _DRAIN_SECONDS
        means.children.tell()
        if self._pipes is not None:
            self._pipes.finish()
            yield Wait(event=self._pipes.ended, until=until)
            self._pipes.detach()
        if self._told_to_end:
            yield from ending.awaited()
        else:
            yield Wait(event=ending.over, until=until)
        if limit := ended_by(means.settings.limits, shell.status):
            self._report.note(limit)
        if order.traced:
            means.front.tell(protocol.Exited(shell.pid, shell.status, time.monotonic()))
        outcome = self._outcome(shell.status, duration, (yield from self._output()))
        if ending.over.is_set:
            self._judge_no_more()
            means.front.tell(protocol.Done(outcome, over=True))
            return
        means.front.tell(protocol.Done(outcome, over=False))
        yield from ending.awaited()
        self._judge_no_more()
        means.front.tell(protocol.Over())

    def _judge_no_more(self) -> None:
        """Nothing is left, and the last ends are told before that is."""
        if self._judging is not None:
            self._judging.close()
            self._judging = None

    def _output(self) -> Task[Output]:
        """What is kept; all of it is in the file, if that is not all."""
        if self._pipes is None:
            return Output("")
        output = self._capture.output()
        if output.left_out:
            yield from self._whole.finish()
            if self._whole.note:
                self._report.note(self._whole.note)
        return output

    def _outcome(self, status: int, duration_ns: int, output: Output) -> Outcome:
        assert self._ending is not None
        background: tuple[tuple[int, str], ...] = ()
        if not self._ending.over.is_set and not self._told_to_end:
            pids = self._means.processes.below()[:_MAX_JOBS]
            background = tuple((pid, tree.command_line(pid)) for pid in pids)
        return Outcome(
            status,
            self._timed_out,
            duration_ns,
            output,
            self._whole.path if output.left_out else None,
            self._report.decisions(),
            self._report.notes(),
            background,
        )

    def _tell_lines(self) -> Task[None]:
        told = ""
        while True:
            line = self._capture.last_line()
            if line != told:
                told = line
                self._means.front.tell(protocol.Line(line))
            yield from sleep(_LINE_SECONDS)

    # Its clock

    def _clock(self, stopped: bool) -> None:
        """A question stops it, the answer lets it go on."""
        now = time.monotonic()
        if stopped:
            self._deadline.pause(now)
        else:
            self._deadline.resume(now)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._deadline.expires_at() < inf:
            self._alarm = self._means.loop.at(self._deadline.expires_at(), self._expire)

    def _expire(self) -> None:
        shell = self._shell
        if shell is not None and not shell.ended.is_set:
            self._timed_out = True
            self.end()


def _told(error: OSError) -> str:
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{error.filename}: {text}" if error.filename else text
