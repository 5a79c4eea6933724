"""What a confined process may do to other processes and to the kernel."""

import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyseccomp
import pytest

from tests.sandbox.confined import (
    CONFINED,
    ENABLED,
    FULL,
    OFFLINE,
    ONLINE,
    RESTRICTED,
    USERS,
    WORKSPACE,
    Workspace,
    python,
    require_abi,
    workspace,
)

pytestmark = require_abi(1)


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Workspace:
    return workspace(request.param)


def test_the_steps_have_been_taken(place: Workspace) -> None:
    fields = "NoNewPrivs|Seccomp|Seccomp_filters"
    lines = place.run(WORKSPACE, "grep", "-E", f"^({fields}):", "/proc/self/status").stdout
    assert [line.split() for line in lines.splitlines()] == [
        ["NoNewPrivs:", "1"],
        ["Seccomp:", "2"],
        ["Seccomp_filters:", "1"],
    ]


def test_full_access_takes_none(place: Workspace) -> None:
    mine = Path("/proc/self/status").read_text().splitlines()
    for policy in (FULL, ENABLED):
        theirs = place.run(policy, "cat", "/proc/self/status").stdout.splitlines()
        for field in ("NoNewPrivs:", "Seccomp:", "Seccomp_filters:"):
            assert [line for line in theirs if line.startswith(field)] == [
                line for line in mine if line.startswith(field)
            ]


def test_the_variable_tells_of_the_network(place: Workspace) -> None:
    variable = "CODEX_SANDBOX_NETWORK_DISABLED"
    for policy in OFFLINE:
        assert place.run(policy, "printenv", variable).stdout == "1\n"
    for policy in (ONLINE, FULL, ENABLED):
        assert place.run(policy, "printenv", variable).stdout == ""


# --- other processes -------------------------------------------------------------------------


@pytest.fixture
def victim(place: Workspace) -> Iterator[int]:
    """A process of the same user, outside."""
    options = (
        {} if place.user is None else {"user": place.user, "group": place.user, "extra_groups": []}
    )
    with subprocess.Popen(["sleep", "600"], **options) as process:  # type: ignore[call-overload]
        yield process.pid
        process.kill()


@require_abi(6)
def test_signals_stay_inside(place: Workspace, victim: int) -> None:
    for code in (
        "os.kill(int(sys.argv[1]), 0)",
        "os.kill(int(sys.argv[1]), 18)",
        "import signal; signal.pidfd_send_signal(os.pidfd_open(int(sys.argv[1])), 0)",
    ):
        assert place.ask(FULL, code + "\nprint('sent')", str(victim)) == "sent"
        for policy in CONFINED:
            assert place.ask(policy, code, str(victim)) == "EPERM"
    own = "pid = os.fork() or os.execvp('sleep', ['sleep', '60'])\nos.kill(pid, 9)"
    own += "\nprint(os.wait()[1])"
    assert place.ask(WORKSPACE, own) == str(int(signal.SIGKILL))


@pytest.mark.parametrize("name", ["mem", "root/etc", "cwd/."])
def test_other_processes_memory_and_root_are_out_of_reach(
    place: Workspace, victim: int, name: str
) -> None:
    code = f"os.close(os.open('/proc/{victim}/{name}', os.O_RDONLY)); print('open')"
    for policy in CONFINED:
        assert place.ask(policy, code) == "EACCES"
    without = place.ask(FULL, code)
    if without != "open" and (yama := yama_scope()):
        pytest.skip(f"kernel.yama.ptrace_scope={yama} refuses it without a sandbox, too")
    assert without == "open"


def yama_scope() -> int:
    """Whose memory a process may look into (Yama, ptrace(2)); 0 is: of all of its user."""
    path = Path("/proc/sys/kernel/yama/ptrace_scope")
    return int(path.read_text()) if path.exists() else 0


def test_limits_of_other_processes_stay(place: Workspace, victim: int) -> None:
    code = "import resource\nresource.prlimit(int(sys.argv[1]), resource.RLIMIT_CORE, (0, 0))"
    code += "\nprint('set')"
    assert place.ask(FULL, code, str(victim)) == "set"
    for policy in CONFINED:
        assert place.ask(policy, code, str(victim)) == "EPERM"
        assert place.ask(policy, code, "0") == "set"


# --- the kernel's own doors ------------------------------------------------------------------

# With arguments that no kernel takes, so that a call which is let through changes nothing.
CALLS = [
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "io_uring_setup"),
    *("io_uring_enter", "io_uring_register", "bpf", "userfaultfd", "perf_event_open", "keyctl"),
    *("add_key", "request_key", "open_by_handle_at", "kexec_load", "init_module", "mount"),
    *("umount2", "pivot_root", "setns", "fsopen", "fsmount", "open_tree", "move_mount", "chroot"),
    *("swapon", "acct", "quotactl", "settimeofday", "reboot", "finit_module", "mount_setattr"),
]
# Those that answer something else to an ordinary user when nothing refuses them.
TELLING = ("process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "keyctl", "setns")


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_list_is_refused(place: Workspace, call: str) -> None:
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call)
    code = f"print(syscall({number}, -1, -1, -1, -1, -1, -1))"
    for policy in (*CONFINED, RESTRICTED):
        assert place.ask(policy, code) == "EPERM"
    if call in TELLING:
        assert place.ask(FULL, code) not in ("EPERM", "ENOSYS")


@pytest.mark.parametrize("flag", [0x10000000, 0x00020000, 0x40000000], ids=["user", "mount", "net"])
def test_a_namespace_cannot_be_made(place: Workspace, flag: int) -> None:
    unshare = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "unshare")
    clone = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "clone")
    clone3 = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "clone3")
    for policy in CONFINED:
        assert place.ask(policy, f"syscall({unshare}, {flag})") == "EPERM"
        assert (
            place.ask(policy, f"syscall({clone}, {flag | signal.SIGCHLD}, 0, 0, 0, 0)") == "EPERM"
        )
        assert place.ask(policy, f"syscall({clone3}, 0, 0)") == "ENOSYS"


