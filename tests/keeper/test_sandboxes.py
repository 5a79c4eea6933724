"""Spawners are kept for a sandbox as it was: another root, or another mount, takes another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_multitool.keeper import protocol
from codex_multitool.sandbox.policy import WORKSPACE_WRITE
from tests.keeper.conftest import tidy
from tests.keeper.driver import CONFINED, FULL, House, Keeper, children, sandbox

KEPT = 3


@pytest.fixture
def ground(house: House, folder: Path) -> Path:
    """A folder with a workspace, and a folder beside it."""
    for name in ("ws", "out"):
        (folder / name).mkdir()
        house.own(folder / name)
    return folder


def within(root: Path, **more: object) -> protocol.Sandbox:
    return sandbox(WORKSPACE_WRITE, (str(root),), **more)


def writes(keeper: Keeper, order: protocol.Sandbox, path: Path) -> bool:
    """Whether a command can make this file."""
    keeper.run(f"echo x > '{path}'", order)
    found = path.exists()
    path.unlink(missing_ok=True)
    return found


def test_a_root_that_was_replaced_is_another(keeper: Keeper, house: House, ground: Path) -> None:
    root, old = ground / "ws", ground / "old"
    order = within(root)
    assert writes(keeper, order, root / "x")
    root.rename(old)
    root.mkdir()
    house.own(root)
    assert writes(keeper, order, root / "x")
    assert not writes(keeper, order, old / "x")
    # And back again, with both spawners still there.
    root.rename(ground / "new")
    old.rename(root)
    assert writes(keeper, order, root / "x")
    assert not writes(keeper, order, ground / "new" / "x")
    keeper.settled()


def test_a_root_that_vanishes_is_told_and_is_there_when_it_comes_back(
    keeper: Keeper, house: House, ground: Path
) -> None:
    root = ground / "ws"
    order = within(root)
    assert writes(keeper, order, root / "x")
    root.rmdir()
    for _ in range(2):
        began = keeper.run("echo x", order).told[0]
        assert isinstance(began, protocol.Began)
        assert began.lacking == (f"{root}: No such file or directory",)
        assert not writes(keeper, order, ground / "out" / "x")
    root.mkdir()
    house.own(root)
    assert not isinstance(keeper.run(":", order).told[0], protocol.Began)
    assert writes(keeper, order, root / "x")


def test_a_root_that_a_command_leads_elsewhere_is_not_followed(
    keeper: Keeper, house: House, ground: Path
) -> None:
    root, inner = ground / "ws", ground / "ws" / "inner"
    inner.mkdir()
    house.own(inner)
    order = sandbox(WORKSPACE_WRITE, (str(root), str(inner)))
    assert writes(keeper, order, inner / "x")
    for target in ("../../out", f"{ground}/out"):
        keeper.run(f"mv inner old; ln -s {target} inner", order, workdir=str(root))
        assert inner.readlink() == Path(target)
        assert not writes(keeper, order, ground / "out" / "x")
        assert not writes(keeper, order, inner / "x")
        keeper.run("rm inner; mv old inner", order, workdir=str(root))
        assert writes(keeper, order, inner / "x")


def test_what_is_left_of_one_command_does_not_get_the_next_ones_root(
    house: House, ground: Path
) -> None:
    keeper, other = house.keeper(), house.keeper()
    root = ground / "ws"
    late = f"while ! [ -e {root}/go ]; do sleep 0.01; done; echo x > {root}/late"
    keeper.order(f"({late}) & exit", within(root))
    assert not keeper.until(protocol.Done)[-1].over
    root.rename(ground / "old")
    root.mkdir()
    house.own(root)
    assert writes(other, within(root), root / "x")
    (root / "go").touch()
    keeper.until(protocol.Over)
    assert not (root / "late").exists()


def test_a_few_spawners_are_kept_and_no_more(keeper: Keeper, house: House, ground: Path) -> None:
    with tidy(keeper):
        seen: list[int] = keeper.spawners()
        for number in range(2 * KEPT):
            root = ground / str(number)
            root.mkdir()
            house.own(root)
            assert writes(keeper, within(root), root / "x")
            keeper.settled()
            found = keeper.spawners()
            assert len(found) == min(len(seen) + 1, KEPT)
            assert set(children(keeper.pid)) == set(found)
            seen += [pid for pid in found if pid not in seen]
        assert keeper.spawners() == seen[-KEPT:]
        # The one that was used last is the last to go.
        root = ground / str(2 * KEPT - KEPT)
        assert writes(keeper, within(root), root / "x")
        assert keeper.spawners() == seen[-KEPT:]
        assert keeper.works(FULL)
        keeper.settled()
        assert seen[-KEPT] in keeper.spawners()
        assert seen[-KEPT + 1] not in keeper.spawners()


def test_what_is_prepared_is_used(keeper: Keeper) -> None:
    keeper.tell(protocol.Prepare(FULL))
    ran = keeper.run("echo $PPID", FULL)
    assert int(ran.text) == keeper.spawners()[-1]
    assert len(keeper.spawners()) == 2
    # What cannot be had is told to the command that needs it.
    nowhere = sandbox(WORKSPACE_WRITE, mounts=((b"\0", True),))
    keeper.tell(protocol.Prepare(nowhere))
    refused = keeper.run("echo x", nowhere).refused
    assert refused is not None
    assert refused.text.startswith("mount namespace ")
    assert keeper.works()
    keeper.settled()


@pytest.fixture
def mounted(house: House, ground: Path) -> tuple[Keeper, Path, protocol.Sandbox]:
    """A keeper, a workspace and a sandbox in which two names of that are kept."""
    root = ground / "ws"
    for name in ("kept", "fixed"):
        (root / name).mkdir()
        house.own(root / name)
    mounts = tuple((os.fsencode(root / name), name == "kept") for name in ("kept", "fixed"))
    keeper, order = house.keeper(own_mounts=True), within(root, mounts=mounts)
    refused = keeper.run(":", order).refused
    if refused is not None and "mount namespace" in refused.text:
        pytest.skip(refused.text)
    assert refused is None
    return keeper, root, order


def test_what_is_mounted_is_kept_in_every_command_and_nowhere_else(
    mounted: tuple[Keeper, Path, protocol.Sandbox],
) -> None:
    keeper, root, order = mounted
    before = Path("/proc/self/mountinfo").read_text()
    for _ in range(2):
        assert writes(keeper, order, root / "x")
        assert writes(keeper, order, root / "fixed" / "x")
        assert not writes(keeper, order, root / "kept" / "x")
        for name in ("kept", "fixed"):
            for command in (f"mv {name} other", f"rmdir {name}", f"mv {name} /{name}"):
                assert keeper.run(command, order, workdir=str(root)).code != 0
            assert (root / name).is_dir()
    assert Path("/proc/self/mountinfo").read_text() == before
    # A folder that lies in what is mounted is entered through the mount.
    kept = str(root / "kept")
    ran = keeper.run("/bin/pwd; echo x > x", order, workdir=kept)
    assert ran.text.startswith(f"{kept}\n")
    assert ran.text.rstrip().endswith("Read-only file system")
    assert not (root / "kept" / "x").exists()
    # Another sandbox of the same keeper has none of that.
    assert writes(keeper, within(root), root / "kept" / "x")
    keeper.settled()


def test_what_goes_before_it_is_mounted_is_not_kept(
    mounted: tuple[Keeper, Path, protocol.Sandbox], house: House
) -> None:
    keeper, root, order = mounted
    (root / "third").mkdir()
    house.own(root / "third")
    more = order._replace(mounts=(*order.mounts, (os.fsencode(root / "gone"), True)))
    assert writes(keeper, more, root / "third" / "x")
    assert not writes(keeper, more, root / "kept" / "x")


def test_a_mount_leads_nowhere_else(
    mounted: tuple[Keeper, Path, protocol.Sandbox], ground: Path
) -> None:
    keeper, root, order = mounted
    (root / "link").symlink_to(ground / "out")
    more = order._replace(mounts=((os.fsencode(root / "link"), True),))
    keeper.run(":", more)
    assert writes(keeper, within(ground / "out"), ground / "out" / "x")


def test_a_confined_command_cannot_write_what_is_not_granted(keeper: Keeper, ground: Path) -> None:
    for path in (ground / "ws" / "x", ground / "out" / "x", Path("/var/tmp/x-of-a-test")):
        assert not writes(keeper, CONFINED, path)
    assert writes(keeper, FULL, ground / "out" / "x")
