"""Who is attacked: our server in either mode, the original, or a shell without any protection.

All run the same scripts, under the same rules, with the same programs on PATH.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attacks.attack import Attack, Need, Outcome, Sandbox
from tests.attacks.ground import Ground, end
from tests.end_to_end.client import (
    Answer,
    Client,
    Json,
    Question,
    RpcError,
    ToolError,
    accept,
    decline,
)
from tests.end_to_end.processes import MARK, kill_marked, marked
from tests.end_to_end.rig import DIST
from tests.executables import find_patched_shell

RULES = """
prefix_rule(pattern=["git", "push"], decision="forbidden", justification="nothing leaves")
prefix_rule(pattern=["strict"], decision="forbidden")
prefix_rule(pattern=["git", ["add", "commit", "diff", "fetch", "log", "status", "checkout"]])
prefix_rule(
    pattern=[["ls", "deploy", "report", "check", "bundle", "sign", "with-interpreter", "relative",
              "linked", "publish", "warn"]]
)
prefix_rule(pattern=[["iconv", "less"]])
prefix_rule(pattern=["tar", "-cf", "a"])
prefix_rule(pattern=[["openssl", "java"], ["version", "-version"]])
"""
# Trusted programs, each in another language.
TRUSTED = {
    "deploy": "#!/bin/bash\nls >/dev/null\ndate >/dev/null\necho deployed\n",
    "report": "#!{python}\nimport json, csv\nprint('reported')\n",
    "check": "#!/usr/bin/perl\nuse strict; use File::Spec;\nprint qq(checked\\n);\n",
    "bundle": "#!/usr/bin/env node\nconsole.log('bundled')\n",
    # By what variable a program of the user's own lets itself be led nobody can know.
    "publish": "#!/bin/sh\n${{PUBLISH_WITH:-true}}\n"
    '[ "$PUBLISH_SAFELY" ] || sh ./e\n[ -z "$publishDefaults" ] || . "$publishDefaults"\n',
    "warn": "#!/bin/sh\nfor n in 0 1 2 3; do (echo warned >/dev/fd/$n); done\n",
    "with-interpreter": "#!{root}/ws/interpreter-in-the-workspace/run\n",
    "relative": "#!./run\n",
}
_BY_PATH = (*TRUSTED, "sign")
# The attacks' own variables reach commands, and what attacks bring programs outside to run.
CONFIG = """
[shell_environment_policy]
inherit = "all"
ignore_default_excludes = true

