"""The source tree as data: its modules, what they import, and what is written about both."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "codex_multitool"


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def syntax(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


def imports(tree: ast.AST, known: Collection[str]) -> Iterator[str]:
    """Dotted names of the modules a tree imports, wherever the statement stands.

    `from a import b` is the module a.b where that is among `known`, and a otherwise.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0, "a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


@dataclass(frozen=True)
class Target:
    """A py_library or py_binary of BUILD.bazel."""

    name: str
    sources: frozenset[str]
    deps: frozenset[str]  # ":target" as written, and PyPI packages as "@pypi//name"


def bazel_targets() -> dict[str, Target]:
    """The targets of BUILD.bazel, which is Starlark and here also Python."""
    found = {}
    for statement in syntax(ROOT / "BUILD.bazel").body:
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        call = statement.value
        if not isinstance(call.func, ast.Name) or not call.func.id.startswith("py_"):
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        name = ast.literal_eval(given["name"])
        deps = ast.literal_eval(given["deps"]) if "deps" in given else []
        found[name] = Target(name, frozenset(_sources(given["srcs"])), frozenset(deps))
    return found


def _sources(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.List):
        yield from ast.literal_eval(node)
        return
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    assert node.func.id == "glob"
    excluded = [
        pattern
        for keyword in node.keywords
        if keyword.arg == "exclude"
        for pattern in ast.literal_eval(keyword.value)
    ]
    for pattern in ast.literal_eval(node.args[0]):
        for path in ROOT.glob(pattern):
            if not any(path.match(other) for other in excluded):
                yield path.relative_to(ROOT).as_posix()


def rooms_page() -> dict[str, str]:
    """What docs/architecture.md says of each file of the package, by its path in the checkout."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    block = page.partition("\n## The rooms\n")[2].partition("```\n")[2].partition("```")[0]
    described: dict[str, str] = {}
    folders: list[str] = []
    for line in block.splitlines():
        indent, words = len(line) - len(line.lstrip()), line.split()
        if not words:
            continue
        first, text = words[0], " ".join(words[1:])
        if first.endswith("/"):
            folders[indent // 2 :] = [first]
        elif first.endswith(".py"):
            folders[indent // 2 :] = []
            described["".join(folders) + first] = text
        elif described:
            last = next(reversed(described))
            described[last] += " " + " ".join(words)
    return described


def marked(mark: str) -> set[str]:
    """The modules that docs/architecture.md marks as `pure` or `LEAF`, by dotted name."""
    return {
        path.removesuffix(".py").replace("/", ".")
        for path, text in rooms_page().items()
        if mark in text.replace(":", " ").replace(".", " ").split()
    }


def import_table() -> dict[str, set[str]]:
    """The table of docs/architecture.md: target to its dependencies, ours and from PyPI."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("\n## Who may import whom\n")[2]
    block = section.partition("```\n")[2].partition("```")[0]
    table: dict[str, set[str]] = {}
    for line in block.splitlines():
        name, arrow, deps = line.rpartition("→")
        # A line without an arrow continues the one before.
        row = table.setdefault(name.strip(), set()) if arrow else table[next(reversed(table))]
        row.update(deps.replace("|", " ").split())
    return table
