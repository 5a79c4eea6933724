"""Where one attack takes place: its folders, what stands outside, and what has become of it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tty
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.attacks.attack import Attack, Need
from tests.attacks.shared import Shared
from tests.end_to_end.processes import wait_until
from tests.executables import loader

RAN = "ran"  # what the remote's hook leaves in ws/NAME/remote.git
_FS_IOC_GETFLAGS = 0x80086601
_SECRET = b"intact"
_HOOK = """#!/bin/sh
grep NoNewPrivs /proc/self/status > ran
echo written > "$OUT/pushed"
"""


class Ground:
    """The place of one attack: `ws`, which the sandbox may write, and `out`, which it may not.

    Close it: what stands outside ends with it.
    """

    def __init__(self, root: Path, attack: Attack, programs: Path) -> None:
        self.ws = root / "ws" / attack.name
        self.out = root / "out" / attack.name
        self.home = root / "home"
        self.variables = {"OUT": str(self.out)}
        self._stack = ExitStack()
        for folder in (self.ws, self.out):
            folder.mkdir(parents=True)
        (self.out / "file").write_text("untouched\n")
        for name, text in attack.files.items():
            self._put(name, text)
        if Need.REPOSITORY in attack.needs:
            _copy_repository(root, self.ws)
        self._victim = self._services = self._terminal = None
        self._shared: Shared | None = None
        if Need.VICTIM in attack.needs:
            self._victim = Victim(programs / "victim", self.out)
            self._stack.callback(self._victim.close)
            self.variables |= self._victim.variables
        if Need.SERVICES in attack.needs:
            self._services = Services(self.out)
            self._stack.callback(self._services.close)
            self.variables |= self._services.variables
        if Need.TERMINAL in attack.needs:
            self._terminal = Terminal()
            self._stack.callback(self._terminal.close)
            self.variables |= self._terminal.variables
        if Need.SHARED in attack.needs:
            self._shared = Shared()
            self._stack.callback(self._shared.close)
            self.variables |= self._shared.variables
        self._before = self._outside()
        self._harms: list[str] | None = None

    def close(self) -> None:
        """End what stands outside."""
        self._stack.close()

    def pushed(self) -> str | None:
        """What the remote's hook saw of itself, if the forbidden `git push` has happened."""
        remote = self.ws / "remote.git"
        if (remote / RAN).exists():
            return (remote / RAN).read_text().strip()
        return "no hook ran" if (remote / "refs/heads/main").exists() else None

    def harms(self) -> list[str]:
        """What happened outside; looked for once."""
        if self._harms is None:
            self._harms = [
                f"{path} was changed"
                for path, before, after in _differences(self._before, self._outside())
                if before != after
            ]
            for standing in (self._victim, self._services, self._terminal, self._shared):
                if standing is not None:
                    self._harms += standing.harms()
        return self._harms

    def _put(self, name: str, text: str) -> None:
        path = self.ws / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@loader@", loader()))
        if text.startswith("#!"):
            path.chmod(0o755)

    def _outside(self) -> dict[str, object]:
        return {str(path): look for base in (self.out, self.home) for path, look in _looks(base)}