[codex_multitool]
keep_environment = ["OUT"]
"""
_PATH = "/usr/local/bin:/usr/bin:/bin"
_WORKSPACE = {
    "type": "workspace-write",
    "exclude_slash_tmp": True,
    "exclude_tmpdir_env_var": True,
}
_POLICIES: dict[Sandbox, Json] = {
    Sandbox.WORKSPACE: _WORKSPACE,
    Sandbox.ONLINE: {**_WORKSPACE, "network_access": True},
    Sandbox.READ_ONLY: {"type": "read-only"},
    Sandbox.NONE: {"type": "danger-full-access"},
}


@dataclass(frozen=True, slots=True)
class Report:
    """What was told of an attack."""

    output: str
    decisions: tuple[Json, ...] = ()
    notes: tuple[str, ...] = ()


class Target:
    """A place with a home, a workspace, a folder outside it and trusted programs."""

    def __init__(self, root: Path, programs: Path, rules: str = RULES) -> None:
        self.root = root
        self.programs = programs
        self.mark = uuid.uuid4().hex
        for name in ("ws", "out", "bin", "home/.codex/rules"):
            (root / name).mkdir(parents=True)
        if os.geteuid() != 0:  # else they would be no more trusted than all of the user's files
            rules += "".join(f'prefix_rule(pattern=["{root}/bin/{it}"])\n' for it in _BY_PATH)
        (root / "home/.codex/rules/default.rules").write_text(rules)
        (root / "home/.codex/config.toml").write_text(CONFIG)
        (root / "home/.gitconfig").write_text(
            "[user]\nname = S\nemail = s@example.org\n[init]\ndefaultBranch = main\n"
            "[gpg]\nprogram = false\n"
        )
        for name, text in TRUSTED.items():
            (root / "bin" / name).write_text(text.format(python=_python(), root=root))
            (root / "bin" / name).chmod(0o755)
        shutil.copy(programs / "sign", root / "bin")
        # Links of the user's that lead into the workspace.
        (root / "bin/ws").symlink_to(root / "ws")
        (root / "bin/linked").symlink_to(root / "ws/link-outside-into-the-workspace/target")

    def environment(self) -> dict[str, str]:
        """What the server, or the unprotected shell, runs with."""
        home = self.root / "home"
        return {
            "PATH": f"{self.root / 'bin'}:{_PATH}",
            "HOME": str(home),
            "CODEX_HOME": str(home / ".codex"),
            "XDG_CACHE_HOME": str(self.root / "cache"),  # what the server leaves there is no harm
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "somebody",
            "EDITOR": "true",
            "PUBLISH_SAFELY": "1",
            "PROGRAMS": str(self.programs),
            "PYTHON": _python(),
            "BIN": str(self.root / "bin"),
            "OURS": str(DIST),
            "PATCHED": find_patched_shell("bash")[0],
            MARK: self.mark,
        }

    def ground(self, attack: Attack) -> Ground:
        """Set the attack up."""
        return Ground(self.root, attack, self.programs)

    def run(self, attack: Attack, ground: Ground) -> Report:
        """Let the attack happen."""
        raise NotImplementedError

    def close(self) -> None:
        """End everything."""
        kill_marked(self.mark)


class Bare(Target):
    """A shell with nothing around it: shows that an attack would do its harm."""

    def run(self, attack: Attack, ground: Ground) -> Report:
        """Let the attack happen."""
        process = subprocess.Popen(
            ["/bin/bash", "-c", script(attack, ground)],
            cwd=ground.ws,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=attack.seconds)
        except subprocess.TimeoutExpired:
            end(process)
            output, _ = process.communicate()
        return Report(output.decode(errors="replace"))


class Served(Target):
    """A server and its client. command: the server's, shell and wrapper included."""

    def __init__(
        self,
        root: Path,
        programs: Path,
        command: list[str],
        *,
        helper: Path | None = None,
        rules: str = RULES,
        answer: Answer = accept,
    ) -> None:
        super().__init__(root, programs, rules)
        self._command = command
        self._helper = helper
        self._answer = answer
        self._agrees = True
        self._count = 0
        self._policy: Sandbox | None = None
        self.client = self._start()

    def _start(self) -> Client:
        self._count += 1
        client = Client(
            self._command,
            env=self.environment(),
            cwd=self.root,
            stderr=self.root / f"stderr-{self._count}",
            answer=self._reply,
        )
        client.initialize()
        self._policy = None
        return client

    def _reply(self, question: Question) -> Json | None:
        return (self._answer if self._agrees else decline)(question)

    def restart(self) -> None:
        """Begin anew with a server that has seen nothing."""
        self.client.process.kill()
        kill_marked(self.mark)
        self.client.wait()
        self.client = self._start()

    def run(self, attack: Attack, ground: Ground) -> Report:
        """Let the attack happen."""
        self.enforce(attack.sandbox)
        self._agrees = attack.agrees
        call = self.client.begin_shell(
            script(attack, ground), workdir=str(ground.ws), timeout_ms=int(attack.seconds * 1000)
        )
        try:
            result = call.shell_result(attack.seconds + 20)
        except (RpcError, ToolError) as error:
            return Report(str(error))
        told = result.structured or {}
        return Report(result.output, tuple(told.get("decisions", ())), tuple(told.get("notes", ())))

    def enforce(self, policy: Sandbox) -> None:
        """Tell the server which sandbox commands have from now on."""
        if policy is not self._policy:
            state: dict[str, Any] = {
                "sandboxPolicy": _POLICIES[policy],
                "sandboxCwd": str(self.root / "ws"),
            }
            if self._helper is not None:
                state["codexLinuxSandboxExe"] = str(self._helper)
            assert self.client.request("codex/sandbox-state/update", state) == {}
            self._policy = policy

    def own(self) -> frozenset[int]:
        """The server and what it keeps ready."""
        names = ("codex-zygote", "codex-keeper", "codex-spawner")
        own = {self.client.process.pid}
        for process in marked(self.mark):
            try:
                name = Path(f"/proc/{process.pid}/comm").read_text().strip()
            except OSError:
                continue  # it has ended
            if name in names:
                own.add(process.pid)
        return frozenset(own)

    def close(self) -> None:
        """End the server, and what it may have left."""
        self.client.close()
        super().close()


