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
from tests.sandbox.answers import PROBE, PROGRAM, Answers

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534

_ROOTS = "writable_roots"
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
        self._answering: dict[tuple[str, int], Answers] = {}

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
        self,
        policy: Mapping[str, object],
        code: str,
        *arguments: str,
        newest_abi: int = NEWEST_ABI,
        **options: object,
    ) -> str:
        """What a piece of Python says: its last line, or the name of the errno that ended it."""
        if options or _ROOTS in policy:
            options |= {"newest_abi": newest_abi}
            ran = self.run(policy, python(), "-c", PROBE + code, *arguments, **options)
            status, output, complaints = ran.returncode, ran.stdout, ran.stderr
        else:
            answers = self._answers(policy, newest_abi)
            status, output, complaints = answers.ask(PROBE + code, arguments)
        assert (status, complaints) == (0, ""), (status, output, complaints)
        return output.strip()

    def _answers(self, policy: Mapping[str, object], newest_abi: int) -> Answers:
        """Who answers under this policy, whose roots stay the same."""
        key = json.dumps(policy), newest_abi
        if key not in self._answering:
            process = self.start(
                policy,
                *(python(), "-c", PROGRAM),
                newest_abi=newest_abi,
                stdin=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            self._answering[key] = Answers(process)
        return self._answering[key]

    def clear(self) -> None:
        """Empty both folders; they stay the ones that were given to who answers."""
        for folder in (self.inside, self.outside):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            folder.chmod(0o755)
            self.own(folder)

    def close(self) -> None:
        """End all who answer."""
        for answers in self._answering.values():
            answers.close()


_WORKSPACES: dict[int | None, Workspace] = {}


def workspace(user: int | None) -> Workspace:
    """The user's workspace, empty, on a file system that keeps what is written."""
    if user in _WORKSPACES:
        _WORKSPACES[user].clear()
    else:
        folder = Path(tempfile.mkdtemp(dir=_FOLDER.name)) / "user"
        for path in (Path(_FOLDER.name), folder.parent):
            path.chmod(0o755)
        _WORKSPACES[user] = Workspace(folder, user)
    return _WORKSPACES[user]


def close() -> None:
    """End what the workspaces started."""
    for each in _WORKSPACES.values():
        each.close()
