"""packaging/system.sh: which interpreter is taken, what a machine is told that lacks something, and
which environments are made anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executables import ROOT

SCRIPT = ROOT / "packaging" / "system.sh"
NEEDED = ("sh", "id", "grep", "sed", "cat", "dirname", "mkdir", "tail")  # by the script itself
TESTS = ("patch", "dpkg-dev", "bash", "dash", "busybox", "zsh", "fish", "tmux")


def system(
    *words: str, path: Path, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", SCRIPT, *words],
        env={"PATH": os.fspath(path), "DISTRIBUTION_PYTHON": "none", **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with nothing on it but what the script is made of."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


def interpreter(path: Path, name: str) -> Path:
    link = path / name
    link.symlink_to(os.path.realpath(sys.executable))
    return link


def old_interpreter(path: Path, name: str) -> None:
    program(path, name, 'echo "3.9.2"; exit 1')  # what one before 3.11 answers to the question


def program(path: Path, name: str, script: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{script}\n")
    (path / name).chmod(0o755)


def offers(path: Path, **versions: str) -> None:
    """An apt-cache that knows these packages."""
    cases = "".join(f'{name}) echo "  Candidate: {it}" ;; ' for name, it in versions.items())
    program(path, "apt-cache", f'case "$2" in {cases}*) ;; esac')


def named(told: str) -> list[str]:
    """The packages a message names; it names all in one line."""
    (command,) = (line for line in told.splitlines() if line.startswith("    apt-get install "))
    return command.split()[2:]


class TestPython:
    def test_python3_is_preferred(self, bare: Path) -> None:
        expected = interpreter(bare, "python3")
        interpreter(bare, "python3.12")
        assert system("python", path=bare).stdout == f"{expected}\n"

    def test_the_distributions_goes_before_another_in_the_path(self, bare: Path) -> None:
        interpreter(bare, "python3")
        program(bare, "distribution", 'echo "3.11.2"')
        expected = str(bare / "distribution")
        told = system("python", path=bare, DISTRIBUTION_PYTHON=expected)
        assert told.stdout == f"{expected}\n"

    @pytest.mark.parametrize("said", ['echo "3.9.2"; exit 1', 'echo "3.12.1 without venv"'])
    def test_the_distributions_is_not_taken_that_is_old_or_lacks_something(
        self, bare: Path, said: str
    ) -> None:
        expected = interpreter(bare, "python3")
        program(bare, "distribution", said)
        told = system("python", path=bare, DISTRIBUTION_PYTHON=str(bare / "distribution"))
        assert told.stdout == f"{expected}\n"

    def test_the_one_named_goes_before_the_distributions(self, bare: Path) -> None:
        expected = interpreter(bare, "python3.12")
        program(bare, "distribution", 'echo "3.11.2"')
        told = system(
            "python", path=bare, PYTHON="python3.12", DISTRIBUTION_PYTHON=str(bare / "distribution")
        )
        assert told.stdout == f"{expected}\n"

    def test_python3_that_is_too_old_is_passed_over(self, bare: Path) -> None:
        old_interpreter(bare, "python3")
        expected = interpreter(bare, "python3.12")
        assert system("python", path=bare).stdout == f"{expected}\n"

    def test_named_python_is_the_only_one_considered(self, bare: Path) -> None:
        interpreter(bare, "python3")
        old_interpreter(bare, "mine")
        done = system("python", path=bare, PYTHON="mine")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "Python 3.11 or newer is wanted. Found: mine is 3.9.2.\n"

    def test_one_that_apt_cannot_complete_is_passed_over(self, bare: Path) -> None:
        program(bare, "python3", 'echo "3.12.1 without headers"; exit 1')
        done = system("python", path=bare)
        assert "Found: python3 is 3.12.1 without headers." in done.stderr


class TestInstall:
    def test_missing_packages_are_named_and_nothing_else_is_done(self, bare: Path) -> None:
        done = system("install", path=bare)
        assert (done.returncode, done.stdout) == (1, "")
        assert {"python3", "python3-venv", "python3-dev", "gcc", "git"} <= set(named(done.stderr))
        assert "Python 3.11 or newer is wanted. Found: none of python3 python3.14" in done.stderr

    def test_only_what_is_missing_is_named(self, bare: Path) -> None:
        interpreter(bare, "python3")
        (bare / "git").symlink_to("/bin/true")
        packages = named(system("install", path=bare).stderr)
        assert "gcc" in packages
        assert not {"git", "python3"} & set(packages)

    def test_building_needs_nothing_for_the_patched_shells(self, bare: Path) -> None:
        assert not {"dpkg-dev", "libncurses-dev"} & set(named(system("install", path=bare).stderr))
        told = system("install", "shells", path=bare).stderr
        assert {"gcc", "patch", "dpkg-dev", "libncurses-dev"} <= set(named(told))

    def test_what_tests_want_is_named_with_what_building_needs(self, bare: Path) -> None:
        packages = named(system("install", "tests", path=bare).stderr)
        assert {"gcc", "git", "libncurses-dev", *TESTS} <= set(packages)

    def test_packages_only_tests_want_are_told_and_no_error(self, bare: Path) -> None:
        complete(bare)
        done = system("install", "tests", path=bare)
        assert (done.returncode, done.stderr) == (0, "")
        wanted = " ".join(TESTS)
        assert done.stdout == f"Not installed: {wanted}; the tests that need them are skipped.\n"

    def test_nothing_is_said_when_nothing_is_missing(self, bare: Path) -> None:
        complete(bare)
        for name in (*TESTS, "dpkg-source"):
            program(bare, name, "")
        done = system("install", "tests", path=bare)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_python_that_apt_has_under_another_name_is_named(self, bare: Path) -> None:
        old_interpreter(bare, "python3")
        offers(bare, python3="3.10.6-1~22.04", **{"python3.11": "3.11.0~rc1-1~22.04"})
        told = system("install", path=bare).stderr
        assert named(told)[:3] == ["python3.11", "python3.11-venv", "python3.11-dev"]
        assert "Found: python3 is 3.9.2." in told


class TestInstallAsRoot:
    """`id` says root, and apt-get is a recorder: nothing is installed for real."""

    @pytest.fixture
    def root(self, bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        self.folder = tmp_path_factory.mktemp("tree")
        (bare / "id").unlink()
        program(bare, "id", "echo 0")
        self.apt_get(bare, "")
        return bare

    def apt_get(self, bare: Path, script: str) -> None:
        program(bare, "apt-get", f'echo "$@" >>{self.folder}/ran; {script}')

    def ran(self) -> list[str]:
        return (self.folder / "ran").read_text().splitlines()

    def test_all_is_installed_at_once_and_quietly(self, root: Path) -> None:
        complete(root)
        (root / "git").unlink()
        self.apt_get(root, f'echo many words; case "$*" in *git*) cp /bin/true {root}/git ;; esac')
        (root / "cp").symlink_to("/bin/cp")
        done = system("install", "tests", path=root, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        assert "many words" not in done.stdout + done.stderr
        assert done.stdout.startswith("Installing git patch dpkg-dev ")
        _, install = self.ran()
        assert install.split()[-len(TESTS) - 1 :] == ["git", *TESTS]

    def test_nothing_is_installed_where_no_python_can_be_had(self, root: Path) -> None:
        old_interpreter(root, "python3")
        offers(root, python3="3.9.2-3")
        done = system("install", path=root, cwd=self.folder)
        assert done.returncode == 1
        assert "Python 3.11 or newer is wanted. Found: python3 is 3.9.2." in done.stderr
        assert "Nothing was installed" in done.stderr
        assert [line.split()[1] for line in self.ran()] == ["update"]

    def test_nothing_is_installed_for_a_named_python_that_does_not_fit(self, root: Path) -> None:
        interpreter(root, "python3")
        old_interpreter(root, "mine")
        done = system("install", path=root, cwd=self.folder, PYTHON="mine")
        assert done.returncode == 1
        assert "Found: mine is 3.9.2." in done.stderr
        assert [line.split()[1] for line in self.ran()] == ["update"]

    def test_failure_of_apt_is_told_with_the_end_of_its_log(self, root: Path) -> None:
        interpreter(root, "python3")
        self.apt_get(root, "echo E: it is broken; exit 100")
        done = system("install", path=root, cwd=self.folder)
        assert done.returncode == 1
        assert "E: it is broken" in done.stderr
        assert "build/apt.log" in done.stderr
        assert "gcc" in named(done.stderr)

    def test_what_tests_want_stands_not_in_the_way_of_what_building_needs(self, root: Path) -> None:
        complete(root)
        (root / "git").unlink()
        (root / "cp").symlink_to("/bin/cp")
        self.apt_get(
            root, f'case "$*" in *fish*) exit 100 ;; *git) cp /bin/true {root}/git ;; esac'
        )
        done = system("install", "tests", path=root, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        assert "Not installed: patch dpkg-dev" in done.stdout


def complete(bare: Path) -> None:
    """All that building needs; the compiler finds every header."""
    interpreter(bare, "python3")
    for name in ("git", "gcc"):
        program(bare, name, "")


class TestStale:
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        """A tree whose environment is the interpreter that runs this test."""
        (tmp_path / ".venv/bin").mkdir(parents=True)
        interpreter(tmp_path / ".venv/bin", "python")
        self.made(tmp_path)
        return tmp_path

    def made(self, tree: Path) -> None:
        done = system("identity", ".venv/bin/python", path=Path("/usr/bin"), cwd=tree)
        assert done.returncode == 0, done.stderr
        (tree / ".venv/.ready").write_text(done.stdout)

    def stale(self, tree: Path, **variables: str) -> str:
        done = system("stale", path=Path("/usr/bin:/bin"), cwd=tree, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def test_environment_as_it_was_made_is_kept(self, tree: Path) -> None:
        assert self.stale(tree) == ""
        assert self.stale(tree, PYTHON=os.path.realpath(sys.executable)) == ""

    def test_no_environment_is_for_make_to_notice(self, tmp_path: Path) -> None:
        assert self.stale(tmp_path) == ""

    def test_copied_tree_is_noticed(self, tree: Path, tmp_path: Path) -> None:
        shutil.copytree(tree / ".venv", tmp_path / "copy/.venv", symlinks=True)
        assert self.stale(tmp_path / "copy") == "again\n"

    def test_interpreter_that_is_gone_is_noticed(self, tree: Path) -> None:
        (tree / ".venv/bin/python").unlink()
        (tree / ".venv/bin/python").symlink_to("/nonexistent/python3.11")
        assert self.stale(tree) == "again\n"

    def test_another_version_at_the_same_path_is_noticed(self, tree: Path) -> None:
        (tree / ".venv/bin/python").unlink()
        program(tree / ".venv/bin", "python", f"echo {sys.executable}; echo 3.14.0")
        assert self.stale(tree) == "again\n"

    def test_other_interpreter_asked_for_is_noticed(self, tree: Path) -> None:
        other = tree / "other"
        program(tree, "other", f"echo {other}; echo 3.14.0")
        assert self.stale(tree, PYTHON=os.fspath(other)) == "again\n"

    def test_make_makes_it_anew(self, tmp_path: Path) -> None:
        if not (ROOT / ".venv/.ready").exists():
            pytest.skip("this tree has no environment that make made")
        program(tmp_path, "other", "echo 3.14.0")

        def planned(*words: str) -> str:
            command = ["make", "--dry-run", "build", *words]
            return subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout

        assert "venv --clear .venv" not in planned()
        assert "venv --clear .venv" in planned(f"PYTHON={tmp_path}/other")


def test_output_is_shown_of_what_fails_only(tmp_path: Path) -> None:
    log = os.fspath(tmp_path / "new/log")
    path = Path("/usr/bin:/bin")
    done = system("quietly", log, "sh", "-c", "echo fine; echo warned >&2", path=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = system("quietly", log, "sh", "-c", "echo broken; exit 3", path=path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[1:] == ["broken"]
    assert log in done.stderr
