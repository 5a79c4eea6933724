"""The notification descriptor, on the real kernel."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codex_multitool.interception.kernel import KernelError
from codex_multitool.interception.listener import Absent, Notification
from codex_multitool.interception.tracee import Gone, read_exec
from tests.interception.supervise import (
    CONFINED,
    ROOT,
    SECONDS,
    Errno,
    NoListenerError,
    Plain,
    Run,
    Supervisor,
    supervise,
)


def _blocked(supervisor: Supervisor) -> Notification:
    """The next notification, unanswered."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        found = supervisor.listener.receive()
        if isinstance(found, Notification):
            return found
        time.sleep(0.001)
    raise AssertionError("no notification")


def _nothing_more(supervisor: Supervisor) -> None:
    limit = time.monotonic() + 30
    while supervisor.listener.receive() is not Absent.ENDED:
        assert time.monotonic() < limit
        time.sleep(0.001)


def test_receiving_does_not_block_when_there_is_nothing() -> None:
    with Supervisor(["/bin/sh", "-c", "read x"], lambda _: Run(), stdin=subprocess.PIPE) as under:
        under.serve_until(lambda: len(under.outcomes) == 1)
        assert under.listener.receive() is Absent.NOTHING
        assert under.process.stdin is not None
        under.process.stdin.close()
        assert under.run().status == 1


def test_who_was_told_that_there_is_something_need_not_have_it_asked() -> None:
    with Supervisor(["/bin/true"], lambda _: Run()) as under:
        assert select.select([under.listener.fd], [], [], SECONDS)[0]
        assert under.listener.receive(select.POLLHUP) is Absent.ENDED
        notification = under.listener.receive(select.POLLIN | select.POLLHUP)
        assert isinstance(notification, Notification)
        under.listener.resume(notification)
        assert under.run().status == 0


def test_a_notification_tells_thread_number_and_arguments() -> None:
    with Supervisor(["/bin/true"], lambda _: Run()) as under:
        notification = _blocked(under)
        assert notification.tid == under.process.pid
        assert notification.number == under.listener.architecture.execve
        assert notification.audit == under.listener.architecture.audit
        assert under.listener.valid(notification)
        assert under.listener.fail(notification, 2)
        under.process.wait()
        assert not under.listener.valid(notification)
        assert not under.listener.fail(notification, 2)
        assert not under.listener.resume(notification)


def test_a_caller_killed_while_it_waits_is_gone() -> None:
    with Supervisor(["/bin/true"], lambda _: Run()) as under:
        notification = _blocked(under)
        under.process.kill()
        under.process.wait()
        assert not under.listener.valid(notification)
        assert not under.listener.resume(notification)
        assert under.listener.add_descriptor(notification, 0, close_on_exec=True) is None
        assert isinstance(read_exec(under.listener, notification), Gone)
        _nothing_more(under)


def test_a_caller_killed_before_it_is_received_does_not_block_us() -> None:
    with Supervisor(["/bin/true"], lambda _: Run()) as under:
        assert select.select([under.listener.fd], [], [], SECONDS)[0]  # a call waits
        under.process.kill()
        under.process.wait()
        _nothing_more(under)


@pytest.mark.parametrize("number", [None, 100])
def test_the_caller_gets_a_descriptor_of_ours(number: int | None) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"through the pipe")
    os.close(writer)
    with Supervisor(["/bin/sh", "-c", 'exec /bin/cat "/dev/fd/$0"', "100"], lambda _: Run()) as it:
        it.serve_until(lambda: len(it.outcomes) == 1)
        notification = _blocked(it)
        given = it.listener.add_descriptor(notification, reader, close_on_exec=False, number=number)
        assert number is None or given == number
        there = os.readlink(f"/proc/{it.process.pid}/fd/{given}")
        assert there == os.readlink(f"/proc/self/fd/{reader}")
        os.close(reader)
        assert it.listener.resume(notification)
        finished = it.run()
        assert finished.out == (b"through the pipe" if number else b"")


def test_an_answer_may_be_a_descriptor() -> None:
    """An execve that returns a number is odd, but the simplest call at hand."""
    script = "import os\ntry: os.execv('/bin/true', ['x'])\nexcept OSError as e: print(e.errno)"
    with Supervisor([sys.executable, "-IS", "-c", script], lambda _: Run()) as under:
        under.serve_until(lambda: len(under.outcomes) == 1)
        notification = _blocked(under)
        try:
            given = under.listener.answer_with_descriptor(notification, 0)
        except KernelError as error:
            if error.errno != errno.EINVAL:
                raise
            pytest.skip("this kernel has no SECCOMP_ADDFD_FLAG_SEND (Linux 5.14)")
        assert given is not None
        assert given > 2
        assert under.run().out != b""