def script(attack: Attack, ground: Ground) -> str:
    """The attack's script with the variables it refers to."""
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in ground.variables.items()
    )
    return exports + attack.script


def failures(outcome: Outcome, report: Report, ground: Ground) -> list[str]:
    """What is not as `outcome` wants it."""
    found = ground.harms()
    pushed = ground.pushed()
    if pushed is not None and not outcome.inside:
        found.append(f"the forbidden program ran: {pushed}")
    if pushed is not None and not pushed.endswith(("1", "no hook ran")):
        found.append(f"the forbidden program ran outside the sandbox: {pushed}")
    if pushed is None and outcome.inside:
        found.append("it did not even do what cannot be stopped")
    if outcome.decision is not None:
        kind, reason = outcome.decision
        if not any(
            told["decision"] == kind and re.search(reason, told["reason"])
            for told in report.decisions
        ):
            found.append(f"no decision {kind!r} with {reason!r} was told")
    if outcome.note is not None and not any(re.search(outcome.note, n) for n in report.notes):
        found.append(f"no note with {outcome.note!r}")
    if outcome.output is not None and not re.search(outcome.output, report.output, re.MULTILINE):
        found.append(f"{outcome.output!r} was not printed")
    return found


def succeeded(ground: Ground) -> bool:
    """Whether the attack has done its harm."""
    return bool(ground.harms()) or ground.pushed() is not None


def _python() -> str:
    """The interpreter itself: what a virtual environment has is a link to it."""
    return os.path.realpath(sys.executable)


def needed(attack: Attack) -> str | None:
    """What the attack needs and this machine has not."""
    for name in attack.programs:
        if shutil.which(name, path=_PATH) is None:
            return f"{name} is not installed"
    lacks = (lack() for need, lack in _LACKS.items() if need in attack.needs)
    return next(filter(None, lacks), None)


def _no_handles() -> str | None:
    libc = ctypes.CDLL(None, use_errno=True)
    handle, mount = ctypes.create_string_buffer(136), ctypes.c_int()
    handle[0] = b"\x80"  # handle_bytes, open_by_handle_at(2)
    folder = os.fsencode(tempfile.gettempdir())
    if libc.name_to_handle_at(-100, folder, handle, ctypes.byref(mount), 0) == 0:
        return None
    return f"no file has a handle in {folder.decode()}: {os.strerror(ctypes.get_errno())}"


def _no_control_groups() -> str | None:
    try:
        writable = not os.statvfs("/sys/fs/cgroup").f_flag & os.ST_RDONLY
    except OSError as error:
        return str(error)
    return None if writable else "/sys/fs/cgroup is read-only"


def _no_own_root() -> str | None:
    # A process that joins its own mount namespace anew gets the root directory of that, setns(2).
    code = "import ctypes, os, sys; here = os.stat('/'); fd = os.open('/proc/self/ns/mnt', 0)"
    code += "; ctypes.CDLL(None).setns(fd, 0); sys.exit(not os.path.samestat(here, os.stat('/')))"
    joined = subprocess.run([sys.executable, "-IS", "-c", code], check=False)
    return "the tests run behind a chroot(2), which setns(2) leaves" if joined.returncode else None


def _no_patched_shell() -> str | None:
    path, why = find_patched_shell("bash")
    return None if path else why


_LACKS: dict[Need, Callable[[], str | None]] = {
    Need.PATCHED: _no_patched_shell,
    Need.HANDLES: _no_handles,
    Need.CONTROL_GROUPS: _no_control_groups,
    Need.OWN_ROOT: _no_own_root,
}
