"""What a case runs on: whose server, whose wrapper, which shell, and the folders of one test."""

from __future__ import annotations

import enum
import functools
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import peer
from tests.end_to_end.client import Answer, Client, accept
from tests.end_to_end.processes import CONFIG, MARK, marked, wait_until
from tests.executables import patched_shell

ROOT = Path(__file__).resolve().parent.parent.parent
DIST = Path(os.environ.get("CODEX_MULTITOOL_DIST") or ROOT / "dist")

ACCEPT = "--accept-writable-server"

READ_ONLY = {"type": "read-only"}
FULL_ACCESS = {"type": "danger-full-access"}
WORKSPACE = {"type": "workspace-write"}  # /tmp and $TMPDIR are writable too
ONLY_WORKSPACE = {**WORKSPACE, "exclude_slash_tmp": True, "exclude_tmpdir_env_var": True}


class Maker(enum.Enum):
    """Whose program it is."""

    OURS = "ours"
    ORIGINAL = "original"


OURS, ORIGINAL = Maker.OURS, Maker.ORIGINAL


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which programs work together.

    wrapper: None where the kernel tells our server of every exec. shell: our patched bash or zsh,
    the original's original-bash, or the system-bash that is not patched at all. helper: the
    server's unless told otherwise. asking: whether a shell that may ask the server itself does.
    """

    server: Maker = OURS
    wrapper: Maker | None = OURS
    shell: str = "bash"
    helper: Maker | None = None
    asking: bool = True

    def __str__(self) -> str:
        wrapper = f"{self.wrapper.value}-wrapper" if self.wrapper else "kernel"
        names = [f"{self.server.value}-server", wrapper]
        if self.helper is not None:
            names.append(f"{self.helper.value}-helper")
        return "+".join([*names, self.shell] + ["never-asking"] * (not self.asking))

    @property
    def zsh(self) -> bool:
        return self.shell == "zsh"


OUR_WRAPPED_PAIRINGS = [Pairing(), Pairing(shell="zsh")]
KERNEL = Pairing(wrapper=None, shell="system-bash")
OUR_PAIRINGS = [*OUR_WRAPPED_PAIRINGS, KERNEL]
MIXED_PAIRINGS = [
    Pairing(wrapper=ORIGINAL, asking=False),
    Pairing(wrapper=ORIGINAL, shell="zsh"),
    Pairing(server=ORIGINAL),
    Pairing(server=ORIGINAL, shell="zsh"),
    Pairing(server=ORIGINAL, helper=OURS),
]
# Shows that a case asserts what the original does, too.
ORIGINAL_PAIRING = Pairing(server=ORIGINAL, wrapper=ORIGINAL, shell="original-bash")
PAIRINGS = [*OUR_PAIRINGS, *MIXED_PAIRINGS, ORIGINAL_PAIRING]


def over(pairings: Iterable[Pairing]) -> pytest.MarkDecorator:
    """Run the case on each of these pairings."""
    return pytest.mark.parametrize("pairing", list(pairings), ids=str)


# Where a case asserts what the original's wrapper, or its bash, is known to get wrong.
NOT_THE_ORIGINALS_WRAPPER = [pairing for pairing in PAIRINGS if pairing.wrapper is not ORIGINAL]
NOT_THE_ORIGINALS_BASH = [pairing for pairing in PAIRINGS if pairing.shell != "original-bash"]


@dataclass(frozen=True, slots=True)
class Box:
    """The folders of one test, and the mark that all its processes carry."""

    root: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def ws(self) -> Path:
        """The workspace: the server's and the commands' working directory."""
        return self.root / "ws"

    @property
    def out(self) -> Path:
        """A folder outside the workspace."""
        return self.root / "out"

    @property
    def home(self) -> Path:
        """The home directory; CODEX_HOME is .codex in it."""
        return self.root / "home"

    @property
    def rules(self) -> Path:
        """The rules file that the server loads."""
        return self.home / ".codex" / "rules" / "default.rules"

    def environment(self) -> dict[str, str]:
        """The server's environment."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CODEX_HOME": str(self.home / ".codex"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "somebody",
            MARK: self.mark,
        }

    def state(self, policy: dict[str, Any], **more: object) -> dict[str, Any]:
        """The parameters of codex/sandbox-state/update."""
        return {"sandboxPolicy": policy, "sandboxCwd": str(self.ws), **more}


def make_box(root: Path) -> Box:
    """A box with its folders made; commits of its user have a name and a branch."""
    box = Box(root.resolve())
    for folder in (box.ws, box.out, box.rules.parent):
        folder.mkdir(parents=True)
    (box.home / ".codex" / "config.toml").write_text(CONFIG)
    (box.home / ".gitconfig").write_text(
        "[user]\nname = Somebody\nemail = somebody@example.org\n[init]\ndefaultBranch = main\n"
    )
    return box


