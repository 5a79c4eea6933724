"""The build script of the patched shells: where the sources come from, and when it builds."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.packaging import patched_shell

SHELLS = patched_shell.BUILDER.parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SHELLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


debian_sources = load("debian_sources")
build = load("build")

DEB822 = """\
# a comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
# another
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian.gpg

Enabled: no
Types: deb deb-src
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: https://third-party.example/node
Suites: nodistro
Components: main
"""

ONE_LINE = """\
# deb http://commented.example/ubuntu noble main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://m.example/ubuntu/ noble main universe
deb http://mirror.example/ubuntu noble-security main # a comment
deb-src http://mirror.example/ubuntu noble-security main
deb https://packages.example/apt noble-extra main
deb http://ppa.example/ noble stable
deb http://flat.example/ ./
"""


def fields(entry: object) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in str(entry).splitlines() if not line[0].isspace())


def write_configuration(apt: Path, *, deb822: str = "", one_line: str = "") -> Path:
    (apt / "sources.list.d").mkdir(parents=True)
    (apt / "sources.list").write_text(one_line)
    (apt / "sources.list.d" / "debian.sources").write_text(deb822)
    (apt / "sources.list.d" / "off.sources.disabled").write_text("Types: deb\n")
    return apt


def test_deb822_sources_become_source_entries(tmp_path: Path) -> None:
    apt = write_configuration(tmp_path / "apt", deb822=DEB822)
    entries = debian_sources.configured_entries(apt)
    first, second = debian_sources.source_entries(entries, "bookworm", None)
    assert str(first) == (
        "Suites: bookworm bookworm-updates\n"
        "Types: deb-src\n"
        "URIs: http://mirror.example/debian\n"
        "Components: main contrib\n"
        "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    assert fields(second)["Suites"] == "bookworm-security"
    assert fields(second)["Signed-By"] == "/usr/share/keyrings/debian.gpg"


def test_one_line_sources_become_source_entries(tmp_path: Path) -> None:
    apt = write_configuration(tmp_path / "apt", one_line=ONE_LINE)
    entries = debian_sources.configured_entries(apt)
    assert [fields(entry) for entry in debian_sources.source_entries(entries, "noble", None)] == [
        {
            "Types": "deb-src",
            "URIs": "http://m.example/ubuntu/",
            "Suites": "noble",
            "Components": "main universe",
            "Signed-By": "/usr/share/keyrings/a.gpg",
        },
        {
            "Types": "deb-src",
            "URIs": "http://mirror.example/ubuntu",
            "Suites": "noble-security",
            "Components": "main",
        },
    ]


def test_another_suite_comes_from_the_same_archive(tmp_path: Path) -> None:
    apt = write_configuration(tmp_path / "apt", deb822=DEB822)
    entries = debian_sources.configured_entries(apt)
    (entry,) = debian_sources.source_entries(entries, "bookworm", "sid")
    assert (fields(entry)["Suites"], fields(entry)["URIs"]) == (
        "sid",
        "http://mirror.example/debian",
    )


@pytest.mark.parametrize(
    ("shell", "version", "patch"),
    [
        ("bash", "5.1", "bash-5.1"),
        ("bash", "5.2.15", "bash-5.2"),
        ("bash", "5.3", "bash-5.3"),
        ("zsh", "5.9", "zsh-5.9"),
        ("zsh", "5.9.2", "zsh-5.9.2"),
    ],
)
def test_the_patch_follows_the_version(shell: str, version: str, patch: str) -> None:
    assert build.patch_for(build.RECIPES[shell], version).stem == patch


def test_a_version_without_a_patch_is_named() -> None:
    with pytest.raises(build.BuildError, match=r"no patch fits bash 4\.4\.18; there is bash-5\.1,"):
        build.patch_for(build.RECIPES["bash"], "4.4.18")


# --- with apt, from an archive in a folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for tool in ("apt-get", "dpkg-source", "dpkg-scansources"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not here")
    folder = tmp_path / "archive"
    for version in ("5.2.9", "5.2.88"):
        control = tmp_path / f"bash-{version}" / "debian"
        control.mkdir(parents=True)
        (control / "changelog").write_text(
            f"bash ({version}) unstable; urgency=low\n\n  * It.\n\n"
            " -- Nobody <nobody@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n"
        )
        (control / "control").write_text(
            "Source: bash\nMaintainer: Nobody <nobody@example.org>\n\n"
            "Package: bash\nArchitecture: any\nDescription: it\n"
        )
        (control.parent / "shell.c").write_text("int main(void) { return 0; }\n")
        folder.mkdir(exist_ok=True)
        command = ["dpkg-source", "--format=3.0 (native)", "-b", str(control.parent)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    index = subprocess.run(["dpkg-scansources", "."], cwd=folder, check=True, capture_output=True)
    (folder / "Sources").write_bytes(index.stdout)
    return folder


def sources_of(archive: Path) -> str:
    return f"Types: deb-src\nURIs: file:{archive}\nSuites: ./\nTrusted: yes\n"


def test_the_newest_source_package_is_fetched(archive: Path, tmp_path: Path) -> None:
    for _ in range(2):  # once more with everything there already
        package = debian_sources.fetch("bash", sources_of(archive), tmp_path / "apt")
        assert (package.dsc.name, package.upstream) == ("bash_5.2.88.dsc", "5.2.88")
        assert package.dsc.is_file()


def test_an_absent_source_package_is_an_error(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(debian_sources.SourceError, match="apt offers no source package zsh"):
        debian_sources.fetch("zsh", sources_of(archive), tmp_path / "apt")


def test_a_file_that_the_mirror_lacks_is_told_as_that(archive: Path, tmp_path: Path) -> None:
    (archive / "bash_5.2.88.dsc").unlink()
    with pytest.raises(debian_sources.SourceError) as raised:
        debian_sources.fetch("bash", sources_of(archive), tmp_path / "apt")
    assert str(raised.value).startswith(
        f"the mirror lists bash 5.2.88, but has no such file: file:{archive}/./bash_5.2.88.dsc"
    )


def test_a_patch_that_does_not_apply_stops_the_build(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_MULTITOOL_CACHE", str(tmp_path / "cache"))
    shells = tmp_path / "cache" / "shells"
    shells.mkdir(parents=True)
    with pytest.raises(build.BuildError, match=r"bash-5\.2\.patch does not apply to bash 5\.2\.88"):
        build.build(build.RECIPES["bash"], sources_of(archive), None, 1)
    assert [path.name for path in shells.iterdir()] == ["bash.log"]


# --- the script as a program


def run(
    *arguments: str, cache: Path | None = None, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if cache:
        environment["CODEX_MULTITOOL_CACHE"] = str(cache)
    if path is not None:
        environment["PATH"] = path
    command = [sys.executable, str(patched_shell.BUILDER), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def only_apt(folder: Path) -> str:
    """A PATH with nothing but apt-get."""
    apt = shutil.which("apt-get")
    if not apt:
        pytest.skip("apt-get is not here")
    folder.mkdir()
    (folder / "apt-get").symlink_to(apt)
    return str(folder)


def test_what_is_built_is_not_built_again() -> None:
    path = patched_shell.path_of("bash")
    suite = ["--suite", patched_shell.SUITE] if patched_shell.SUITE else []
    before = path.resolve()
    again = run("bash", *suite)
    told = again.stderr.removeprefix("waiting for another build\n")  # of another test run
    assert (again.returncode, again.stdout, told) == (0, f"{path}\n", "")
    assert path.resolve() == before
    assert run("--print-path", "bash", *suite).stdout == f"{path}\n"


def test_missing_tools_are_named_in_one_line(tmp_path: Path) -> None:
    done = run("bash", cache=tmp_path / "cache", path=only_apt(tmp_path / "bin"))
    assert done.returncode == os.EX_UNAVAILABLE
    assert done.stderr.count("\n") == 1
    assert "as root: apt-get install dpkg-dev gcc make patch" in done.stderr


def test_a_second_run_waits_for_the_first(tmp_path: Path) -> None:
    path = only_apt(tmp_path / "bin")
    shells = tmp_path / "cache" / "shells"
    shells.mkdir(parents=True)
    with (shells / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, patched_shell.BUILDER, "bash"],
            env={**os.environ, "CODEX_MULTITOOL_CACHE": str(tmp_path / "cache"), "PATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert second.stderr
        assert second.stderr.readline() == "waiting for another build\n"
    with second:
        assert "packages are missing" in second.stderr.read()
    assert second.returncode == os.EX_UNAVAILABLE


def test_the_path_of_what_is_not_built_is_an_error(tmp_path: Path) -> None:
    done = run("--print-path", "zsh", cache=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"build.py: zsh is not built: {tmp_path}/shells/zsh is not there\n"


def test_the_path_of_what_could_not_be_built_is_an_error_that_says_why(tmp_path: Path) -> None:
    cache, path = tmp_path / "cache", only_apt(tmp_path / "bin")
    failed = run(cache=cache, path=path)
    assert failed.returncode == os.EX_UNAVAILABLE
    for shell in ("bash", "zsh"):  # one does not keep the other from being tried
        told = f"{shell}: packages are missing; as root: apt-get install dpkg-dev"
        assert f"build.py: {told}" in failed.stderr
        asked = run("--print-path", shell, cache=cache)
        assert asked.stderr.startswith(f"build.py: {shell} is not built: {told}")


def test_an_unknown_shell_is_refused() -> None:
    done = run("fish")
    assert done.returncode == 2
    assert "'fish' is none of bash, zsh" in done.stderr
