"""Which threads of a sandbox have run: a process without new privileges plays the sandbox."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from codex_multitool.escalation.rest import Seen, rest
from codex_multitool.escalation.vigil import unmoved

_SLEEPER = """
import sys, threading, time
started = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range({threads})]
for thread in started:
    thread.start()
print(flush=True)
sys.stdin.readline()
print(flush=True)
sys.stdin.readline()
"""


@contextmanager
def sandbox(
    threads: int = 0, prefix: str = "setpriv --no-new-privs"
) -> Iterator[subprocess.Popen[str]]:
    """A shell that is none of the sandbox, and below it a process with so many more threads."""
    python = f"{sys.executable} -c '{_SLEEPER.format(threads=threads)}'"
    with subprocess.Popen(
        ["sh", "-c", f"{prefix} {python}; exit"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        assert process.stdin
        process.stdin.close()


def asleep(root: int) -> Seen:
    """What is seen, once all sleeps."""
    while (seen := rest([root], held=(), writable=())).threads is None:
        pass
    return seen


def test_each_thread_counts_and_one_that_ran_is_told() -> None:
    for more in (0, 2):
        with sandbox(more) as process:
            seen = asleep(process.pid)
            assert seen.threads is not None
            assert len(seen.threads) == 1 + more
            assert not seen.company
            assert unmoved(seen.threads, asleep(process.pid).threads, ())
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            assert not unmoved(seen.threads, asleep(process.pid).threads, ())


def test_who_is_held_does_not_count_unless_he_has_threads() -> None:
    for more in (0, 2):
        with sandbox(more) as process:
            threads = asleep(process.pid).threads
            assert threads is not None
            found = rest([process.pid], held=[min(threads)], writable=()).threads
            assert found == ({} if more == 0 else threads)


def test_what_left_the_sandbox_is_company() -> None:
    with sandbox(prefix="") as process:
        assert rest([process.pid], held=(), writable=()) == Seen({}, company=True)


def test_who_cannot_be_looked_at_may_run() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert rest([process.pid], held=(), writable=()) == Seen(None, company=True)
