"""Who may import whom: what a role loads at start, what a pure module may touch, who knows whom."""

import ast
import functools
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from codex_multitool import roles
from tests.executables import built
from tests.source_tree import (
    PACKAGE,
    ROOT,
    bazel_targets,
    import_table,
    imports,
    marked,
    modules,
    syntax,
)

KNOWN = modules()

# What a role never loads, and why. Prefixes of dotted names.
HEAVY = {
    "asyncio": "50 ms; trio is the loop where there is one",
    "importlib.metadata": "15 ms; the version stands in __init__.py",
    "landlock": "20 ms; its constants are precomputed",
    "pyseccomp": "18 ms, and it runs ldconfig; the filters are precomputed",
    "runpy": "7 ms; the first line of the executable starts without it",
    "site": "reads the user's folders",
}
SMALL = {
    "argparse": "6 ms; two options are read by hand",
    "click": "22 ms; the same",
    "dataclasses": "6 ms; it drags in inspect",
    "logging": "5 ms; the role prints one line",
    "msgspec": "23 ms",
    "starlark": "rules are the server's and the command line's",
    "subprocess": "5 ms; these roles exec",
    "threading": "a role that restricts itself has one thread",
    "trio": "60 ms",
    "typing": "4 ms",
}
DENIED = {
    roles.EXECVE_WRAPPER: {
        **HEAVY,
        **SMALL,
        "ctypes": "it needs no raw system call",
        "_prctl": "no extension module: it must start where they cannot load",
        "codex_multitool.sandbox": "another room",
        "enum": "2 ms",
        "json": "4 ms; json_text reads what the server answers",
        "re": "2 ms",
        "selectors": "2 ms, with socket; _socket is all that is needed",
        "struct": "an extension module of its own, for four bytes",
    },
    roles.LINUX_SANDBOX: {
        **HEAVY,
        **SMALL,
        "enum": "2 ms",
        "json": "4 ms; json_text reads the policy",
        "re": "2 ms",
        "socket": "4 ms, and nothing of it is used",
    },
    roles.MCP_SERVER: HEAVY,
    roles.CLI: {
        **HEAVY,
        "msgspec": "23 ms; no subcommand needs it to print its help",
        "starlark": "one subcommand's",
        "trio": "60 ms; the command line waits for nothing",
    },
}

# What no process of a plain `exec` loads: all of that would come before its command.
EXEC_DENIED = {
    **HEAVY,
    "click": "22 ms; plain command lines are read by hand",
    "dataclasses": "6 ms; it drags in inspect, and each takes as long as five named tuples",
    "hashlib": "2 ms; it loads OpenSSL",
    "logging": "5 ms; a line on stderr is all",
    "msgspec": "23 ms",
    "starlark": "there are no rules",
    "subprocess": "5 ms",
    "tempfile": "4 ms",
    "trio": "60 ms; there is a plain loop",
}


