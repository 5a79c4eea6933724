"""Build the executable: a zip archive that its own first line starts, and its names beside it.

    OUT/codex-multitool         our modules as bytecode, and an archive of what loads them
    OUT/codex-multitool.lib/    the dependencies, unpacked: shared objects do not load from a zip
    OUT/codex-exec-mcp-server, codex-execve-wrapper, codex-linux-sandbox -> codex-multitool

Run with the interpreter of the virtual environment whose versions are to be shipped. The same
inputs give the same bytes. Nothing is unpacked when the executable starts.
"""

import argparse
import compileall
import hashlib
import marshal
import os
import py_compile
import re
import runpy
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "codex_multitool"
CACHE = ROOT / "build" / "dependencies"
START = runpy.run_path(str(ROOT / "packaging" / "start.py"))
_LAYOUT = "3"  # of that folder: to be changed with what `install` leaves there

# `-IS archive` would do, but then runpy finds __main__, which imports contextlib, functools and
# importlib.util: as long again as the interpreter's own start. So the first line carries the code.
# Linux passes all after the interpreter as one argument and other kernels split it at blanks, hence
# none: execve(2), "Interpreter scripts". Behind it comes the path that was executed, our argv[0].
# First of all SIGINT (2), unless it is ignored (1), ends the process (0) as it ends others: the
# interpreter's own handler would show where it was.
BOOT = (
    "(g:=__import__('_signal'),(g.getsignal(2)==1)or(g.signal(2,0)),"
    "s:=__import__('sys'),s.argv.pop(0),"
    "s.path.append(__import__('os').path.realpath(s.argv[0])),__import__('start').main())"
)
SHEBANG_LIMIT = 255  # BINPRM_BUF_SIZE less its NUL, Linux 5.1; older kernels lack Landlock anyway

# zipfile's earliest date, so that nothing depends on when the build ran
EPOCH = (1980, 1, 1, 0, 0, 0)


class BuildError(Exception):
    """The executable cannot be built; the text says what to change."""


def first_line(interpreter: str) -> bytes:
    """The `#!` line that boots the archive it heads."""
    line = os.fsencode(f"#!{interpreter} -ISc{BOOT}")
    if any(byte in b" \t\n" for byte in os.fsencode(interpreter)):
        raise BuildError(f"{interpreter}: a #! line cannot name an interpreter with blanks in it")
    if len(line) > SHEBANG_LIMIT:
        raise BuildError(f"{interpreter}: path too long for a #! line")
    return line + b"\n"


def base_interpreter() -> str:
    """The interpreter behind the virtual environment: the executable must outlive the checkout."""
    interpreter = os.path.realpath(sys.executable)
    if Path(interpreter).is_relative_to(ROOT):
        raise BuildError(f"{interpreter}: lies in the checkout; set PYTHON to another one")
    return interpreter


def closed_to_others(interpreter: str) -> Path | None:
    """What of the path to the interpreter only its owner, or the owner's group, may pass."""
    path = Path(interpreter)
    for each in reversed([path, *path.parents]):
        if not each.stat().st_mode & stat.S_IXOTH:
            return each
    return None


def bytecode(source: bytes, name: str) -> bytes:
    """A .pyc that is never checked against its source (PEP 552)."""
    code = compile(source, name, "exec", dont_inherit=True)
    flags = (1).to_bytes(4, "little")
    return util.MAGIC_NUMBER + flags + util.source_hash(source) + marshal.dumps(code)


def our_modules(prepared: Path) -> dict[str, bytes]:
    """Our modules' files, by their path in the package, and their code as marshal(3) has it.

    prepared: holds files that take the place of those of the same name in the checkout.
    """
    codes = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        instead = prepared / name
        source = (instead if instead.exists() else path).read_bytes()
        codes[name + "c"] = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    return codes


def laid_out(codes: Mapping[str, bytes], offset: int) -> tuple[bytes, bytes]:
    """The modules' code as one piece that lies at `offset`, and its index: see start.Modules."""
    stamp = hashlib.sha256(b"".join(codes.values())).digest()[: START["STAMP_SIZE"]]
    places = {}
    for file, code in codes.items():
        size = len(stamp) + len(code)
        name = file.removesuffix(".pyc").removesuffix("/__init__").replace("/", ".")
        places[name] = (file, offset, size)
        offset += size
    return b"".join(stamp + code for code in codes.values()), marshal.dumps((stamp, places))


