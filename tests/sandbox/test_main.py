"""The role's command line, its exit statuses, and what the command finds when it starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyseccomp
import pytest

from codex_multitool import __version__
from codex_multitool.sandbox import main
from tests.sandbox.confined import (
    FULL,
    READ_ONLY,
    WORKSPACE,
    Policy,
    Workspace,
    extensions,
    package,
    require_abi,
    workspace,
)

pytestmark = require_abi(1)


@pytest.fixture
def place() -> Workspace:
    return workspace(None)


# --- the command line ------------------------------------------------------------------------


def test_flags_take_their_value_either_way() -> None:
    apart = main.parse(["--sandbox-policy-cwd", "/a", "--sandbox-policy", "{}", "--", "ls", "-l"])
    joined = main.parse(["--sandbox-policy={}", "--sandbox-policy-cwd=/a", "ls", "-l"])
    for options in (apart, joined):
        assert (options.cwd, options.policy, options.command) == ("/a", "{}", ["ls", "-l"])


def test_the_command_begins_at_the_first_word_that_is_no_flag() -> None:
    assert main.parse(["--no-proc", "ls", "--help"]).command == ["ls", "--help"]
    assert main.parse(["--", "--help"]).command == ["--help"]
    assert main.parse(["--", "--", "a"]).command == ["--", "a"]
    assert main.parse(["-"]).command == ["-"]
    assert main.parse([]).command == []


def test_what_the_reference_also_takes() -> None:
    options = main.parse(
        ["--use-legacy-landlock", "--no-proc", "--accept-weaker", "no-truncate", "a"]
    )
    assert (options.command, options.accept) == (["a"], {"no-truncate"})


POLICY = ["--sandbox-policy", '{"type":"read-only"}']
CWD = ["--sandbox-policy-cwd", "/"]

USAGE = [
    ([], "--sandbox-policy-cwd is missing"),
    ([*POLICY, "true"], "--sandbox-policy-cwd is missing"),
    ([*CWD, "true"], "--sandbox-policy is missing"),
    ([*CWD, *POLICY], "a command is missing"),
    ([*CWD, *POLICY, "--"], "a command is missing"),
    ([*CWD, *CWD, *POLICY, "true"], "--sandbox-policy-cwd is given twice"),
    ([*CWD, *POLICY, "--sandbox-policy={}", "true"], "--sandbox-policy is given twice"),
    (["--sandbox-policy-cwd"], "--sandbox-policy-cwd: a value is missing"),
    (["--sandbox-policy-cwd=", *POLICY, "true"], "--sandbox-policy-cwd: an empty path"),
    (["--full-auto", "true"], "unknown option '--full-auto'"),
    (["-x", "true"], "unknown option '-x'"),
    (["--no-proc=1", "true"], "unknown option '--no-proc=1'"),
    (
        ["--accept-weaker", "anything", "true"],
        "--accept-weaker: 'anything' is none of no-landlock,",
    ),
    (["--use-bwrap-sandbox", "true"], "--use-bwrap-sandbox: there is no bubblewrap here"),
    (["--apply-seccomp-then-exec"], "--apply-seccomp-then-exec: there is no bubblewrap here"),
    (["--allow-network-for-proxy", "true"], "--allow-network-for-proxy: network traffic is not"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_usage_errors(place: Workspace, arguments: list[str], message: str) -> None:
    ran = place.run(None, flags=arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    complaint, usage = ran.stderr.splitlines()
    assert complaint.startswith(f"codex-linux-sandbox: {message}")
    assert usage.startswith("usage: codex-linux-sandbox --sandbox-policy-cwd DIR")


def test_a_policy_error_names_the_flag_and_the_field(place: Workspace) -> None:
    ran = place.run({"type": "read-only", "network_access": 3}, "true")
    assert ran.returncode == 2
    assert ran.stderr == (
        "codex-linux-sandbox: --sandbox-policy: `network_access` must be a boolean, "
        '"restricted" or "enabled", not a number\n'
    )


def test_help_and_version(place: Workspace) -> None:
    for flag in ("-h", "--help"):
        ran = place.run(None, flags=[flag])
        assert (ran.returncode, ran.stderr) == (0, "")
        for word in ("usage:", "--sandbox-policy-cwd", "--accept-weaker", "no-landlock", "127"):
            assert word in ran.stdout
    for flag in ("-V", "--version"):
        ran = place.run(None, flags=[flag])
        assert (ran.returncode, ran.stdout) == (0, f"codex-linux-sandbox {__version__}\n")


# --- exit statuses ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [READ_ONLY, WORKSPACE, FULL])
@pytest.mark.parametrize(
    ("command", "status", "complaint"),
    [
        (["sh", "-c", "exit 3"], 3, ""),
        (["sh", "-c", "kill -KILL $$"], -9, ""),
        (["no-such-command"], 127, "codex-linux-sandbox: no-such-command: command not found\n"),
        (["/etc/passwd"], 126, "codex-linux-sandbox: /etc/passwd: Permission denied\n"),
        (["/"], 126, "codex-linux-sandbox: /: Permission denied\n"),
    ],
)
def test_exit_statuses(
    place: Workspace, policy: Policy, command: list[str], status: int, complaint: str
) -> None:
    ran = place.run(policy, *command)
    assert (ran.returncode, ran.stdout, ran.stderr) == (status, "", complaint)


def refusing(*calls: str) -> bytes:
    """A filter under which these calls do not exist, as on an older kernel."""
    program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for call in calls:
        program.add_rule(pyseccomp.ERRNO(38), call)
    with os.fdopen(os.memfd_create("filter"), "r+b") as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def test_without_landlock_nothing_runs_unless_that_is_accepted(place: Workspace) -> None:
    older = refusing("landlock_create_ruleset")
    for policy in (READ_ONLY, WORKSPACE):
        ran = place.run(policy, "echo", "ran", first=older)
        assert (ran.returncode, ran.stdout) == (125, "")
        assert ran.stderr.startswith("codex-linux-sandbox: sandbox: ")
        assert "Landlock" in ran.stderr
        assert "`codex-linux-sandbox --accept-weaker no-landlock` allows it" in ran.stderr
        other = place.run(policy, "echo", "ran", flags=["--accept-weaker=no-seccomp"], first=older)
        assert (other.returncode, other.stdout) == (125, "")
        flags = ["--accept-weaker", "no-landlock"]
        ran = place.run(policy, "echo", "ran", flags=flags, first=older)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ran\n", "")
        code = "socket.socket(socket.AF_INET)"
        assert place.ask(policy, code, flags=flags, first=older) == "EPERM"
    assert place.run(FULL, "echo", "ran", first=older).stdout == "ran\n"


def test_without_filters_no_network_can_be_off_unless_that_is_accepted(place: Workspace) -> None:
    older = refusing("seccomp")
    restricted: Policy = {"type": "external-sandbox"}
    for policy in (READ_ONLY, WORKSPACE, restricted):
        ran = place.run(policy, "echo", "ran", first=older)
        assert (ran.returncode, ran.stdout) == (125, "")
        assert "`codex-linux-sandbox --accept-weaker no-seccomp` allows it" in ran.stderr
        ran = place.run(policy, "echo", "ran", flags=["--accept-weaker=no-seccomp"], first=older)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ran\n", "")
    code = "open(sys.argv[1] + '/new', 'w')"
    flags = ["--accept-weaker=no-seccomp"]
    outside = str(place.outside)
    assert place.ask(WORKSPACE, code, outside, flags=flags, first=older) == "EACCES"
    assert place.run({**WORKSPACE, "network_access": True}, "true", first=older).returncode == 0


def test_a_refusal_by_the_kernel_ends_the_role(place: Workspace) -> None:
    for call in ("landlock_restrict_self", "landlock_add_rule"):
        ran = place.run(WORKSPACE, "echo", "ran", first=refusing(call))
        assert (ran.returncode, ran.stdout) == (125, "")
        assert ran.stderr.startswith("codex-linux-sandbox: sandbox: ")
        assert f"{call}: Function not implemented\n" in ran.stderr


def test_sandboxes_nest_as_deep_as_the_kernel_has_layers() -> None:
    """The sixteenth layer is the last (landlock(7)); one more must not run with less."""
    script = """