class TestStartUp:
    """Each role is started for real, by the first line of the built executable."""

    def start(self, role: str, home: Path, *words: str) -> set[str]:
        executable = built() / role
        interpreter, boot = executable.read_bytes().split(b"\n", 1)[0][2:].split(b" ", 1)
        policy = ["--sandbox-policy-cwd", "/", "--sandbox-policy", '{"type":"workspace-write"}']
        arguments = {
            roles.EXECVE_WRAPPER: ["--version"],
            roles.LINUX_SANDBOX: [*policy, "--", "/bin/true"],
            roles.MCP_SERVER: [],
            roles.CLI: ["--help"],
        }
        done = subprocess.run(
            [interpreter, "-X", "importtime", boot, executable, *(words or arguments[role])],
            env={**os.environ, "CODEX_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return {
            line.rpartition("|")[2].strip()
            for line in done.stderr.splitlines()
            if line.startswith("import time:")
        }

    @pytest.mark.parametrize("role", DENIED)
    def test_role_loads_nothing_it_should_not(self, role: str, tmp_path: Path) -> None:
        loaded = self.start(role, tmp_path)
        assert f"{PACKAGE}.roles" in loaded
        unwanted = {
            f"{name}: {reason}"
            for denied, reason in DENIED[role].items()
            for name in loaded
            if name == denied or name.startswith(f"{denied}.")
        }
        assert not unwanted

    def test_exec_and_all_below_it_load_little(self, tmp_path: Path) -> None:
        loaded = self.start(roles.CLI, tmp_path, "exec", "true")
        assert f"{PACKAGE}.keeper.forking" in loaded
        assert not loaded & EXEC_DENIED.keys()

    def test_wrapper_loads_three_modules_of_ours(self, tmp_path: Path) -> None:
        loaded = self.start(roles.EXECVE_WRAPPER, tmp_path)
        ours = {name for name in loaded if name.startswith(PACKAGE)} - {PACKAGE}
        assert ours == {
            f"{PACKAGE}.roles",
            f"{PACKAGE}.execve_wrapper",
            f"{PACKAGE}.escalation",
            f"{PACKAGE}.escalation.wire",
            f"{PACKAGE}.json_text",
        }


# Everything a pure module may not import; what else `os` has than names and paths it may not call.
IMPURE = {
    "asyncio", "ctypes", "fcntl", "glob", "io", "logging", "mmap", "pathlib", "platform", "prctl",
    "random", "resource", "secrets", "select", "selectors", "shutil", "socket",
    "subprocess", "tempfile", "threading", "time", "trio", "uuid", "_prctl",
}  # fmt: skip
OS_NAMES = {"fsdecode", "fsencode", "fspath", "path"}
SIGNAL_NAMES = re.compile("SIG[A-Z0-9]+|Signals|strsignal")
PATH_NAMES = {"basename", "commonpath", "dirname", "isabs", "join", "normpath", "relpath", "split"}
CALLS = {"open", "print", "input", "exec", "eval"}


def impurities(tree: ast.AST) -> Iterator[str]:
    """What a pure module may not do and this one does."""
    for name in imports(tree, ()):
        if name.partition(".")[0] in IMPURE:
            yield f"imports {name}"
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=attr) if attr not in OS_NAMES:
                yield f"os.{attr}"
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=attr
            ) if attr not in PATH_NAMES:
                yield f"os.path.{attr}"
            case ast.ImportFrom(module="os", names=names):
                yield from (f"os.{it.name}" for it in names if it.name not in OS_NAMES)
            case ast.ImportFrom(module="os.path", names=names):
                yield from (f"os.path.{it.name}" for it in names if it.name not in PATH_NAMES)
            case ast.Attribute(value=ast.Name(id="signal"), attr=attr) if not (
                SIGNAL_NAMES.fullmatch(attr)
            ):
                yield f"signal.{attr}"
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"calls {name}"
            case _:
                pass


class TestPurity:
    @pytest.mark.parametrize("name", sorted(marked("pure")))
    def test_pure_module_does_no_io(self, name: str) -> None:
        assert set(impurities(syntax(KNOWN[name]))) == set()

    @pytest.mark.parametrize(
        "text",
        [
            "import time",
            "from time import monotonic",
            "import os\nos.environ['x']",
            "from os import getcwd",
            "import os\nos.path.exists('x')",
            "from os.path import realpath",
            "import signal\nsignal.alarm(1)",
            "open('x')",
        ],
    )
    def test_the_check_sees_what_it_is_for(self, text: str) -> None:
        assert set(impurities(ast.parse(text)))


# Whom only its own folder and roles.py may import: a role is exec'ed, the program is started.
CLOSED = [
    f"{PACKAGE}.__main__",
    f"{PACKAGE}.cli",
    f"{PACKAGE}.execve_wrapper",
    f"{PACKAGE}.mcp_server",
    f"{PACKAGE}.sandbox.main",
]
# What only these modules import.
RESERVED = {
    "ctypes": marked("LEAF"),
    "click": {
        *(name for name in KNOWN if name.startswith(f"{PACKAGE}.cli.")),
        f"{PACKAGE}.mcp_server.command_line",
        f"{PACKAGE}.running.usage",
    },
    "subprocess": {
        f"{PACKAGE}.cli.mcp_config",  # asks a client for its version
    },
    "threading": set(),
    "asyncio": set(),
}