def archive_entries(index: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of every archive member: what the interpreter needs to run a role.

    It reads the whole directory of the archive at each start, some 5 us per member.
    """
    yield "__main__.py", b"import start\n\nstart.main()\n"  # for `python codex-multitool`
    yield "start.pyc", bytecode((ROOT / "packaging" / "start.py").read_bytes(), "start.py")
    # Behind the bytecode in zipimport's order of search: read where that does not fit.
    yield "start.py", other_version()
    yield str(START["INDEX"]), index


def other_version() -> bytes:
    """A start module for any Python 3: it tells that this one is not of the version built for."""
    built = ".".join(map(str, sys.version_info[:2]))
    text = (
        "import sys\n"
        "def main():\n"
        f"    sys.stderr.write('%s: built for CPython {built}, and %s is %d.%d: build it anew with "
        "`make build PYTHON=%s`\\n' % "
        "(sys.argv[0], sys.executable, *sys.version_info[:2], sys.executable))\n"
        "    sys.exit(125)\n"
    )
    return text.encode()


def write_archive(target: Path, head: bytes, entries: Iterator[tuple[str, bytes]]) -> None:
    """Write the executable archive behind `head`, replacing `target` at once."""
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.write(head)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for name, content in entries:
                    member = zipfile.ZipInfo(name, EPOCH)
                    member.create_system = 3  # Unix, wherever it is built
                    member.external_attr = 0o100644 << 16
                    archive.writestr(member, content)
        partial.chmod(0o755)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def requirements() -> list[str]:
    """The run-time dependencies that pyproject.toml declares."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return [str(requirement) for requirement in project["dependencies"]]


def tested_versions(wanted: list[str]) -> list[str]:
    """`name==version` of all that `wanted` pulls in here, so that what is tested is shipped."""
    versions: dict[str, str] = {}
    pending = list(wanted)
    while pending:
        requirement = pending.pop()
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()
        if name in versions or "extra ==" in requirement:
            continue
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # not for this platform; pip decides
        versions[name] = installed.version
        pending += installed.requires or []
    return sorted(f"{name}=={version}" for name, version in versions.items())


def dependencies() -> Path:
    """A folder with the dependencies as they are here, compiled; made once per set of inputs."""
    wanted = requirements()
    versions = tested_versions(wanted)
    identity = "\n".join([_LAYOUT, sys.version, sysconfig.get_platform(), *wanted, *versions, ""])
    target = CACHE / hashlib.sha256(identity.encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        folder = Path(temporary, "lib")
        install(folder, versions)
        (folder / ".inputs").write_text(identity)
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():  # another build was first
                raise
    return target


def install(folder: Path, versions: list[str]) -> None:
    """Copy what pip put into the virtual environment for `versions`, and compile it."""
    for requirement in versions:
        distribution = metadata.distribution(requirement.partition("==")[0])
        for file in distribution.files or ():
            # what lies elsewhere are commands; some packages ship bytecode for their tests
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(distribution.locate_file(file)), target)
    # Only for the types of starlark-pyo3; msgspec loads it where it finds it, and inspect with it,
    # which is an eighth of what the server does before its first answer.
    (folder / "typing_extensions.py").unlink(missing_ok=True)
    compileall.compile_dir(
        folder,
        quiet=2,  # some packages carry test files that are meant not to compile
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def place_dependencies(source: Path, target: Path) -> None:
    """Make `target` a copy of `source`, unless it is one."""
    try:
        if (target / ".inputs").read_bytes() == (source / ".inputs").read_bytes():
            return
    except OSError:
        pass  # none there yet
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copytree(source, partial)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def prepare_sandbox(prepared: Path) -> None:
    """Let the sandbox room write down what it would otherwise ask its packages at each start."""
    target = prepared / PACKAGE.name / "sandbox" / "prepared.py"
    target.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "codex_multitool.sandbox.precompute", str(target)]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise BuildError("the sandbox could not prepare its data; its messages are above")
    if not target.is_file():
        raise BuildError(f"codex_multitool.sandbox.precompute wrote no {target.name}")


def link(target: Path, name: str) -> None:
    """Make `name` beside `target` a symbolic link to it."""
    partial = target.with_name(f".{name}.{os.getpid()}")
    partial.symlink_to(target.name)
    partial.replace(target.with_name(name))


def build(out: Path) -> None:
    """Build the executable, its dependencies and its other names into `out`."""
    interpreter = base_interpreter()
    head = first_line(interpreter)
    roles = runpy.run_path(str(PACKAGE / "roles.py"))
    target = out / str(roles["CLI"])
    out.mkdir(parents=True, exist_ok=True)
    place_dependencies(dependencies(), target.with_name(f"{target.name}.lib"))
    with tempfile.TemporaryDirectory() as prepared:
        prepare_sandbox(Path(prepared))
        codes = our_modules(Path(prepared))
    code, index = laid_out(codes, len(head))
    write_archive(target, head + code, archive_entries(index))
    for role in ("MCP_SERVER", "EXECVE_WRAPPER", "LINUX_SANDBOX"):
        link(target, str(roles[role]))
    print(f"{target}: {len(codes)} modules, {target.stat().st_size // 1024} KiB, for {interpreter}")
    closed = closed_to_others(interpreter)
    if closed:
        print(
            f"zipapp: for your user only: others cannot enter {closed}, and the interpreter lies "
            "there. `make build PYTHON=/usr/bin/python3` would build for all.",
            file=sys.stderr,
        )


def main() -> int:
    """Build; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the codex-multitool executable.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="target folder")
    arguments = parser.parse_args()
    try:
        build(arguments.out.resolve())
    except BuildError as error:
        print(f"zipapp: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
