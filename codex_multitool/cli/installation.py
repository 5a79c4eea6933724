"""What doctor asks of the installation: shells, libraries, our names, where we lie."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator, Sequence

from codex_multitool import __version__, roles
from codex_multitool.cli import trials
from codex_multitool.cli.findings import MISSING, OK, Finding
from codex_multitool.cli.places import place
from codex_multitool.running.shell_proof import unasked
from codex_multitool.running.shells import patched_shell, stock_shell, unusable

_PACKAGES = {
    "click": "click",
    "landlock": "landlock",
    "msgspec": "msgspec",
    "pyseccomp": "pyseccomp",
    "python-prctl": "prctl",
    "starlark-pyo3": "starlark",
    "trio": "trio",
}
# What the sandbox reads from them was computed when the executable was built.
_FOR_THE_BUILD = {"landlock", "pyseccomp"}


_DANGER = "replace what runs unconfined"


def installation(intercepts: bool, roots: Sequence[str]) -> Iterator[Finding]:
    """All findings about it.

    intercepts: whether kernel interception works here. roots: what a sandbox may write.
    """
    yield _shell()
    yield _patched(intercepts)
    yield _python()
    for package, module in _PACKAGES.items():
        yield _package(package, module)
    yield _libseccomp()
    yield from _names()
    executable = roles.executable(roles.CLI)
    yield place("executable", executable, roots, _DANGER)
    if os.path.exists(f"{executable}.lib"):
        yield place("libraries", f"{executable}.lib", roots, _DANGER)
    yield place("interpreter", os.path.realpath(sys.executable), roots, _DANGER)


def _shell() -> Finding:
    shell = os.environ.get("CODEX_BASH_PATH") or stock_shell()
    reason = unusable(shell)
    if reason is None and (status := trials.status_of([shell, "-c", "exit 7"], {})) != 7:
        reason = f"`-c 'exit 7'` ends with {status}"
    if reason is None:
        return Finding("shell", OK, shell)
    return Finding("shell", MISSING, f"{shell}: {reason}", "no command runs", "install bash")


def _patched(intercepts: bool) -> Finding:
    name, shell = "patched shell", patched_shell()
    if shell is None or (reason := unusable(shell)) is not None:
        found = "none" if shell is None else f"{shell}: {reason}"
    else:
        why = unasked(shell)
        if why is None:
            return Finding(name, OK, shell)
        found = f"{shell}: {why}"
    if intercepts:
        return Finding(name, OK, f"{found}; not needed with kernel interception")
    follows = "no command can be judged, so the server does not start"
    return Finding(name, MISSING, found, follows, "`make shells` builds one")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", OK, f"{sys.implementation.name} {version}")


def _package(package: str, module: str) -> Finding:
    name = f"package {package}"
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = "version unknown"
    try:
        importlib.import_module(module)
    except (ImportError, OSError, RuntimeError) as error:
        if package in _FOR_THE_BUILD:
            return Finding(name, OK, f"{version}, does not load; not needed once built")
        found = f"{version}, does not load: {error}"
        return Finding(name, MISSING, found, "the server does not start", "build it again")
    return Finding(name, OK, version)


def _libseccomp() -> Finding:
    """The library that pyseccomp has loaded, if it did."""
    with open("/proc/self/maps") as maps:
        found = re.search(r"/\S*libseccomp\.so\S*", maps.read())
    return Finding("libseccomp", OK, found[0] if found else "none; not needed once built")


def _names() -> Iterator[Finding]:
    for role in (roles.MCP_SERVER, roles.EXECVE_WRAPPER, roles.LINUX_SANDBOX):
        path = roles.executable(role)
        status = trials.status_of([path, "--version"], dict(os.environ))
        if status == 0:
            yield Finding(role, OK, __version__)
        else:
            found = f"{path} --version ends with {status}"
            yield Finding(role, MISSING, found, "that role does not start", "`make build`")
