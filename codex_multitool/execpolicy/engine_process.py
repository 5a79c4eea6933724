"""Runs the Starlark engine in a forked child, whose death is an answer like any other.

A few thousand nested brackets overflow the engine's stack, a huge `split` can't be
cancelled, a refused allocation aborts the process. None of that may end the server.
The child loads the engine at once, while its parent does what else it has to do.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from typing import NoReturn

from codex_multitool.execpolicy.evaluation import Call, Evaluation, Failure

MEMORY_BYTES = 512 << 20
# Loading the engine is not the texts' fault: on a busy machine it takes seconds.
_LOADING_SECONDS = 120.0
# After its own deadline the child is given this long to say where the time went.
_GRACE_SECONDS = 1.0


def evaluate_all(
    texts: Sequence[str], *, seconds: float, engine: Engine | None = None
) -> list[Evaluation]:
    """Evaluate each text by itself; the list ends with the first that fails.

    texts: encodable as UTF-8. seconds: for all of them together. engine: one that was begun for
    this; it is closed.
    """
    if engine is not None or texts:
        with closing(engine or Engine()) as begun:
            return begun.evaluate(texts, seconds=seconds) if texts else []
    return []


class Engine:
    """An engine that is being loaded. To be asked once, and closed.

    To be begun after all processes that are to live on: it ends when nobody is left to ask.
    """

    def __init__(self) -> None:
        asked, self._writer = os.pipe()
        self._reader, writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._writer)
            os.close(self._reader)
            _be_child(asked, writer)
        os.close(asked)
        os.close(writer)

    def evaluate(self, texts: Sequence[str], *, seconds: float) -> list[Evaluation]:
        """As evaluate_all."""
        deadline = time.monotonic() + _LOADING_SECONDS
        _ask(self._writer, json.dumps([seconds, *texts]).encode() + b"\n", deadline)
        lines, expired = _collect(self._reader, len(texts), deadline, seconds + _GRACE_SECONDS)
        status = self._end(kill=expired)
        evaluations = [_decode(line) for line in lines]
        failed = bool(evaluations) and evaluations[-1].failure is not None
        if len(evaluations) < len(texts) and not failed:
            message = _too_slow(seconds) if expired else _death(status)
            evaluations.append(Evaluation((), Failure(message)))
        return evaluations

    def close(self) -> None:
        """End it, whatever it does."""
        if self._child:
            self._end(kill=True)

    def _end(self, *, kill: bool) -> int | None:
        """The child's exit code, negative for a signal; None where SIGCHLD is ignored."""
        child, self._child = self._child, 0
        os.close(self._writer)
        os.close(self._reader)
        if kill:
            os.kill(child, signal.SIGKILL)
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except ChildProcessError:
            return None


def _ask(writer: int, message: bytes, deadline: float) -> None:
    """Send it whole, or not, where the child has ended or takes too long: its answer tells."""
    os.set_blocking(writer, False)
    poll = select.poll()
    poll.register(writer, select.POLLOUT)
    rest = memoryview(message)
    while rest and (left := deadline - time.monotonic()) > 0:
        poll.poll(left * 1000)
        try:
            rest = rest[os.write(writer, rest) :]
        except BlockingIOError:
            continue
        except BrokenPipeError:
            return


def _collect(reader: int, count: int, deadline: float, seconds: float) -> tuple[list[bytes], bool]:
    """The child's complete lines, and whether a deadline cut them short.

    Their first is empty, and says that the engine is loaded: until then `deadline` counts, and
    `seconds` from there.
    """
    received = bytearray()
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    complete = 0
    while complete <= count:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            break
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            return bytes(received).split(b"\n")[1:-1], False
        if not received:
            deadline = time.monotonic() + seconds
        received += chunk
        complete += chunk.count(b"\n")
    return bytes(received).split(b"\n")[1:-1], complete <= count


def _decode(line: bytes) -> Evaluation:
    calls, failure = json.loads(line)
    return Evaluation(
        tuple(Call(*call) for call in calls), None if failure is None else Failure(*failure)
    )


def _too_slow(seconds: float) -> str:
    return f"evaluation takes longer than {seconds:g} s"


def _death(status: int | None) -> str:
    if status in (-signal.SIGSEGV, -signal.SIGBUS):
        return "the text is nested too deeply for the Starlark engine"
    if status == -signal.SIGABRT:
        return f"evaluation needs more than {MEMORY_BYTES >> 20} MiB of memory"
    return f"the Starlark engine ended unexpectedly (status {status})"


def _be_child(asked: int, writer: int) -> NoReturn:
    """Evaluate, report, and exit without running anything the parent set up for its exit."""
    try:
        # The engine is loaded by those who run it: a server's memory and start do without.
        from codex_multitool.execpolicy.engine import evaluate

        message = bytearray()
        while not message.endswith(b"\n"):
            chunk = os.read(asked, 1 << 16)
            if not chunk:
                os._exit(0)  # nobody is left to ask
            message += chunk
        seconds, *texts = json.loads(message)
        _leave_parent(seconds)
        _write(writer, b"\n")
        deadline = time.monotonic() + seconds
        for text in texts:
            evaluation = evaluate(
                text, lambda: _too_slow(seconds) if time.monotonic() > deadline else None
            )
            _write(writer, json.dumps(evaluation).encode() + b"\n")
            if evaluation.failure is not None:
                break
        os._exit(0)
    finally:
        os._exit(os.EX_SOFTWARE)


def _leave_parent(seconds: float) -> None:
    """Give up what a fork inherits (signal handlers, stderr) and accept limits."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):
        signal.signal(number, signal.SIG_DFL)
    # A panicking engine prints its backtrace: nobody wants it, and where memory has run out the
    # engine waits for ever for a lock that it holds itself.
    os.environ["RUST_BACKTRACE"] = "0"
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, _data_bytes() + MEMORY_BYTES)
    # Ends a child whose parent was killed.
    _limit(resource.RLIMIT_CPU, int(time.process_time() + seconds + _GRACE_SECONDS) + 1)


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most))


def _data_bytes() -> int:
    """What counts towards RLIMIT_DATA already: a fork starts with all of its parent's (proc(5))."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _write(writer: int, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(writer, rest) :]