def test_nothing_is_typed_into_a_terminal(place: Workspace) -> None:
    code = """
import fcntl, pty, termios
controller, terminal = pty.openpty()
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    try:
        fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    if place.ask(FULL, code) == "5":
        pytest.skip("the kernel refuses TIOCSTI by itself (dev.tty.legacy_tiocsti)")
    assert place.ask(FULL, code) == "0"
    assert place.ask(WORKSPACE, code) == "1"
    assert place.ask(ONLINE, code) == "1"


X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 has these")

MACHINE_CODE = """
import ctypes, os
def syscall(number):
    return ctypes.CDLL(None).syscall(ctypes.c_long(number))
"""
# mov eax, 20 (getpid); int 0x80; ret
I386 = """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(call() == os.getpid())
"""
X32 = "print(syscall(0x40000000 | 39) > 0)"


@X86_64
@pytest.mark.parametrize("code", [I386, X32], ids=["i386", "x32"])
def test_a_call_of_another_architecture_ends_the_process(place: Workspace, code: str) -> None:
    free = place.run(FULL, python(), "-c", MACHINE_CODE + code)
    if code == I386 and free.returncode == -signal.SIGSEGV:
        pytest.skip("the kernel is built without IA32 emulation")
    assert free.returncode == 0
    for policy in (*CONFINED, RESTRICTED):
        ran = place.run(policy, python(), "-c", MACHINE_CODE + code)
        assert ran.returncode == -signal.SIGSYS


def test_privileges_are_not_gained(place: Workspace) -> None:
    code = "print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))"  # PR_GET_NO_NEW_PRIVS
    for policy in CONFINED:
        assert place.ask(policy, code) == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_the_environment_of_a_process_outside_is_closed_to_root_too(place: Workspace) -> None:
    """CAP_PERFMON opens it on newer kernels, whatever Landlock says (mm_access)."""
    code = f"print(open('/proc/{os.getpid()}/environ').read())"
    for policy in CONFINED:
        assert "PermissionError" in place.ask(
            policy, f"try: {code}\nexcept OSError as e: print(repr(e))"
        )


KEPT = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 31}  # linux/capability.h


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_root_keeps_what_the_sandbox_has_a_use_for() -> None:
    place = workspace(None)
    mine = capabilities(Path("/proc/self/status").read_text())
    for policy in (*CONFINED, RESTRICTED):
        theirs = capabilities(place.run(policy, "cat", "/proc/self/status").stdout)
        for name, found in theirs.items():
            assert found <= KEPT, name
        assert theirs["CapEff"] == mine["CapEff"] & KEPT
    assert capabilities(place.run(FULL, "cat", "/proc/self/status").stdout) == mine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_inheritable_and_ambient_capabilities_go_likewise() -> None:
    """As a container or a service manager may give them: execve(2) would keep them."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed")
    place = workspace(None)
    more = (
        "--inh-caps=+net_admin,+net_raw,+net_bind_service",
        "--ambient-caps=+net_admin,+net_raw",
    )
    command = ("setpriv", *more, "cat", "/proc/self/status")
    given = capabilities(place.run(FULL, *command).stdout)
    if 12 not in given["CapAmb"]:
        pytest.skip("this root has no such capabilities to give")
    script = (
        "import os, sys\n"
        "from codex_multitool.sandbox import enforce, policy\n"
        "wanted = enforce.prepare(policy.SandboxPolicy('read-only'), ())\n"
        "enforce.restrict(wanted)\n"
        "os.execv('/bin/cat', ['cat', '/proc/self/status'])\n"
    )
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [*("setpriv", *more), sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, found in capabilities(ran.stdout).items():
        assert found <= KEPT, name


def capabilities(status: str) -> dict[str, set[int]]:
    """The sets of a process, as /proc/PID/status tells them: proc(5)."""
    found = {}
    for line in status.splitlines():
        name, _, bits = line.partition(":")
        if name.startswith("Cap"):
            found[name] = {bit for bit in range(64) if int(bits, 16) >> bit & 1}
    return found


def test_descriptors_are_the_callers_own(place: Workspace) -> None:
    read, write = os.pipe()
    try:
        code = "print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        given = set(map(int, place.ask(WORKSPACE, code, pass_fds=(write,)).strip("[]").split(",")))
        assert given > {0, 1, 2, write}
        assert len(given) == 5  # and the listing's own
    finally:
        os.close(read)
        os.close(write)


def test_restrict_works_in_a_child_of_another_program(tmp_path: Path) -> None:
    """As the launcher does: prepared once, each forked child confined, the parent left free."""
    script = """
import os, sys
from codex_multitool.sandbox import enforce, policy
wanted = policy.from_object({"type": "workspace-write", "exclude_slash_tmp": True})
confinement = enforce.prepare(wanted, policy.writable_roots(wanted, sys.argv[1], {}))
for index in range(3):
    if os.fork() == 0:
        enforce.restrict(confinement)
        script = 'echo a > "$1/child" && ! (echo b > "$2/child")'
        os.execv("/bin/sh", ["sh", "-c", script, "sh", *sys.argv[1:]])
    assert os.wait()[1] == 0
open(sys.argv[2] + "/parent", "w").close()
confinement.close()
assert len(os.listdir("/proc/self/fd")) == 4
"""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", script, inside, outside],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(os.listdir(outside)) == ["parent"]
    assert sorted(os.listdir(inside)) == ["child"]
