"""Roots are opened as they were named, or not at all."""

import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from codex_multitool.sandbox.roots import UntrustedRootError, canonical_roots, open_root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace with a folder in it, a home beside it, and links to both."""
    for folder in ("work/nested", "home/secret", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "alias").symlink_to("work")
    return Path(os.path.realpath(tmp_path))


def opened(path: Path | str, *roots: Path) -> str:
    """What a root opened, by its canonical path."""
    guarded = canonical_roots((*map(str, roots), str(path)))
    descriptor = open_root(str(path), guarded)
    try:
        assert not os.get_inheritable(descriptor)
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def test_a_plain_path(tree: Path) -> None:
    assert opened(tree / "work") == str(tree / "work")
    assert opened(f"{tree}//work/./nested/../nested/", tree / "work") == str(tree / "work/nested")
    assert opened("/") == "/"
    assert opened("/..") == "/"


def test_a_link_that_no_command_could_have_made(tree: Path) -> None:
    assert opened(tree / "alias") == str(tree / "work")
    assert opened(tree / "alias" / "nested", tree / "work") == str(tree / "work/nested")
    (tree / "absolute").symlink_to(tree / "alias")
    assert opened(tree / "absolute" / "nested") == str(tree / "work/nested")


def test_a_link_inside_a_root_may_lead_within_it(tree: Path) -> None:
    (tree / "work/inner").symlink_to("nested")
    assert opened(tree / "work/inner", tree / "work") == str(tree / "work/nested")
    (tree / "work/round").symlink_to(tree / "work/nested/../inner")
    assert opened(tree / "work/round", tree / "work") == str(tree / "work/nested")


@pytest.mark.parametrize("destination", ["../home", "/", "../elsewhere/../home/secret"])
def test_a_link_inside_a_root_may_not_lead_out_of_it(tree: Path, destination: str) -> None:
    (tree / "work/out").symlink_to(destination)
    with pytest.raises(UntrustedRootError, match=r"a symbolic link inside .*/work leads out of it"):
        opened(tree / "work/out", tree / "work")
    with pytest.raises(UntrustedRootError, match="leads out"):
        opened(tree / "alias/out", tree / "work")


def test_a_chain_of_links_is_judged_by_its_end(tree: Path) -> None:
    (tree / "elsewhere/back").symlink_to("../work/nested")
    (tree / "work/chain").symlink_to("../elsewhere/back")
    assert opened(tree / "work/chain", tree / "work") == str(tree / "work/nested")
    (tree / "elsewhere/back").unlink()
    (tree / "elsewhere/back").symlink_to("../home")
    with pytest.raises(UntrustedRootError):
        opened(tree / "work/chain", tree / "work")


def test_a_folder_with_a_similar_name_is_another(tree: Path) -> None:
    (tree / "workshop").mkdir()
    (tree / "work/out").symlink_to("../workshop")
    with pytest.raises(UntrustedRootError):
        opened(tree / "work/out", tree / "work")


def test_what_is_missing_is_an_os_error(tree: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(tree / "missing")
    (tree / "file").touch()
    with pytest.raises(NotADirectoryError):
        opened(tree / "file" / "beneath")
    (tree / "dangling").symlink_to("missing")
    with pytest.raises(FileNotFoundError):
        opened(tree / "dangling")


def test_links_in_a_circle_are_an_error(tree: Path) -> None:
    (tree / "one").symlink_to("two")
    (tree / "two").symlink_to("one")
    with pytest.raises(UntrustedRootError, match="too many symbolic links"):
        opened(tree / "one")


def test_a_root_that_changes_meanwhile_is_never_the_other_one(tree: Path) -> None:
    """A background job swaps the workspace's folder for a link as fast as it can."""
    contested, spare = tree / "work/nested", tree / "work/spare"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            contested.rename(spare)
            contested.symlink_to("../home")
            contested.unlink()
            spare.rename(contested)

    thread = threading.Thread(target=swap)
    thread.start()
    granted = refused = 0
    descriptors = len(os.listdir("/proc/self/fd"))
    try:
        deadline = time.monotonic() + 60
        for turn in itertools.count():
            if (turn >= 3000 and granted and refused) or time.monotonic() > deadline:
                break
            try:
                where = opened(contested, tree / "work")
            except (UntrustedRootError, FileNotFoundError):
                refused += 1
            else:
                granted += 1
                assert where.startswith(str(tree / "work/"))
    finally:
        stop.set()
        thread.join()
    assert granted
    assert refused
    assert len(os.listdir("/proc/self/fd")) == descriptors
