"""What doctor asks of the installation: shells, libraries, the user's files, where we lie."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import stat
import sys
from collections.abc import Iterator

from codex_multitool import __version__, roles
from codex_multitool.cli import trials
from codex_multitool.cli.findings import MISSING, OK, WEAKER, Finding
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.config.rules_files import load_policy, rules_files
from codex_multitool.escalation import wire
from codex_multitool.escalation.identity import beneath
from codex_multitool.execpolicy.rules import RulesError
from codex_multitool.running.shells import patched_shell, stock_shell, unusable
from codex_multitool.sandbox.policy import SandboxPolicy, writable_roots

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


def installation(intercepts: bool) -> Iterator[Finding]:
    """All findings about it. intercepts: whether kernel interception works here."""
    yield _shell()
    yield _patched(intercepts)
    yield _python()
    for package, module in _PACKAGES.items():
        yield _package(package, module)
    yield _libseccomp()
    yield _home()
    yield _rules()
    yield from _names()
    executable = roles.executable(roles.CLI)
    yield _place("executable", executable)
    if os.path.exists(f"{executable}.lib"):
        yield _place("libraries", f"{executable}.lib")
    yield _place("interpreter", os.path.realpath(sys.executable))


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
        # Patched, it runs /bin/false in the place of /bin/true.
        environment = dict.fromkeys((wire.WRAPPER_VARIABLE, wire.OLDER_WRAPPER_VARIABLE), _FALSE)
        if trials.status_of([shell, "-c", f"{_TRUE}; exit $?"], environment) == 1:
            return Finding(name, OK, shell)
        found = f"{shell} does not honour {wire.WRAPPER_VARIABLE}"
    if intercepts:
        return Finding(name, OK, f"{found}; not needed with kernel interception")
    follows = "no command can be judged, so the server does not start"
    return Finding(name, MISSING, found, follows, "`make shells` builds one")


_TRUE, _FALSE = "/bin/true", "/bin/false"


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


def _home() -> Finding:
    try:
        home = codex_home(os.environ)
    except ConfigError as error:
        return Finding("CODEX_HOME", MISSING, str(error), "the server does not start", "set it")
    there = "" if os.path.isdir(home) else " (no such folder: no rules, no settings)"
    return Finding("CODEX_HOME", OK, f"{home}{there}")


def _rules() -> Finding:
    try:
        files = rules_files(codex_home(os.environ))
        policy = load_policy(files)
    except (ConfigError, RulesError) as error:
        found = " ".join(str(error).split())
        return Finding("rules", MISSING, found, "the server does not start", "mend that file")
    count = sum(map(len, policy.rules.values()))
    return Finding("rules", OK, f"{count} in {len(files)} files")


def _names() -> Iterator[Finding]:
    for role in (roles.MCP_SERVER, roles.EXECVE_WRAPPER, roles.LINUX_SANDBOX):
        path = roles.executable(role)
        status = trials.status_of([path, "--version"], dict(os.environ))
        if status == 0:
            yield Finding(role, OK, __version__)
        else:
            found = f"{path} --version ends with {status}"
            yield Finding(role, MISSING, found, "that role does not start", "`make build`")


def _place(name: str, path: str) -> Finding:
    """Whether somebody else, or a command in its sandbox, could put other code in our place."""
    path = os.path.realpath(path)
    trouble = _others_write(path)
    if trouble is not None:
        follows = "other users can replace what runs unconfined"
        return Finding(name, WEAKER, trouble, follows, "chmod it, or install elsewhere")
    workspace = writable_roots(SandboxPolicy("workspace-write"), "", os.environ)
    if beneath(path, map(os.path.realpath, workspace)):
        follows = "commands in a workspace-write sandbox can replace what runs unconfined"
        return Finding(name, WEAKER, f"{path} is a temporary place", follows, "install elsewhere")
    return Finding(name, OK, path)


def _others_write(path: str) -> str | None:
    """The first of `path` and the folders above that others may change; None if there is none."""
    while True:
        status = os.stat(path)
        # In a sticky folder only the owner of a file replaces it: inode(7).
        others = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if others:
            return f"{path} is writable for everybody"
        if status.st_uid not in (0, os.getuid()):
            return f"{path} belongs to user {status.st_uid}"
        if path == "/":
            return None
        path = os.path.dirname(path)