def test_a_second_listener_in_the_tree_is_refused() -> None:
    channel = "import socket; a, b = socket.socketpair(); "
    script = (
        f"{channel} import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-IS', {str(CONFINED)!r}, {str(ROOT)!r},"
        " str(b.fileno()), 'k', '/bin/true'], pass_fds=[b.fileno()])\n"
        "print(a.recv(100).decode())"
    )
    finished = supervise([sys.executable, "-IS", "-c", script], lambda _: Run())
    assert finished.out == b"16 ListenerInUseError\n"


def test_without_no_new_privs_the_refusal_is_told(as_nobody: list[str]) -> None:
    probe = (
        f"import sys, os; sys.path.insert(0, {str(ROOT)!r})\n"
        "from codex_multitool.interception.architecture import architecture\n"
        "from codex_multitool.interception.filter import exec_filter\n"
        "from codex_multitool.interception.kernel import KernelError\n"
        "from codex_multitool.interception.listener import install\n"
        "machine = architecture(os.uname().machine)\n"
        "try: install(machine, exec_filter(machine))\n"
        "except KernelError as error: print(error)\n"
    )
    ran = subprocess.run([*as_nobody, "-IS", "-c", probe], capture_output=True, check=True)
    assert ran.stdout == b"seccomp: Permission denied\n"


def test_a_killed_supervisor_leaves_nothing_running_free(tmp_path: Path) -> None:
    """The exec it was asked about fails with ENOSYS, and so do all later ones."""
    proof = tmp_path / "proof"
    command = f"/bin/touch {proof} || echo first $?; exec /bin/touch {proof}"
    script = (
        f"import os, signal, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.interception.supervise import Plain, supervise\n"
        "def decide(snapshot):\n"
        "    if 'touch' in snapshot.file: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return Plain()\n"
        f"supervise(['/bin/sh', '-c', {command!r}], decide, stdout=1, stderr=1)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert ran.returncode == -signal.SIGKILL
    assert ran.stdout.count(b"Function not implemented") == 2, ran.stdout
    assert b"first 126" in ran.stdout
    assert not proof.exists()


def test_a_killed_supervisor_takes_what_it_holds_with_it(tmp_path: Path) -> None:
    """Killed between CONTINUE and the exec stop, the unchecked program must not run."""
    proof = tmp_path / "proof"
    script = (
        f"import os, signal, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.interception.supervise import Run, Supervisor\n"
        "class Dying(Supervisor):\n"
        "    def _advance(self, *arguments):\n"
        "        super()._advance(*arguments)\n"
        "        held = 'touch' in self.asked[-1][0] and self.running\n"
        "        if held: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"Dying(['/bin/sh', '-c', '/bin/touch {proof}; :'], lambda _: Run()).run()\n"
    )
    for _ in range(20):
        ran = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
        if ran.returncode == -signal.SIGKILL:
            break
        proof.unlink()  # the exec was over sooner than it could be held
    assert ran.returncode == -signal.SIGKILL
    time.sleep(0.2)
    assert not proof.exists()


def test_synchronous_wake_up_is_asked_for_or_told_missing() -> None:
    with Supervisor(["/bin/true"], lambda _: Run()) as under:
        release = tuple(int(part) for part in os.uname().release.split(".")[:2])
        assert under.listener.sync_wake_up() is (release >= (6, 6))
        assert under.run().status == 0


def test_waits_are_killable_when_asked_and_then_signals_do_not_break_them() -> None:
    """The handler of a signal runs only after the answer; else the call is made anew."""
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))\n"
        "try: os.execv('/bin/missing', ['x'])\n"
        "except OSError: print('failed', flush=True)\n"
    )
    counts = {}
    for killable in (True, False):
        asked = 0
        with Supervisor(
            [sys.executable, "-IS", "-c", script], lambda _: Plain(), killable=killable
        ) as under:
            while not under.outcomes and not under.asked:
                under.serve()
            notification = _blocked(under)
            os.kill(under.process.pid, signal.SIGUSR1)
            time.sleep(0.1)
            asked = int(under.listener.valid(notification))
            under.listener.fail(notification, 2)
            under.decide = lambda _: Errno(2)
            assert under.run().out in (b"handled\nfailed\n", b"failed\nhandled\n")
        counts[under.listener.killable] = asked
    assert counts[False] == 0
    assert counts.get(True, 1) == 1


def test_the_refusal_of_a_listener_reaches_the_supervisor() -> None:
    nested = [sys.executable, "-IS", "-c", _UNDER_A_LISTENER, str(ROOT)]
    with pytest.raises(NoListenerError, match="16 ListenerInUseError"):
        Supervisor(["/bin/true"], lambda _: Run(), before=nested)


_UNDER_A_LISTENER = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.listener import install
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
allow_all = bytes([0x06, 0, 0, 0]) + (0x7fff0000).to_bytes(4, sys.byteorder)
fd, _ = install(architecture(os.uname().machine), allow_all)
os.set_inheritable(fd, True)
os.execv(sys.argv[2], sys.argv[2:])
"""