def ours(name: str) -> set[str]:
    """The modules of the package that module `name` imports."""
    return {found for found in imports(syntax(KNOWN[name]), KNOWN) if found in KNOWN}


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")


class TestWalls:
    @pytest.mark.parametrize("closed", CLOSED)
    def test_role_is_imported_by_nobody_but_the_table(self, closed: str) -> None:
        importers = {
            name
            for name in KNOWN
            if name != f"{PACKAGE}.roles" and not within(name, closed)
            if any(within(found, closed) for found in ours(name))
        }
        assert importers == set()

    @pytest.mark.parametrize("leaf", sorted(marked("LEAF")))
    def test_leaf_imports_leaves_and_pure_modules_of_its_room(self, leaf: str) -> None:
        room = leaf.rpartition(".")[0]
        allowed = {name for name in marked("LEAF") | marked("pure") if within(name, room)}
        assert ours(leaf) <= allowed

    @pytest.mark.parametrize("pure", sorted(marked("pure")))
    def test_pure_module_imports_pure_modules(self, pure: str) -> None:
        assert ours(pure) <= marked("pure")

    @pytest.mark.parametrize("reserved", RESERVED)
    def test_module_is_left_to_those_who_need_it(self, reserved: str) -> None:
        users = {
            name
            for name, path in KNOWN.items()
            if any(within(found, reserved) for found in imports(syntax(path), KNOWN))
        }
        assert users <= RESERVED[reserved]


class TestTable:
    """BUILD.bazel, docs/architecture.md and the modules state the same dependencies."""

    targets = bazel_targets()

    def test_every_file_belongs_to_one_target(self) -> None:
        files = [source for target in self.targets.values() for source in target.sources]
        assert sorted(files) == sorted(str(path.relative_to(ROOT)) for path in KNOWN.values())

    @pytest.mark.parametrize("name", targets)
    def test_build_file_has_the_imports_of_the_modules(self, name: str) -> None:
        assert self.targets[name].deps == self.actual(name)

    def test_page_has_the_same_table(self) -> None:
        pypi = {
            requirement_name(text).replace("-", "_"): requirement_name(text)
            for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
                "dependencies"
            ]
        }
        stated = {
            target.name: {
                pypi[dep.removeprefix("@pypi//")] if dep.startswith("@") else dep.removeprefix(":")
                for dep in target.deps
            }
            for target in self.targets.values()
        }
        assert import_table() == stated

    def test_targets_form_no_cycle(self) -> None:
        graph = {
            name: {dep[1:] for dep in target.deps if dep.startswith(":")}
            for name, target in self.targets.items()
        }
        assert set(graphlib.TopologicalSorter(graph).static_order()) == set(graph)

    def actual(self, name: str) -> set[str]:
        """The deps a target needs: other targets, and PyPI packages as Bazel names them."""
        owners = {
            source: target.name for target in self.targets.values() for source in target.sources
        }
        deps = set()
        for source in self.targets[name].sources:
            tree = syntax(ROOT / source)
            if source == f"{PACKAGE}/roles.py":
                # What it imports when called is for the program to bring along.
                tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef)]
            found = set(imports(tree, KNOWN))
            if source == f"{PACKAGE}/__main__.py":
                found |= ours(f"{PACKAGE}.roles")
            for module in found:
                if module in KNOWN:
                    deps.add(f":{owners[str(KNOWN[module].relative_to(ROOT))]}")
                elif module.partition(".")[0] not in sys.stdlib_module_names:
                    deps.add(pypi_label(module.partition(".")[0]))
        return deps - {f":{name}"}


@functools.cache
def pypi_label(module: str) -> str:
    """The Bazel label of the distribution that brings a top-level module."""
    (distribution,) = set(metadata.packages_distributions()[module])
    return f"@pypi//{distribution.lower().replace('-', '_')}"


def requirement_name(requirement: str) -> str:
    """The name in a requirement such as `trio>=0.27`."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
