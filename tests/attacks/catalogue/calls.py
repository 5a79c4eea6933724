"""Writing outside the workspace by a system call that no shell makes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import REFUSAL, REFUSED, Attack, Class, More, Need, refused

_ROOT = os.getuid() == 0
_PREPARED = """import ctypes, mmap, os
out, victim = os.environ["OUT"], os.environ.get("VICTIM")
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name + ": " + os.strerror(ctypes.get_errno()))
    return result
def path(name):
    return os.fsencode(out + "/" + name)
"""


def _python(name: str, program: str, **more: Unpack[More]) -> Attack:
    files = {"a.py": _PREPARED + program}
    return replace(Attack(name, "$PYTHON -IS a.py", REFUSED, files=files), **more)


def _at_victim(name: str, program: str) -> Attack:
    return _python(name, program, needs=frozenset({Need.VICTIM}))


_BY_HANDLE = """
handle, mount = ctypes.create_string_buffer(136), ctypes.c_int()
handle[0] = 128
call("name_to_handle_at", -100, path("file"), handle, ctypes.byref(mount), 0)
os.write(call("open_by_handle_at", os.open(out, os.O_RDONLY), handle, os.O_WRONLY), b"written")
"""
_MAPPED = """
memory = mmap.mmap(os.open(out + "/file", os.O_RDWR), 4)
memory[:] = b"hack"
"""
_COPIED = """
open("f", "w").write("written")
os.copy_file_range(os.open("f", os.O_RDONLY), os.open(out + "/file", os.O_WRONLY), 7)
"""
_DUMPED = """
import contextlib, resource
with contextlib.suppress(ValueError):
    resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
os.chdir(out)
if os.fork() == 0:
    os.abort()
os.wait()
open("core", "w")
"""
_MOVED = """
os.mkdir("d")
call("renameat2", -100, b"d", -100, os.fsencode(out), 2)
"""

FILES = Class(
    "writing outside by a system call",
    (
        _python("truncate", "call('truncate', path('file'), 0)"),
        _python("truncated-for-reading", "os.open(out + '/file', os.O_RDONLY | os.O_TRUNC)"),
        _python("reopened", "fd = os.open(out + '/file', os.O_RDONLY)\n"
                "os.write(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY), b'written')"),
        _python("reopened-from-a-path", "fd = os.open(out + '/file', os.O_PATH)\n"
                "os.write(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY), b'written')"),
        _python("unnamed-file-linked", "fd = os.open('.', os.O_TMPFILE | os.O_RDWR)\n"
                "call('linkat', -100, b'/proc/self/fd/%d' % fd, -100, path('new'), 0x400)"),
        _python("folders-exchanged", _MOVED),
        _python("shared-mapping", _MAPPED),
        _python("copy-file-range", _COPIED),
        _python("by-handle", _BY_HANDLE, needs=frozenset({Need.HANDLES}), bare=_ROOT),
        _python("core-dump", _DUMPED),
        _at_victim("root-of-another", "open(f'/proc/{victim}/root{out}/file', 'w')"),
        _at_victim("folder-of-another", "open(f'/proc/{victim}/cwd/file', 'w')"),
        _at_victim("descriptor-of-another", "open(f'/proc/{victim}/fd/3', 'w').write('written')"),
    ),
)  # fmt: skip

VIEWS = Class(
    "another view of the file system",
    (
        Attack("mount", 'mount --bind . "$OUT" && echo >"$OUT/new"',
               refused(REFUSAL + "|must be superuser"), bare=False),
        Attack("mount-namespace", 'unshare -m sh -c \'mount -t tmpfs x "$OUT"; echo >"$OUT/file"\'',
               REFUSED, bare=False),
        Attack("user-namespace", 'unshare -r sh -c \'echo written >"$OUT/file"\'', REFUSED),
        _python("root-directory", "os.chroot('/')\nopen(out + '/file', 'w')", bare=_ROOT),
        _python("namespaces-of-another",
                "call('setns', os.open(f'/proc/{victim}/ns/mnt', os.O_RDONLY), 0)\n"
                "open(out + '/file', 'w')",
                needs=frozenset({Need.VICTIM, Need.OWN_ROOT}), bare=_ROOT),
    ),
)  # fmt: skip

CLASSES = (FILES, VIEWS)
