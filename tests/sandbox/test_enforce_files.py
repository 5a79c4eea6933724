"""What a confined process may write. Each denial is shown to be the sandbox's own."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.sandbox.confined import (
    FULL,
    ONLINE,
    READ_ONLY,
    USERS,
    WORKSPACE,
    Workspace,
    landlock_abi,
    require_abi,
    workspace,
)

pytestmark = require_abi(1)
DENIED = ("EACCES", "EPERM", "EXDEV")


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Workspace:
    return workspace(request.param)


# Each does one thing to argv[1], a folder with `file` and the empty folder `sub` in it.
WRITES = {
    "create": "open(sys.argv[1] + '/new', 'w')",
    "overwrite": "open(sys.argv[1] + '/file', 'r+').write('x')",
    "append": "open(sys.argv[1] + '/file', 'a').write('x')",
    "truncate on open": "os.open(sys.argv[1] + '/file', os.O_WRONLY | os.O_TRUNC)",
    "truncate, opened to read": "os.open(sys.argv[1] + '/file', os.O_RDONLY | os.O_TRUNC)",
    "truncate by path": "os.truncate(sys.argv[1] + '/file', 0)",
    "unlink": "os.unlink(sys.argv[1] + '/file')",
    "mkdir": "os.mkdir(sys.argv[1] + '/new')",
    "rmdir": "os.rmdir(sys.argv[1] + '/sub')",
    "rename": "os.rename(sys.argv[1] + '/file', sys.argv[1] + '/new')",
    "rename across": "os.rename(sys.argv[1] + '/file', sys.argv[1] + '/sub/new')",
    "link across": "os.link(sys.argv[1] + '/file', sys.argv[1] + '/sub/new')",
    "link": "os.link(sys.argv[1] + '/file', sys.argv[1] + '/new')",
    "symlink": "os.symlink('file', sys.argv[1] + '/new')",
    "fifo": "os.mkfifo(sys.argv[1] + '/new')",
    "socket": "os.mknod(sys.argv[1] + '/new', 0o140600)",
    "nameless file": "os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)",
    "through the root link": "open('/proc/self/root' + sys.argv[1] + '/new', 'w')",
    "through the working directory": "os.chdir(sys.argv[1]); open('new', 'w')",
}
# Opened for reading, and by the access mode 3, which gives neither: open(2).
_EMPTY = "print(os.stat(sys.argv[1]).st_size)"
TRUNCATIONS = {
    "O_RDONLY": "os.open(sys.argv[1], os.O_RDONLY | os.O_TRUNC)",
    "O_WRONLY": "os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)",
    "O_RDWR": "os.open(sys.argv[1], os.O_RDWR | os.O_TRUNC)",
    "mode 3": "os.open(sys.argv[1], 3 | os.O_TRUNC)",
    "O_CREAT": "os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT | os.O_TRUNC)",
    "truncate": "os.truncate(sys.argv[1], 0)",
    "ftruncate": "os.ftruncate(os.open(sys.argv[1], os.O_RDONLY), 0)",
    "through /proc": "fd = os.open(sys.argv[1], os.O_PATH)\n"
    "os.open(f'/proc/self/fd/{fd}', os.O_RDONLY | os.O_TRUNC)",
    "openat2": "how = b''.join(n.to_bytes(8, 'little') for n in (os.O_TRUNC, 0, 0))\n"
    "name = ctypes.create_string_buffer(os.fsencode(sys.argv[1]))\n"
    "how = ctypes.create_string_buffer(how, 24)\n"
    "syscall(437, -100, ctypes.addressof(name), ctypes.addressof(how), 24)",
}
if os.uname().machine == "x86_64":
    _BY_NAME = "name = ctypes.create_string_buffer(os.fsencode(sys.argv[1]))\n"
    TRUNCATIONS["open"] = _BY_NAME + "syscall(2, ctypes.addressof(name), os.O_TRUNC)"
    TRUNCATIONS["creat"] = _BY_NAME + "syscall(85, ctypes.addressof(name), 0o600)"
TRUNCATED_WITHOUT_WRITING = ("truncate, opened to read", "truncate by path")
# As on older kernels: of this one's Landlock only so much is made use of.
ABIS = [*range(1, min(landlock_abi(), 3)), landlock_abi()]


def target(place: Workspace, folder: Path) -> str:
    """The folder, with nothing but `file` and `sub` in it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    place.file(folder / "file")
    place.folder(folder / "sub")
    return str(folder)


