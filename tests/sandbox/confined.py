"""Run the role in a fresh process, as the caller or as an ordinary user.

The role comes from a copy of the package with its precomputed data, as the executable has it. It
is imported before the user changes, so the tree and the interpreter may be out of that user's
reach; the commands are programs of the system.
"""

import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from codex_multitool.sandbox import kernel, precompute
from codex_multitool.sandbox.landlock import NEWEST_ABI

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534

_FOLDER = tempfile.TemporaryDirectory(prefix="codex-sandbox-tests-")

# argv[1]: "" or a user id; argv[2]: "" or a filter to install first, in hexadecimal; argv[3]: the
# newest Landlock ABI to make use of, as on an older kernel.
_START = """
import os, sys
sys.path[:] = [{package!r}, *sys.path, {extensions!r}]
from codex_multitool import roles
from codex_multitool.sandbox import enforce, kernel, main
user, program, abi, *arguments = sys.argv[1:]
enforce.NEWEST_ABI = int(abi)
if user:
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
if program:
    import ctypes
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    kernel.seccomp_set_mode_filter(bytes.fromhex(program), 0)
sys.exit(roles.main(["codex-linux-sandbox", *arguments]))
"""

USERS = [
    pytest.param(None, id="caller"),
    pytest.param(
        NOBODY,
        id="nobody",
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
    ),
]

Policy = dict[str, object]

READ_ONLY: Policy = {"type": "read-only"}
# The reference's tests use this one: nothing but the workspace.
WORKSPACE: Policy = {
    "type": "workspace-write",
    "exclude_tmpdir_env_var": True,
    "exclude_slash_tmp": True,
}
FULL: Policy = {"type": "danger-full-access"}
ONLINE: Policy = {**WORKSPACE, "network_access": True}
RESTRICTED: Policy = {"type": "external-sandbox", "network_access": "restricted"}
ENABLED: Policy = {"type": "external-sandbox", "network_access": "enabled"}
OFFLINE: list[Policy] = [READ_ONLY, WORKSPACE, RESTRICTED]
CONFINED: list[Policy] = [
    READ_ONLY,
    WORKSPACE,
    ONLINE,
    {"type": "read-only", "network_access": "enabled"},
]


def landlock_abi() -> int:
    """The running kernel's Landlock ABI, 0 without."""
    try:
        return kernel.landlock_create_ruleset(None, kernel.LANDLOCK_CREATE_RULESET_VERSION)
    except kernel.KernelError:
        return 0


def require_abi(abi: int) -> pytest.MarkDecorator:
    """Skip where the kernel's Landlock is older."""
    return pytest.mark.skipif(
        landlock_abi() < abi, reason=f"Landlock ABI {landlock_abi()} here, the test needs {abi}"
    )


@functools.cache
def package() -> Path:
    """A folder with the package, its precomputed data in place."""
    folder = Path(_FOLDER.name).resolve() / "package"
    source = ROOT / "codex_multitool"
    shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    prepared = folder / source.name / "sandbox" / "prepared.py"
    prepared.write_text(precompute.module(os.uname().machine))
    return folder


def extensions() -> str:
    """The folder that python-prctl is installed in."""
    import _prctl  # type: ignore[import-not-found]  # noqa: PLC0415  # an extension without types

    return str(Path(_prctl.__file__).parent)


def _reachable(program: str) -> bool:
    """Whether every user can execute a program."""
    path = Path(os.path.realpath(program))
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in [path, *path.parents])


@functools.cache
def python() -> str:
    """An interpreter that the ordinary user can start, too."""
    for candidate in ("/usr/bin/python3", sys.executable):
        if os.path.exists(candidate) and (os.geteuid() != 0 or _reachable(candidate)):
            return candidate
    pytest.skip("no interpreter that every user can start")


class Workspace:
    """A folder to work in and one beside it, both the user's own."""

    def __init__(self, folder: Path, user: int | None) -> None:
        self.user = user
        self.inside = folder / "inside"
        self.outside = folder / "outside"
        folder.mkdir(mode=0o755)
        self.folder(self.inside)
        self.folder(self.outside)

    def own(self, path: Path) -> Path:
        """Give a path to the user."""
        if self.user is not None:
            os.chown(path, self.user, self.user, follow_symlinks=False)
        return path

    def folder(self, path: Path) -> Path:
        """A folder of the user's."""
        path.mkdir(mode=0o755)
        return self.own(path)

    def file(self, path: Path, content: str = "kept\n") -> Path:
        """A file of the user's."""
        path.write_text(content)
        return self.own(path)

    def start(
        self,
        policy: Mapping[str, object] | None,
        *command: str,
        flags: Sequence[str] = (),
        first: bytes = b"",
        newest_abi: int = NEWEST_ABI,
        environ: Mapping[str, str] | None = None,
        **options: object,
    ) -> "subprocess.Popen[str]":
        """Start the role. policy None: only `flags` and the command are given."""
        given = [] if policy is None else ["--sandbox-policy", json.dumps(policy)]
        if policy is not None:
            given += ["--sandbox-policy-cwd", str(self.inside)]
        script = _START.format(package=str(package()), extensions=extensions())
        user = "" if self.user is None else str(self.user)
        before = [user, first.hex(), str(newest_abi)]
        arguments = [sys.executable, "-IS", "-c", script, *before, *given, *flags]
        base = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.inside),
            "LC_ALL": "C.UTF-8",
        }
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.inside,
            "env": {**base, **(environ or {})},
            "text": True,
            **options,
        }
        return subprocess.Popen([*arguments, "--", *command] if command else arguments, **settings)  # type: ignore[call-overload,no-any-return]

    def run(
        self, policy: Mapping[str, object] | None, *command: str, **options: object
    ) -> "subprocess.CompletedProcess[str]":
        """Run the role to its end."""
        process = self.start(policy, *command, **options)  # type: ignore[arg-type]
        with process:
            stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def ask(
        self, policy: Mapping[str, object] | None, code: str, *arguments: str, **options: object
    ) -> str:
        """What a piece of Python says: its last line, or the name of the errno that ended it."""
        ran = self.run(policy, python(), "-c", _PROBE + code, *arguments, **options)
        assert not ran.stderr, ran.stderr
        assert ran.returncode == 0, ran
        return ran.stdout.strip()


_PROBE = """
import ctypes, errno, os, socket, sys
def _end(kind, error, trace):
    if isinstance(error, OSError):
        print(errno.errorcode[error.errno])
        sys.stdout.flush()
        os._exit(0)
    sys.__excepthook__(kind, error, trace)
sys.excepthook = _end
def syscall(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result
"""


def workspace(user: int | None) -> Workspace:
    """A fresh workspace, on a file system that keeps what is written."""
    folder = Path(tempfile.mkdtemp(dir=_FOLDER.name)) / "user"
    for path in (Path(_FOLDER.name), folder.parent):
        path.chmod(0o755)
    return Workspace(folder, user)
