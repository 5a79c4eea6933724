"""What doctor asks of the machine: its kernel, and what is around us that limits it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial

from codex_multitool.cli import trials
from codex_multitool.cli.findings import MISSING, OK, WEAKER, Finding
from codex_multitool.interception.architecture import architecture
from codex_multitool.sandbox import kernel
from codex_multitool.sandbox.landlock import NEWEST_ABI
from codex_multitool.sandbox.status import ENFORCED, PARTIAL, landlock_absent

_NEWER_KERNEL = "run a newer kernel, and outside of sandboxes that hide it"
_OUTSIDE = "run it outside of the sandbox or container around it, or let that allow the call"
_WRAPPER = "only a patched shell's own execs are judged"
# What newer ABIs bring that the sandbox uses: Landlock's section of the kernel's documentation.
_WANTED_ABI = 6


def machine() -> Iterator[Finding]:
    """All findings about it, one by one."""
    yield _system()
    yield _architecture()
    yield _landlock()
    yield _errata()
    yield from _sandbox()
    yield from _notifications()
    yield _yama()
    yield from _namespaces()
    yield _surroundings()


def _system() -> Finding:
    name = os.uname()
    return Finding("kernel", OK, f"{name.sysname} {name.release}")


def _architecture() -> Finding:
    found = os.uname().machine
    if architecture(found) is not None:
        return Finding("architecture", OK, found)
    follows = "no system call filters are known for it"
    return Finding("architecture", MISSING, found, follows, "use x86_64 or aarch64")


def _landlock() -> Finding:
    name = "landlock"
    try:
        abi = kernel.landlock_create_ruleset(None, kernel.LANDLOCK_CREATE_RULESET_VERSION)
    except kernel.KernelError as error:
        why, mend = landlock_absent(error.errno)
        return Finding(name, MISSING, why, "no command runs in a sandbox", mend)
    found = f"ABI {abi} (used up to {NEWEST_ABI})"
    if abi < _WANTED_ABI:
        follows = "the sandbox's lines say what is missing"
        return Finding(name, WEAKER, found, follows, "run Linux 6.12 or newer")
    return Finding(name, OK, found)


def _errata() -> Finding:
    name = "landlock errata"
    try:
        errata = kernel.landlock_create_ruleset(None, kernel.LANDLOCK_CREATE_RULESET_ERRATA)
    except kernel.KernelError:
        return Finding(name, OK, "this kernel does not tell")
    mended = [str(number + 1) for number in range(32) if errata >> number & 1]
    return Finding(name, OK, f"mended: {', '.join(mended) or 'none'}")


def _sandbox() -> Iterator[Finding]:
    """What a process in the read-only sandbox is kept from, by what is promised and by trying."""
    try:
        answer = trials.sandbox()
    except trials.TrialError as error:
        yield Finding("sandbox", MISSING, str(error), "what holds is not known", _OUTSIDE)
        return
    if "error" in answer:
        follows = "no command can be confined"
        yield Finding("sandbox", MISSING, str(answer["error"]), follows)
        return
    done, promises = answer["done"], answer["status"]
    assert isinstance(done, list)
    assert isinstance(promises, list)
    for name, state, detail in promises:
        title = f"sandbox {name}"
        if state == ENFORCED and name in done:
            yield Finding(title, MISSING, "promised, but was not refused when tried", mend=_OUTSIDE)
        elif state == ENFORCED:
            yield Finding(title, OK, f"limited{f' ({detail})' if detail else ''}")
        else:
            grade = WEAKER if state == PARTIAL else MISSING
            yield Finding(title, grade, detail or "not limited", mend=_NEWER_KERNEL)


def _notifications() -> Iterator[Finding]:
    name = "seccomp notification"
    try:
        answer = trials.in_child(trials.notifications)
    except trials.TrialError as error:
        answer = {"errno": 0, "because": str(error)}
    assert isinstance(answer, dict)
    if "errno" in answer:
        if answer["errno"] == errno.EBUSY:
            found = "EBUSY: another program listens to this process tree already (a sandbox, WSL)"
            yield Finding("seccomp listener", MISSING, found, _WRAPPER, _OUTSIDE)
            return
        found = answer.get("because") or os.strerror(answer["errno"])
        yield Finding(name, MISSING, found, _WRAPPER, f"Linux 5.5 or newer; {_OUTSIDE}")
        return
    yield Finding("seccomp listener", OK, "no other in this process tree")
    yield Finding(name, OK, "an execve was held")
    yield _refused("seccomp continue", answer["continue"], "an execve held went on", "no exec runs")
    yield _refused("seccomp addfd", answer["addfd"], "works", "no program can be escalated")
    if answer["killable"]:
        yield Finding("seccomp WAIT_KILLABLE", OK, "works")
    else:
        follows = "signals interrupt execs that wait to be judged, which are then judged again"
        mend = "run Linux 5.19 or newer"
        yield Finding("seccomp WAIT_KILLABLE", WEAKER, "the kernel lacks it", follows, mend)
    followed = "works" if answer["sync_wake_up"] else "the kernel lacks it (Linux 6.6): slower"
    yield Finding("seccomp sync wake-up", OK, followed)
    followed = "escalated programs get their descriptors through a stand-in"
    yield _refused("pidfd_getfd", answer["pidfd_getfd"], "works", followed, WEAKER)
    yield _refused("ptrace", answer["ptrace"], "a descendant can be seized", _WRAPPER)


def _refused(name: str, refusal: int, works: str, follows: str, grade: str = MISSING) -> Finding:
    if refusal == 0:
        return Finding(name, OK, works)
    return Finding(name, grade, f"refused: {os.strerror(refusal)}", follows, _OUTSIDE)


def _yama() -> Finding:
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    if scope is None:
        return Finding("yama", OK, "not in this kernel")
    # 1 lets a process trace its descendants, which is all that is wanted: ptrace(2).
    found = f"kernel.yama.ptrace_scope = {scope}"
    if scope in ("0", "1") or (scope == "2" and os.geteuid() == 0):
        return Finding("yama", OK, found)
    mend = "sysctl kernel.yama.ptrace_scope=1"
    if scope == "3":  # Yama.rst: "this setting cannot be changed"
        mend = "set it to 1 in /etc/sysctl.d and reboot: 3 cannot be lowered while the system runs"
    return Finding("yama", MISSING, found, _WRAPPER, mend)


def _namespaces() -> Iterator[Finding]:
    for kind in ("user", "mount"):
        try:
            refusal = trials.in_child(partial(trials.namespace, kind))
        except trials.TrialError as error:
            yield Finding(f"{kind} namespace", OK, f"{error}; not needed")
            continue
        assert isinstance(refusal, int)
        found = "can be had" if refusal == 0 else f"refused: {os.strerror(refusal)}"
        yield Finding(f"{kind} namespace", OK, f"{found}; not needed")


def _surroundings() -> Finding:
    release = os.uname().release.lower()
    known = {
        "/.dockerenv": "Docker",
        "/run/.containerenv": "Podman",
        "/run/host/container-manager": "a container",
    }
    found = [name for path, name in known.items() if os.path.exists(path)]
    if "microsoft" in release:
        found.append("WSL")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        found.append("Kubernetes")
    filters = _status("Seccomp_filters")
    if filters not in (None, "0"):
        found.append(f"{filters} seccomp filters around us")
    return Finding("surroundings", OK, ", ".join(found) or "no container, no WSL")


def _status(field: str) -> str | None:
    lines = (_read("/proc/self/status") or "").splitlines()
    values = (line.partition(":")[2] for line in lines if line.startswith(f"{field}:"))
    return next((value.strip() for value in values), None)


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None
