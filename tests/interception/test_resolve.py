"""A name means to us what it means to the caller: asked of both, also from inside a chroot."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool.interception.resolve import View, way

# Prints, for each line of input, what it is to this process: [device, inode] or an errno.
LOOKER = """
import json, os, sys
root, workdir, *fds = sys.argv[1:]
if root:
    os.chroot(root)
os.chdir(workdir)
for number, path in zip(fds[::2], fds[1::2]):
    os.dup2(os.open(path, os.O_RDONLY), int(number))
print("ready", flush=True)
for line in sys.stdin:
    path, follow = json.loads(line)
    try:
        found = os.stat(path, follow_symlinks=follow)
        print(json.dumps([found.st_dev, found.st_ino]), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


class Looker:
    def __init__(self, root: str, workdir: str, *descriptors: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-IS", "-c", LOOKER, root, workdir, *descriptors],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.pid = self._process.pid

    def sees(self, path: str) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([path, True]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def we_see(self, path: str, *, follow: bool = True) -> object:
        view = View(self.pid, self.pid)
        workdir = view.workdir()
        try:
            fd = view.open(path, workdir, follow=follow)
            found = os.fstat(fd)
            os.close(fd)
        except OSError as error:
            return error.errno
        finally:
            os.close(workdir)
            view.close()
        return [found.st_dev, found.st_ino]

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and links of every kind; absolute links are meant from within."""
    top = tmp_path_factory.mktemp("tree")
    for folder in ("bin", "sub/deep", "proc-like", "tmp"):
        (top / folder).mkdir(parents=True)
    (top / "bin/program").write_text("#!/bin/sh\n")
    (top / "sub/deep/other").write_text("x")
    links = {
        "relative": "bin/program",
        "upwards": "../../../../../../bin/program",
        "absolute": "/bin/program",
        "sub/up": "../bin/program",
        "folder": "sub/deep",
        "around": "folder/../../bin/program",
        "dangling": "nowhere",
        "loop": "loop",
        "self-exe": "/proc/self/exe",
        "fd": "/proc/self/fd",
        "fd77": "/proc/self/fd/77",
        "of-thread": "/proc/thread-self/fd/77",
        **{f"link{n}": f"link{n + 1}" for n in range(45)},
    }
    for name, target in links.items():
        (top / name).symlink_to(target)
    (top / "link45").write_text("end of the links")
    return top


PATHS = [
    *("bin/program", "./bin/program", "bin//program", "bin/../bin/program", "bin/program/"),
    *("bin/program/x", "bin", "bin/", ".", "..", "/", "//", "/..", "/../bin/program", "missing"),
    *("missing/x", "relative", "relative/", "upwards", "absolute", "sub/up", "folder", "folder/"),
    *("folder/other", "around", "dangling", "dangling/", "loop", "loop/x", "link0", "link4"),
    *("link5", "link6", "link7", "self-exe", "fd/77", "fd77", "of-thread", "/proc/self/exe"),
    *("/proc/thread-self/exe", "/proc/self/fd/77", "/proc/self/fd/78", "/dev/fd/77", "/dev/stdin"),
    *("/dev/fd/78/other", "/proc/self/cwd/bin/program", "/proc/self/root/bin/program"),
    *("/proc/self/root", "/proc/self/fd/999", "/proc/self/missing", "/proc/self/task/missing"),
    *("/proc/self/fd/78/../deep/other", "a" * 300),
    *("/etc/passwd", "/bin/sh", "/usr/bin/env", "/proc/self/ns/mnt"),
]


@pytest.fixture(scope="module")
def looker(tree: Path) -> Iterator[Looker]:
    fds = ("77", str(tree / "bin/program"), "78", str(tree / "sub/deep"))
    looker = Looker("", str(tree), *fds)
    yield looker
    looker.close()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:30])
def test_a_name_in_our_own_root(looker: Looker, path: str) -> None:
    assert looker.we_see(path) == looker.sees(path)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:30])
def test_a_name_in_a_chroot(chrooted: Looker, path: str) -> None:
    assert chrooted.we_see(path) == chrooted.sees(path)


@pytest.fixture(scope="module")
def chrooted(tree: Path) -> Iterator[Looker]:
    if os.getuid() != 0:
        pytest.skip("only root may chroot")
    fds = ("77", "/bin/program", "78", "/sub/deep")
    looker = Looker(str(tree), "/", *fds)
    yield looker
    looker.close()


def test_the_chroot_differs_from_our_root(tree: Path, chrooted: Looker) -> None:
    program = (tree / "bin/program").stat()
    assert chrooted.we_see("/bin/program") == [program.st_dev, program.st_ino]
    assert chrooted.we_see("/usr/bin/env") == 2


def test_self_is_the_caller_and_not_us(tree: Path, looker: Looker) -> None:
    program = (tree / "bin/program").stat()
    assert looker.we_see("/dev/fd/77") == [program.st_dev, program.st_ino]
    assert not os.path.exists("/proc/self/fd/77")


@pytest.mark.parametrize(
    ("path", "found"),
    [("relative", 40), ("folder/other", None), ("folder", 40), ("bin/program", None)],
)
def test_a_last_link_need_not_be_followed(looker: Looker, path: str, found: int | None) -> None:
    assert looker.we_see(path, follow=False) == (found or looker.sees(path))


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    looker = Looker("", str(gone))
    gone.rmdir()
    for path in ("x", ".", "..", "/bin/sh"):
        assert looker.we_see(path) == looker.sees(path)
    looker.close()


def _maze(folder: Path, links: int) -> None:
    """l0 leads to /bin/true, by way of `links` links with 2,020 components each."""
    for n in range(links):
        target = "/bin/true" if n == links - 1 else f"l{n + 1}"
        (folder / f"l{n}").symlink_to("./" * 2020 + target if n < links - 1 else target)


def test_a_maze_is_left_before_its_end(tmp_path: Path) -> None:
    """The kernel finds through it in a moment; we, who look at each component, would not."""
    (tmp_path / "some").mkdir()
    (tmp_path / "many").mkdir()
    _maze(tmp_path / "some", 4)
    _maze(tmp_path / "many", 38)
    for folder, found in (("some", True), ("many", False)):
        view = View(os.getpid(), os.getpid())
        base = os.open(tmp_path / folder, os.O_PATH)
        try:
            if found:
                fd = view.open("l0", base)
                assert os.path.samestat(os.fstat(fd), os.stat("/bin/true"))
                os.close(fd)
            else:
                with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
                    view.open("l0", base)
                with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
                    view.open("/bin/true", base)
            assert view.exhausted is not found
        finally:
            os.close(base)
            view.close()
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            way(f"{tmp_path}/{folder}/l0")


@pytest.mark.parametrize("path", ["/proc/self/exe", "/proc/thread-self", "/dev/fd/0", "link/exe"])
def test_a_way_through_proc_leads_each_reader_elsewhere(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to("/proc/self")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        way(os.path.join(tmp_path, path))