@pytest.mark.parametrize("write", WRITES)
def test_writes_outside_the_roots_are_refused(place: Workspace, write: str) -> None:
    code = WRITES[write] + "\nprint('done')"
    assert place.ask(FULL, code, target(place, place.outside)) == "done"
    for policy in (READ_ONLY, WORKSPACE):
        folder = target(place, place.outside)
        before = sorted(os.listdir(folder))
        assert place.ask(policy, code, folder) in DENIED
        assert sorted(os.listdir(folder)) == before
        assert (place.outside / "file").read_text() == "kept\n"


@pytest.mark.parametrize("write", WRITES)
def test_writes_under_a_root_are_not(place: Workspace, write: str) -> None:
    if write.endswith("across") and landlock_abi() < 2:
        pytest.skip("renames across directories are always refused before Landlock ABI 2")
    if write in TRUNCATED_WITHOUT_WRITING and landlock_abi() < 3:
        pytest.skip("before Landlock ABI 3 the filter refuses it everywhere")
    code = WRITES[write] + "\nprint('done')"
    assert place.ask(WORKSPACE, code, target(place, place.inside)) == "done"
    assert place.ask(READ_ONLY, code, target(place, place.inside)) in DENIED


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("way", TRUNCATIONS)
def test_no_file_outside_is_emptied_whatever_landlock_sees(
    place: Workspace, way: str, abi: int
) -> None:
    path = str(place.file(place.outside / "file"))
    if way != "ftruncate":  # it takes a descriptor open for writing, in the open too
        assert place.ask(FULL, TRUNCATIONS[way] + "\n" + _EMPTY, path) == "0"
        place.file(place.outside / "file")
    for policy in (READ_ONLY, WORKSPACE, ONLINE):
        refused = place.ask(policy, TRUNCATIONS[way], path, newest_abi=abi)
        assert refused in ("EACCES", "EINVAL", "ENOSYS")
        assert (refused == "EINVAL") == (way == "ftruncate")
        assert (refused == "ENOSYS") == (way == "openat2" and abi < 3)
        assert (place.outside / "file").read_text() == "kept\n"


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("way", TRUNCATIONS)
def test_a_file_under_a_root_is_emptied_by_who_may_write_it(
    place: Workspace, way: str, abi: int
) -> None:
    """Before ABI 3 by a descriptor open for writing alone, which is how nearly all do it."""
    path = str(place.file(place.inside / "file"))
    found = place.ask(WORKSPACE, TRUNCATIONS[way] + "\n" + _EMPTY, path, newest_abi=abi)
    if way == "ftruncate":
        assert found == "EINVAL"
    elif abi >= 3 or way in ("O_WRONLY", "O_RDWR", "creat"):
        assert found == "0"
    else:
        assert found == ("ENOSYS" if way == "openat2" else "EACCES")


def test_before_abi_2_nothing_moves_to_another_folder(place: Workspace) -> None:
    folder = target(place, place.inside)
    for write in ("rename across", "link across"):
        assert place.ask(WORKSPACE, WRITES[write], folder, newest_abi=1) == "EXDEV"
    code = WRITES["rename"] + "\nprint('done')"
    assert place.ask(WORKSPACE, code, folder, newest_abi=1) == "done"


def test_a_listed_root_is_writable_and_its_parent_is_not(place: Workspace) -> None:
    listed = place.folder(place.outside / "listed")
    policy = {**WORKSPACE, "writable_roots": [str(listed)]}
    assert place.ask(policy, "open(sys.argv[1] + '/a', 'w'); print('done')", str(listed)) == "done"
    assert place.ask(policy, "open(sys.argv[1] + '/a', 'w')", str(place.outside)) == "EACCES"