import os, sys
sys.path.insert(0, sys.argv[1])
from codex_multitool.sandbox import enforce, policy
wanted = policy.SandboxPolicy("read-only", network_access=True)
for layer in range(20):
    try:
        enforce.restrict(enforce.prepare(wanted, ()))
    except enforce.SandboxError as error:
        print(layer, error)
        break
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, str(package())], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "16 landlock_restrict_self: Argument list too long\n"


# --- what the command finds ------------------------------------------------------------------


def test_arguments_environment_and_folder_arrive_as_they_are(place: Workspace) -> None:
    environ = {"A": "b c", "BYTES": os.fsdecode(b"\xff"), "LD_LIBRARY_PATH": "/nowhere"}
    script = 'printf "%s|" "$0" "$@"; pwd; printenv A LD_LIBRARY_PATH; printenv BYTES | od -An -tx1'
    ran = place.run(
        WORKSPACE, "sh", "-c", script, "", "a b", "*", cwd=place.outside, environ=environ
    )
    assert ran.stdout == f"|a b|*|{place.outside}\nb c\n/nowhere\n ff 0a\n"


def test_nothing_but_the_network_variable_is_added(place: Workspace) -> None:
    outside = {"PATH", "HOME", "LC_ALL"}
    for policy, added in ((READ_ONLY, {"CODEX_SANDBOX_NETWORK_DISABLED"}), (FULL, set())):
        lines = place.run(policy, "env").stdout.splitlines()
        assert {line.partition("=")[0] for line in lines} == outside | added


def _masks(status: str) -> dict[str, int]:
    masks = [line.split() for line in status.splitlines() if line.startswith("Sig")]
    return {name: int(mask, 16) for name, mask in masks if name != "SigQ:"}


