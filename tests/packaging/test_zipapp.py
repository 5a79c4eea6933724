"""The built executable: its first line, its content, and how it starts."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from codex_multitool import __version__, roles
from tests.executables import ROOT, build, built

NAMES = (roles.CLI, roles.MCP_SERVER, roles.EXECVE_WRAPPER, roles.LINUX_SANDBOX)
FULL_ACCESS = ["--sandbox-policy-cwd", "/", "--sandbox-policy", '{"type":"danger-full-access"}']


@pytest.fixture(scope="module")
def dist() -> Path:
    return built()


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    return by_path("zipapp")


@pytest.fixture(scope="module")
def start() -> ModuleType:
    return by_path("start")


def by_path(name: str) -> ModuleType:
    # `packaging` is also the name of an installed package.
    spec = importlib.util.spec_from_file_location(f"our_{name}", ROOT / f"packaging/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def index(dist: Path) -> bytes:
    with zipfile.ZipFile(dist / roles.CLI) as archive:
        return archive.read("modules")


def run(
    *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.fspath(word) for word in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def shebang(dist: Path) -> list[str]:
    with (dist / roles.CLI).open("rb") as file:
        return os.fsdecode(file.readline()).removeprefix("#!").rstrip("\n").split(" ")


class TestContent:
    def test_first_line_is_an_interpreter_and_one_argument_without_blanks(self, dist: Path) -> None:
        assert len(shebang(dist)) == 2
        assert shebang(dist)[1].startswith("-IS")
        assert len(" ".join(shebang(dist))) + len("#!") <= 255

    def test_interpreter_is_the_one_behind_the_virtual_environment(self, dist: Path) -> None:
        assert shebang(dist)[0] == os.path.realpath(sys.executable)

    def test_archive_holds_what_loads_the_modules_uncompressed(self, dist: Path) -> None:
        with zipfile.ZipFile(dist / roles.CLI) as archive:
            members = {member.filename: member for member in archive.infolist()}
        assert set(members) == {"__main__.py", "start.pyc", "start.py", "modules"}
        assert {member.compress_type for member in members.values()} == {zipfile.ZIP_STORED}

    def test_bytecode_is_never_checked_against_a_source(self, dist: Path) -> None:
        with zipfile.ZipFile(dist / roles.CLI) as archive:
            head = archive.read("start.pyc")[:8]
        assert head == importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little")  # PEP 552

    def test_every_module_is_there_under_its_name(self, dist: Path, start: ModuleType) -> None:
        found = start.Modules(os.fspath(dist / roles.CLI), index(dist))
        for path in (ROOT / "codex_multitool").rglob("*.py"):
            file = path.relative_to(ROOT)
            package = path.name == "__init__.py"
            name = ".".join((file.parent if package else file.with_suffix("")).parts)
            spec = found.find_spec(name)
            assert spec.origin == os.fspath(dist / roles.CLI / f"{file}c")
            assert (spec.submodule_search_locations is not None) == package
            assert found.get_code(name).co_filename == os.fspath(file)
        assert found.find_spec("codex_multitool.nothing") is None
        assert found.find_spec("os") is None

    def test_module_of_an_archive_that_was_replaced_is_not_loaded(
        self, dist: Path, start: ModuleType, tmp_path: Path
    ) -> None:
        content = (dist / roles.CLI).read_bytes()
        for other in (b"", content[:-1][::-1], b"#" + content):
            (tmp_path / "tool").write_bytes(other)
            found = start.Modules(os.fspath(tmp_path / "tool"), index(dist))
            with pytest.raises(ImportError, match="was replaced since"):
                found.get_code("codex_multitool.roles")

    def test_dependencies_are_the_versions_of_the_test_environment(self, dist: Path) -> None:
        lib = os.fspath(dist / f"{roles.CLI}.lib")
        shipped = {found.name: found.version for found in metadata.distributions(path=[lib])}
        assert {"click", "msgspec", "python-prctl", "trio"} <= set(shipped)
        assert shipped == {name: metadata.version(name) for name in shipped}

    def test_other_names_are_links_to_it(self, dist: Path) -> None:
        for name in NAMES[1:]:
            assert os.readlink(dist / name) == roles.CLI

    def test_same_inputs_give_the_same_bytes(self, dist: Path, tmp_path: Path) -> None:
        build(tmp_path)
        assert (tmp_path / roles.CLI).read_bytes() == (dist / roles.CLI).read_bytes()


class TestStart:
    @pytest.mark.parametrize("name", NAMES)
    def test_name_picks_the_role(self, dist: Path, name: str) -> None:
        done = run(dist / name, "--version")
        assert (done.returncode, done.stdout) == (0, f"{name} {__version__}\n")

    def test_unknown_name_is_the_command_line(self, dist: Path) -> None:
        link = dist / "some-other-name"
        link.symlink_to(roles.CLI)
        try:
            done = run(link, "--version")
        finally:
            link.unlink()
        assert done.stdout == f"{roles.CLI} {__version__}\n"

    def test_link_in_another_folder_finds_the_dependencies(
        self, dist: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "tool").symlink_to(dist / roles.CLI)
        assert run("./tool", "--version", cwd=tmp_path).returncode == 0

    def test_folder_can_be_moved(self, dist: Path, tmp_path: Path) -> None:
        moved = tmp_path / "else where"
        shutil.copytree(dist, moved, symlinks=True)
        assert run(moved / roles.CLI, "--version").returncode == 0

    def test_interpreter_can_be_given_the_archive(self, dist: Path) -> None:
        done = run(sys.executable, "-IS", dist / roles.CLI, "--version")
        assert (done.returncode, done.stdout) == (0, f"{roles.CLI} {__version__}\n")

    def test_nothing_is_imported_from_the_working_directory_or_the_environment(
        self, dist: Path, tmp_path: Path
    ) -> None:
        for module in ("os", "click", "codex_multitool", "start", "sitecustomize"):
            (tmp_path / f"{module}.py").write_text("raise SystemExit('hijacked')\n")
        hostile = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": "os.py"}
        done = run(dist / roles.CLI, "--version", cwd=tmp_path, env=hostile)
        assert (done.returncode, done.stderr) == (0, "")

    def test_nothing_is_unpacked_or_written(self, dist: Path, tmp_path: Path) -> None:
        before = sorted(dist.rglob("*"))
        elsewhere = {
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path),
        }
        assert run(dist / roles.CLI, "--help", env=elsewhere).returncode == 0
        assert sorted(dist.rglob("*")) == before
        assert list(tmp_path.iterdir()) == []

    def test_boot_imports_neither_runpy_nor_a_dependency(self, dist: Path) -> None:
        interpreter, boot = shebang(dist)
        done = run(interpreter, "-X", "importtime", boot, dist / roles.EXECVE_WRAPPER, "--version")
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "codex_multitool.execve_wrapper" in imported
        assert not imported & {"runpy", "importlib.util", "site", "zlib", "click", "msgspec"}

    @pytest.mark.parametrize("name", [*NAMES, "another-name"])
    def test_without_its_libraries_it_says_so_in_a_line(
        self, dist: Path, tmp_path: Path, name: str
    ) -> None:
        shutil.copy(dist / roles.CLI, tmp_path / name)
        done = run(tmp_path / name, "--version")
        if name == roles.EXECVE_WRAPPER:  # it needs none of them
            assert done.returncode == 0
            return
        assert done.returncode == 125
        assert done.stderr.count("\n") == 1
        assert f"{tmp_path / name}.lib is missing" in done.stderr

    def test_failed_import_of_another_kind_is_not_blamed_on_them(
        self, dist: Path, tmp_path: Path
    ) -> None:
        shutil.copy(dist / roles.CLI, tmp_path)
        (tmp_path / f"{roles.CLI}.lib").mkdir()
        (tmp_path / f"{roles.CLI}.lib/click.py").write_text("import nothing_of_that_name\n")
        done = run(tmp_path / roles.CLI, "--version")
        assert "No module named 'nothing_of_that_name'" in done.stderr
        assert "is missing, where" not in done.stderr

    def test_another_version_of_the_interpreter_is_told(self, dist: Path, tmp_path: Path) -> None:
        # Bytecode of another version: what the interpreter looks at is its magic number.
        magic = importlib.util.MAGIC_NUMBER
        other = (int.from_bytes(magic[:2], "little") + 1).to_bytes(2, "little") + magic[2:]
        with (
            zipfile.ZipFile(dist / roles.CLI) as built_for,
            zipfile.ZipFile(tmp_path / "tool", "w") as changed,
        ):
            for member in built_for.infolist():
                content = built_for.read(member)
                if member.filename.endswith(".pyc"):
                    content = other + content[4:]
                changed.writestr(member.filename, content)
        done = run(sys.executable, "-IS", tmp_path / "tool", "--version")
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assert done.returncode == 125
        assert done.stderr.count("\n") == 1
        assert f"built for CPython {version}, and {sys.executable} is {version}" in done.stderr
        assert f"make build PYTHON={sys.executable}" in done.stderr

    @pytest.mark.parametrize("environ", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}])
    def test_environment_is_as_found(self, dist: Path, environ: dict[str, str]) -> None:
        done = run(dist / roles.LINUX_SANDBOX, *FULL_ACCESS, "--", "/usr/bin/env", env=environ)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [f"{name}={value}" for name, value in environ.items()]


class TestBuilder:
    def test_interpreter_with_a_blank_in_its_path_is_refused(self, builder: ModuleType) -> None:
        with pytest.raises(builder.BuildError, match="blanks"):
            builder.first_line("/opt/my python/bin/python3")

    def test_interpreter_with_too_long_a_path_is_refused(self, builder: ModuleType) -> None:
        with pytest.raises(builder.BuildError, match="too long"):
            builder.first_line("/" + "x" * 200)

    def test_interpreter_that_others_cannot_reach_is_noticed(self, builder: ModuleType) -> None:
        with tempfile.TemporaryDirectory(prefix="reach-", dir="/var/tmp") as folder:
            home = Path(folder)
            (home / "bin").mkdir(0o755)
            (home / "bin/python3").touch(0o755)
            interpreter = str(home / "bin/python3")
            assert builder.closed_to_others(interpreter) == home  # as mkdtemp(3) makes them
            home.chmod(0o755)
            assert builder.closed_to_others(interpreter) is None
            (home / "bin/python3").chmod(0o744)
            assert builder.closed_to_others(interpreter) == home / "bin/python3"

    def test_dependencies_are_placed_once_per_set_of_inputs(
        self, builder: ModuleType, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        for text in ("one", "two"):
            source.mkdir(exist_ok=True)
            (source / ".inputs").write_text(text)
            (source / text).touch()
            builder.place_dependencies(source, target)
            assert (target / text).exists()
        (source / "three").touch()
        builder.place_dependencies(source, target)
        assert not (target / "three").exists()

    def test_failure_of_the_build_leaves_no_half_archive(
        self, builder: ModuleType, tmp_path: Path
    ) -> None:
        def broken() -> Iterator[tuple[str, bytes]]:
            yield "a", b"1"
            raise builder.BuildError("reason")

        target = tmp_path / "tool"
        target.write_text("old")
        with pytest.raises(builder.BuildError):
            builder.write_archive(target, b"#!/bin/true\n", broken())
        assert list(tmp_path.iterdir()) == [target]
        assert target.read_text() == "old"

    def test_list_for_bazel_names_all_that_is_shipped(self, builder: ModuleType) -> None:
        listed = (ROOT / "packaging/requirements.txt").read_text().splitlines()[1:]
        names = [line.partition("==")[0] for line in listed]
        shipped = builder.tested_versions(builder.requirements())
        assert names == [line.partition("==")[0] for line in shipped]