def test_a_root_may_be_a_file(place: Workspace) -> None:
    single = place.file(place.outside / "single")
    policy = {**WORKSPACE, "writable_roots": [str(single)]}
    assert (
        place.ask(policy, "open(sys.argv[1], 'w').write('new'); print('done')", str(single))
        == "done"
    )
    assert single.read_text() == "new"
    assert place.ask(policy, "os.unlink(sys.argv[1])", str(single)) == "EACCES"


def test_files_move_between_roots(place: Workspace) -> None:
    if landlock_abi() < 2:
        pytest.skip("renames across directories are always refused before Landlock ABI 2")
    other = place.folder(place.outside / "other")
    place.file(place.inside / "a")
    policy = {**WORKSPACE, "writable_roots": [str(other)]}
    code = "os.rename(sys.argv[1], sys.argv[2]); print('done')"
    assert place.ask(policy, code, str(place.inside / "a"), str(other / "a")) == "done"


def test_a_missing_root_is_left_out_and_told(place: Workspace) -> None:
    root = place.outside / "missing" / "deep"
    policy = {**WORKSPACE, "writable_roots": [str(root)]}
    told = f"codex-linux-sandbox: not writable: {root}: No such file or directory\n"
    ran = place.run(policy, "touch", "here")
    assert (ran.returncode, ran.stderr) == (0, told)
    ran = place.run(policy, "mkdir", str(root.parent))
    assert ran.returncode == 1
    assert "Permission denied" in ran.stderr


def test_tmp_and_tmpdir_are_writable_unless_excluded(place: Workspace) -> None:
    code = "import tempfile; tempfile.TemporaryFile(dir=sys.argv[1]); print('done')"
    environ = {"TMPDIR": str(place.outside)}
    for policy, tmp, tmpdir in (
        ({"type": "workspace-write"}, True, True),
        ({"type": "workspace-write", "exclude_slash_tmp": True}, False, True),
        (WORKSPACE, False, False),
    ):
        for folder, writable in (("/var/tmp", False), (str(place.outside), tmpdir)):
            expected = "done" if writable else "EACCES"
            assert place.ask(policy, code, folder, environ=environ) == expected, (policy, folder)
        made = place.ask(
            policy, "import tempfile\nprint(tempfile.TemporaryFile(dir='/tmp') and 'done')"
        )
        assert made == ("done" if tmp else "EACCES")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
@pytest.mark.parametrize("kind", [stat.S_IFBLK, stat.S_IFCHR])
def test_a_device_cannot_be_made_even_under_a_root(kind: int) -> None:
    place = workspace(None)
    code = f"os.mknod(sys.argv[1], {kind | 0o600}, os.makedev(7, 200)); print('done')"
    if (free := place.ask(FULL, code, str(place.inside / "free"))) != "done":
        pytest.skip(f"this root cannot make a device: {free}")
    assert place.ask(WORKSPACE, code, str(place.inside / "kept")) in DENIED


METADATA = {
    "chmod": "os.chmod(sys.argv[1], 0o600)",
    "fchmod": "os.fchmod(os.open(sys.argv[1], os.O_RDONLY), 0o600)",
    "chown": "os.chown(sys.argv[1], os.getuid(), os.getgid())",
    "fchown": "os.fchown(os.open(sys.argv[1], os.O_RDONLY), os.getuid(), os.getgid())",
    "lchown": "os.lchown(sys.argv[1], os.getuid(), os.getgid())",
    "utime": "os.utime(sys.argv[1])",
    "setxattr": "os.setxattr(sys.argv[1], 'user.a', b'b')",
    "chattr": "import fcntl, struct\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
    "flags = fcntl.ioctl(fd, 0x80086601, bytes(8))\nfcntl.ioctl(fd, 0x40086602, flags)",
}


@pytest.mark.parametrize("change", METADATA)
def test_read_only_keeps_metadata_too(place: Workspace, change: str) -> None:
    code = METADATA[change] + "\nprint('done')"
    path = str(place.file(place.inside / "file"))
    free = place.ask(FULL, code, path)
    if free in ("EOPNOTSUPP", "ENOTTY"):
        pytest.skip(f"the file system has no such attributes: {free}")
    assert free == "done"
    assert place.ask(READ_ONLY, code, path) == "EPERM"
    assert place.ask(WORKSPACE, code, path) == ("EPERM" if change == "chattr" else "done")


