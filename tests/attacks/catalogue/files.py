"""Writing outside the workspace."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import REFUSED, Attack, Class, More, Need, Sandbox

_ROOT = os.getuid() == 0


def _file(name: str, script: str, **more: Unpack[More]) -> Attack:
    return replace(Attack(name, script, REFUSED), **more)


# The name leads outside for a moment, again and again, until a write has gone there or was refused.
_SWAP = """
mkdir d; : >told
while :; do rm -rf d; ln -s "$OUT" d; rm -f d; mkdir d; done 2>/dev/null &
until grep -q written "$OUT/file" || grep denied told; do
    for i in $(seq 50); do echo written >d/file; done 2>>told
done
kill $!
"""
_METADATA = "Landlock does not limit metadata, and programs that work in a workspace need to set it"

BY_PATH = Class(
    "writing outside by another path",
    (
        _file("redirection", 'echo written >"$OUT/file"'),
        _file("append", 'echo written >>"$OUT/file"'),
        _file("new-file", 'echo written >"$OUT/new"'),
        _file("dot-dot", "d=../../out/${OUT##*/}; echo written >$d/file"),
        _file("after-cd", 'cd "$OUT"; echo written >file'),
        _file("write-through-proc-root", 'echo written >"/proc/self/root$OUT/file"'),
        _file("through-a-symlink", 'ln -s "$OUT" d; echo written >d/file'),
        _file("symlink-to-file", 'ln -s "$OUT/file" f; echo written >f'),
        _file("dangling-symlink", 'ln -s "$OUT/new" f; echo written >f'),
        _file("through-a-hard-link", 'ln "$OUT/file" f && echo written >f'),
        _file("rename-over", 'echo written >f; mv -f f "$OUT/file"'),
        _file("take-away", 'mv "$OUT/file" f'),
        _file("copied-over", 'echo written >f; cp f "$OUT/file"'),
        _file("dd", 'echo written | dd of="$OUT/file" status=none'),
        _file("remove", 'rm "$OUT/file"'),
        _file("make-directory", 'mkdir "$OUT/d"'),
        _file("make-symlink", 'ln -s x "$OUT/s"'),
        _file("make-fifo", 'mkfifo "$OUT/f"'),
        _file("truncate-command", 'truncate -s 0 "$OUT/file"'),
        _file("sed-in-place", 'sed -i s/untouched/written/ "$OUT/file"'),
        _file("the-users-rules", 'echo >>"$CODEX_HOME/rules/default.rules"'),
        _file("more-rules-of-the-users", 'echo >"$CODEX_HOME/rules/more.rules"'),
        _file("start-up-file", 'echo >>"$HOME/.profile"'),
        _file("git-settings-of-the-users", "git config --global alias.x y"),
        Attack("read-only-workspace", "echo >file", REFUSED, sandbox=Sandbox.READ_ONLY, bare=False),
        Attack("swapped-while-written", _SWAP, REFUSED),
    ),
)  # fmt: skip

METADATA = Class(
    "metadata of files outside",
    (
        _file("chmod-read-only", 'chmod 777 "$OUT/file"', sandbox=Sandbox.READ_ONLY),
        _file("touch-read-only", 'touch -d 2001-01-01 "$OUT/file"', sandbox=Sandbox.READ_ONLY),
        _file("chmod-in-a-workspace", 'chmod 777 "$OUT/file"', open=_METADATA),
        _file("touch-in-a-workspace", 'touch -d 2001-01-01 "$OUT/file"', open=_METADATA),
        _file("attributes", 'chattr +d "$OUT/file"', programs=("chattr",), bare=_ROOT),
    ),
)  # fmt: skip


def _ioctl(name: str, request: int, argument: str = "bytes(1024)") -> Attack:
    """On a folder open for reading. Where the file system has no such call it harms nobody."""
    program = f"""import fcntl, os
fd = os.open(os.environ["OUT"], os.O_RDONLY | os.O_DIRECTORY)
fcntl.ioctl(fd, {request:#x}, {argument})
"""
    return Attack(name, "$PYTHON -IS a.py", REFUSED, files={"a.py": program}, bare=False)


IOCTLS = Class(
    "what file systems do through a descriptor for reading",
    (
        _ioctl("btrfs-subvolume", 0x5000940E, "bytearray(8) + b'written'.ljust(4088, bytes(1))"),
        _ioctl("btrfs-snapshot", 0x50009417, "bytearray(4096)"),
        _ioctl("btrfs-default-subvolume", 0x40089413),
        _ioctl("bcachefs-subvolume", 0x4020BC10),
        _ioctl("ocfs2-reflink", 0x40186F04),
        _ioctl("ext4-extents", 0xC028660F),
        _ioctl("f2fs-atomic-write", 0xF501),
        _ioctl("xfs-extents", 0xC0C0586D),
        _ioctl("fat-attributes", 0x40047211),
        _ioctl("generation", 0x40087602),
    ),
)  # fmt: skip


def _device(name: str, script: str, **more: Unpack[More]) -> Attack:
    """Should one of these get through, it leaves all as it was."""
    return replace(_file(name, script, bare=False), **more)


DEVICES = Class(
    "devices and the kernel's own files",
    (
        _device("raw-disk", "for d in /dev/[svx]d[a-z] /dev/nvme0n1 /dev/mem; do : <>$d; done"),
        _device("make-a-disk", "mknod d b 254 0 && : <>d"),
        _device("kernel-setting", "f=/proc/sys/vm/swappiness; v=$(<$f); echo $v >$f"),
        _device("core-pattern", 'f=/proc/sys/kernel/core_pattern; v=$(<$f); echo "$v" >$f'),
        _device("control-group", "mkdir /sys/fs/cgroup/attack && rmdir /sys/fs/cgroup/attack",
                needs=frozenset({Need.CONTROL_GROUPS})),
        _device("console", "for d in /dev/tty[0-9] /dev/console; do : <>$d; done"),
    ),
)  # fmt: skip

CLASSES = (BY_PATH, METADATA, IOCTLS, DEVICES)