def test_signals_are_as_a_program_expects_them(place: Workspace) -> None:
    ran = place.run(WORKSPACE, "cat", "/proc/self/status")
    # As it is for us, but for what Python ignores for itself.
    pythons = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    ours = _masks(Path("/proc/self/status").read_text())
    ours["SigIgn:"] &= ~pythons
    assert _masks(ran.stdout) == {**ours, "SigPnd:": 0, "SigCgt:": 0}
    ran = place.run(WORKSPACE, "sh", "-c", "yes | head -n 1")
    assert (ran.stdout, ran.stderr) == ("y\n", "")


def test_an_ignored_interrupt_stays_ignored(place: Workspace) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    ran = place.run(WORKSPACE, "grep", "^SigIgn", "/proc/self/status", preexec_fn=ignore)
    # 32 and 33 belong to the C library, signal(7): whoever runs the tests may ignore them
    ignored = int(ran.stdout.split()[1], 16) & ~(0b11 << 31)
    assert ignored == 1 << signal.SIGINT - 1


def test_a_relative_workspace_is_taken_from_the_working_directory(place: Workspace) -> None:
    policy = '{"type":"workspace-write","exclude_slash_tmp":true}'
    flags = ["--sandbox-policy-cwd=.", "--sandbox-policy", policy, "touch", "here"]
    ran = place.run(None, flags=flags)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (place.inside / "here").exists()


def test_the_workspace_need_not_be_the_working_directory(place: Workspace) -> None:
    ran = place.run(WORKSPACE, "touch", "here", cwd=place.outside)
    assert ran.returncode == 1
    ran = place.run(WORKSPACE, "touch", str(place.inside / "here"), cwd=place.outside)
    assert ran.returncode == 0


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_workspace_that_is_no_folder_is_an_error(place: Workspace, name: str) -> None:
    (place.inside / "file").touch()
    flags = ["--sandbox-policy-cwd", name, *POLICY, "--", "true"]
    ran = place.run(None, flags=flags)
    why = {"missing": "No such file or directory", "file": "Not a directory"}[name]
    assert (ran.returncode, ran.stdout) == (125, "")
    assert ran.stderr == f"codex-linux-sandbox: sandbox: --sandbox-policy-cwd {name}: {why}\n"


def test_a_root_that_is_not_there_is_told_and_the_others_are_writable(place: Workspace) -> None:
    missing = str(place.outside / "missing")
    policy = {**WORKSPACE, "writable_roots": [missing, str(place.outside)]}
    ran = place.run(policy, "touch", str(place.outside / "there"))
    assert (ran.returncode, ran.stdout) == (0, "")
    told = f"codex-linux-sandbox: not writable: {missing}: No such file or directory\n"
    assert ran.stderr == told
    # Nobody asked for these by name.
    policy = {**WORKSPACE, "exclude_tmpdir_env_var": False}
    ran = place.run(policy, "true", environ={"TMPDIR": missing})
    assert (ran.returncode, ran.stderr) == (0, "")


def test_closed_standard_streams_do_no_harm(place: Workspace) -> None:
    script = 'exec "$@" <&- >&- 2>&-'
    target = place.inside / "done"
    with place.start(WORKSPACE, "touch", str(target)) as process:
        arguments = process.args
        process.communicate()
    assert target.exists()
    target.unlink()
    assert isinstance(arguments, list)
    closed = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *arguments], cwd=place.inside, check=False
    )
    assert closed.returncode == 0
    assert target.exists()


# --- the start -------------------------------------------------------------------------------

# Module: why the role must not import it.
HEAVY = {
    "click": "another role's; 22 ms",
    "ctypes": "the module behind it is enough; 3 ms",
    "collections": "2 ms",
    "dataclasses": "inspect and re with it; 10 ms",
    "enum": "2 ms",
    "functools": "1 ms",
    "importlib.util": "4 ms",
    "json": "re with it; 5 ms",
    "landlock": "20 ms; what it knows is precomputed",
    "logging": "10 ms",
    "msgspec": "23 ms",
    "pyseccomp": "18 ms, and it starts a compiler or ldconfig; its filters are precomputed",
    "re": "5 ms",
    "socket": "enum and selectors with it; 5 ms",
    "struct": "0.5 ms; int.to_bytes is enough",
    "subprocess": "10 ms",
    "threading": "no thread may exist where a process confines itself",
    "trio": "60 ms",
    "typing": "5 ms",
}


def test_the_role_imports_nothing_heavy() -> None:
    script = f"""
import sys
sys.path[:] = [{str(package())!r}, *sys.path, {extensions()!r}]
from codex_multitool import roles
policy = '{{"type":"workspace-write"}}'
flags = ["--sandbox-policy-cwd", "/", "--sandbox-policy", policy]
status = roles.main(["codex-linux-sandbox", *flags, "--", "no-such-command"])
sys.stdout.write("\\n".join(sys.modules))
sys.exit(status)
"""
    ran = subprocess.run(
        [sys.executable, "-IS", "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 127, ran.stderr
    modules = set(ran.stdout.split())
    assert "codex_multitool.sandbox.enforce" in modules
    assert {name: why for name, why in HEAVY.items() if name in modules} == {}