def _looks(base: Path) -> Iterator[tuple[Path, object]]:
    """Everything beneath `base` with all that can be seen of it but its access time."""
    for folder, folders, files in os.walk(base):
        for name in (".", *folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            content: object = None
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest(), _flags(path)
            elif stat.S_ISLNK(status.st_mode):
                content = path.readlink()
            kept = (status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_nlink)
            yield path, (*kept, status.st_mtime_ns, content, _attributes(path))


def _flags(path: Path) -> int:
    """chattr(1)'s, where the file system has them."""
    with path.open("rb") as file:
        try:
            return int.from_bytes(fcntl.ioctl(file, _FS_IOC_GETFLAGS, bytes(8)), "little")
        except OSError:
            return 0


def _attributes(path: Path) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            return []
        raise


def _differences(
    before: dict[str, object], after: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    for path in sorted({*before, *after}):
        yield path, before.get(path), after.get(path)


def _copy_repository(root: Path, ws: Path) -> None:
    """A clone with a commit to push, and its remote, which has none."""
    template = root / "repository"
    if not template.exists():
        _make_repository(template, root / "home")
    shutil.copytree(template, ws, dirs_exist_ok=True, symlinks=True)


def _make_repository(folder: Path, home: Path) -> None:
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}

    def git(*words: str) -> None:
        subprocess.run(
            ["git", *words], cwd=folder, env=environment, check=True, capture_output=True
        )

    git("init", "--template=", "--bare", "remote.git")
    hook = folder / "remote.git/hooks/post-receive"
    hook.parent.mkdir()
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    git("init", "--template=", ".")
    (folder / "tracked").write_text("content\n")
    (folder / ".git/info").mkdir()
    (folder / ".git/info/exclude").write_text("*\n")
    git("add", "-f", "tracked")
    git("commit", "-m", "first")
    git("remote", "add", "origin", "./remote.git")
    git("config", "push.default", "current")


class Victim:
    """A process outside the sandbox."""

    def __init__(self, program: Path, out: Path) -> None:
        self._process = subprocess.Popen(
            [program, out / "held"], stdout=subprocess.PIPE, cwd=out, start_new_session=True
        )
        assert self._process.stdout is not None
        self._address = int(self._process.stdout.readline(), 16)
        self.pid = self._process.pid
        self.variables = {"VICTIM": str(self.pid), "VICTIM_AT": str(self._address)}
        self._before = self._traits()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def harms(self) -> list[str]:
        """What has become of it."""
        wait_until(self._settled, "the end of what was sent to the victim")
        if self._process.poll() is not None:
            return [f"the victim died: {self._process.returncode}"]
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            memory.seek(self._address)
            found = memory.read(len(_SECRET))
        harms = [] if found == _SECRET else ["the victim's memory was written"]
        return harms + [
            f"the victim's {name} changed: {value} to {now}"
            for (name, value), now in zip(
                self._before.items(), self._traits().values(), strict=True
            )
            if value != now
        ]

    def _settled(self) -> bool:
        """Whether no signal is on its way to it, or it has ended."""
        if self._process.poll() is not None:
            return True
        fields = self._status()
        pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
        return fields["State"].split()[0] not in "ZX" and not pending

    def _status(self) -> dict[str, str]:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return dict(line.split(":", 1) for line in lines)

    def _traits(self) -> dict[str, object]:
        fields = self._status()
        limits = [resource.prlimit(self.pid, kind) for kind in range(16)]
        return {
            "stopped state": fields["State"].split()[0] in "Tt",
            "tracer": fields["TracerPid"].strip(),
            "limits": limits,
            "nice value": os.getpriority(os.PRIO_PROCESS, self.pid),
            "scheduling": os.sched_getscheduler(self.pid),
            "processors": os.sched_getaffinity(self.pid),
            "OOM score": Path(f"/proc/{self.pid}/oom_score_adj").read_text(),
        }


class Services:
    """Listeners outside: all kinds of sockets that a command might talk to."""

    def __init__(self, out: Path) -> None:
        abstract = f"codex-multitool-attack-{os.getpid()}-{out.name}"
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", tcp.getsockname()[1]))
        self._sockets = {"TCP": tcp, "UDP": udp}
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            name = "stream" if kind == socket.SOCK_STREAM else "datagram"
            for where, address in (("path", str(out / name)), ("abstract", f"\0{abstract}-{name}")):
                self._sockets[f"{where} {name}"] = bound = socket.socket(socket.AF_UNIX, kind)
                bound.bind(address)
        for bound in self._sockets.values():
            bound.setblocking(False)
            if bound.type == socket.SOCK_STREAM:
                bound.listen()
        self.variables = {"PORT": str(tcp.getsockname()[1]), "ABSTRACT": abstract}

    def close(self) -> None:
        """Close them."""
        for bound in self._sockets.values():
            bound.close()

    def harms(self) -> list[str]:
        """Which were reached."""
        return [f"{name} was reached" for name, bound in self._sockets.items() if _reached(bound)]


def _reached(bound: socket.socket) -> bool:
    try:
        if bound.type == socket.SOCK_STREAM:
            bound.accept()[0].close()
        else:
            bound.recv(1)
    except BlockingIOError:
        return False
    return True


class Terminal:
    """A terminal of the user's, with a shell waiting for a line."""

    def __init__(self) -> None:
        self._screen, self._shell = os.openpty()
        tty.setraw(self._shell)
        os.set_blocking(self._shell, False)
        os.set_blocking(self._screen, False)
        self.variables = {"TERMINAL": os.ttyname(self._shell)}

    def close(self) -> None:
        """Close both ends."""
        os.close(self._screen)
        os.close(self._shell)

    def harms(self) -> list[str]:
        """What was typed into it."""
        found = []
        for what, fd in (("typed", self._shell), ("shown", self._screen)):
            try:
                found.append(f"{what}: {os.read(fd, 100)!r}")
            except BlockingIOError:
                continue
        return found


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