def which(name: str) -> str:
    """The program's path as the server's shell finds it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass(frozen=True, slots=True)
class Programs:
    """The files a pairing consists of."""

    server: Path
    wrapper: Path
    helper: Path
    shell: Path


def programs(pairing: Pairing) -> Programs:
    """Find a pairing's files; skips the test where they cannot be had."""

    def role(name: str, maker: Maker, of_original: Callable[[peer.Original], Path]) -> Path:
        return of_original(_original()) if maker is ORIGINAL else _ours(name)

    helper = pairing.helper or pairing.server
    if pairing.wrapper is None and (refusal := _kernel_refusal()):
        pytest.skip(f"no kernel interception: {refusal}")
    return Programs(
        server=role("codex-exec-mcp-server", pairing.server, lambda original: original.server),
        wrapper=role(
            "codex-execve-wrapper", pairing.wrapper or OURS, lambda original: original.wrapper
        ),
        helper=role("codex-linux-sandbox", helper, lambda original: original.helper),
        shell=shell_path(pairing.shell),
    )


def server_command(pairing: Pairing) -> list[str]:
    """The command line of a pairing's server."""
    files = programs(pairing)
    command = [files.server, "--bash", files.shell, "--execve", files.wrapper]
    if pairing.server is OURS:
        # The boxes, and perhaps the tree that is tested, lie in the temporary folder.
        command += [ACCEPT, "--intercept", "wrapper" if pairing.wrapper else "kernel"]
    return [str(word) for word in command]


@functools.cache
def shell_path(name: str) -> Path:
    """The shell that a pairing names."""
    if name == "original-bash":
        return _original().bash
    if name == "system-bash":
        return Path(which("bash"))
    return patched_shell(name).resolve()  # a rebuild may exchange the link


@functools.cache
def _kernel_refusal() -> str | None:
    """Why our server has no kernel interception here; None if it has."""
    tried = subprocess.run(
        [_ours("codex-exec-mcp-server"), "--intercept", "kernel"],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    _, refused, why = tried.stderr.partition("--intercept=kernel: ")
    return why.strip() if refused else None  # a server that cannot start at all is no reason


def _ours(name: str) -> Path:
    path = DIST / name
    if not DIST.exists():
        pytest.skip(f"there is no {DIST.name}/{name}: run make build")
    assert path.exists(), f"{path} is missing: run make build"
    return path


def _original() -> peer.Original:
    found = _original_or_reason()
    if isinstance(found, str):
        pytest.skip(f"the original's binaries: {found}")
    return found


@functools.cache
def _original_or_reason() -> peer.Original | str:
    """Installed once per run; so is the failure to."""
    try:
        return peer.original()
    except peer.Unavailable as reason:
        return str(reason)


def enforce(client: Client, pairing: Pairing, box: Box, policy: dict[str, Any]) -> None:
    """Tell the server which sandbox the commands in this box have from now on."""
    state = box.state(policy, codexLinuxSandboxExe=str(programs(pairing).helper))
    assert client.request("codex/sandbox-state/update", state) == {}


class Start:
    """Starts servers for one test and ends them after it."""

    def __init__(self, box: Box, stack: ExitStack) -> None:
        self._box = box
        self._stack = stack
        self._count = 0

    def __call__(
        self,
        pairing: Pairing,
        *,
        rules: str = "",
        answer: Answer | None = accept,
        policy: dict[str, Any] | None = READ_ONLY,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        initialize: bool = True,
    ) -> Client:
        """A server in the box's workspace: initialised, and under `policy` unless that is None."""
        self._box.rules.write_text(rules)
        self._count += 1
        always = {} if pairing.asking else {"EXEC_WRAPPER_ALWAYS": "1"}
        client = Client(
            [*server_command(pairing), *options],
            env=self._box.environment() | always | dict(env or {}),
            cwd=self._box.ws,
            stderr=self._box.root / f"stderr-{self._count}",
            answer=answer,
        )
        if pairing.server is OURS:
            # The original leaves its commands' processes behind.
            self._stack.callback(self._none_left)
        self._stack.callback(client.close)
        if initialize:
            client.initialize()
            if policy is not None:
                enforce(client, pairing, self._box, policy)
        return client

    def _none_left(self) -> None:
        wait_until(
            lambda: not marked(self._box.mark),
            f"no process left by the server: {marked(self._box.mark)}",
        )