# On the folder outside, open for reading: on another file system they would say ENOTTY.
IOCTLS = {
    "btrfs, a subvolume": 0x5000940E,
    "btrfs, a snapshot": 0x50009417,
    "bcachefs, a subvolume": 0x4020BC10,
    "OCFS2, a reflink by path": 0x40186F04,
    "ext4, extents moved": 0xC028660F,
    "F2FS, an atomic write": 0xF501,
    "XFS, extents swapped": 0xC0C0586D,
    "FAT attributes": 0x40047211,
    "the generation": 0x40087602,
}


@pytest.mark.parametrize("name", IOCTLS)
def test_file_systems_are_not_steered_through_a_descriptor_for_reading(
    place: Workspace, name: str
) -> None:
    code = "import fcntl\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
    code += f"fcntl.ioctl(fd, {IOCTLS[name]}, bytes(1024))"
    for policy in (READ_ONLY, WORKSPACE, ONLINE):
        assert place.ask(policy, code, str(place.outside)) == "EPERM"
    tell = "import fcntl\nfd = os.open(sys.argv[1], os.O_RDONLY)\nfcntl.ioctl(fd, 0x40049409, 99)"
    assert place.ask(WORKSPACE, tell, str(place.outside)) != "EPERM"  # FICLONE is the kernel's


@pytest.mark.parametrize("policy", [READ_ONLY, WORKSPACE], ids=["read-only", "workspace-write"])
def test_devices_that_keep_nothing_can_be_written(
    place: Workspace, policy: dict[str, object]
) -> None:
    for device in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"):
        code = "fd = os.open(sys.argv[1], os.O_RDWR); print(os.write(fd, b'x'))"
        assert place.ask(policy, code, device) == "1", device
    assert place.ask(policy, "os.write(os.open('/dev/full', os.O_RDWR), b'x')") == "ENOSPC"
    assert place.ask(policy, "print(os.isatty(os.open('/dev/null', os.O_RDWR)))") == "False"


def test_reading_is_free(place: Workspace) -> None:
    for policy in (READ_ONLY, WORKSPACE):
        ran = place.run(policy, "ls", "-l", "/bin/", "/etc/passwd")
        assert (ran.returncode, ran.stderr) == (0, "")


def test_read_only_gives_no_terminals_and_no_shared_memory(place: Workspace) -> None:
    for code in ("os.open('/dev/ptmx', os.O_RDWR)", "open('/dev/shm/codex-sandbox-test', 'w')"):
        assert place.ask(FULL, code + "\nprint('done')") == "done"
        assert place.ask(READ_ONLY, code) == "EACCES"
        assert place.ask(WORKSPACE, code + "\nprint('done')") == "done"
    place.ask(FULL, "os.unlink('/dev/shm/codex-sandbox-test')")


def test_a_root_that_a_command_has_replaced_by_a_link_is_refused(place: Workspace) -> None:
    """One call plants the link, the next must not be granted what it points to."""
    nested = place.folder(place.inside / "nested")
    policy = {**WORKSPACE, "writable_roots": [str(nested)]}
    plant = "os.rmdir(sys.argv[1]); os.symlink(sys.argv[2], sys.argv[1]); print('planted')"
    assert place.ask(policy, plant, str(nested), str(place.outside)) == "planted"
    ran = place.run(policy, "touch", str(place.outside / "escaped"))
    assert ran.returncode == 1
    assert f"not writable: {nested}: a symbolic link inside" in ran.stderr
    assert not (place.outside / "escaped").exists()


def test_external_sandbox_writes_everywhere(place: Workspace) -> None:
    code = "open(sys.argv[1] + '/new', 'w'); print('done')"
    for network in ("restricted", "enabled"):
        policy = {"type": "external-sandbox", "network_access": network}
        assert place.ask(policy, code, str(place.outside)) == "done"
