"""`git push`, which a rule forbids, from a file that goes by another name or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import (
    DENIED,
    OWN_COPY,
    REFUSED,
    UNSEEN,
    Attack,
    Class,
    More,
    Need,
    Outcome,
)
from tests.attacks.attack import confined as _confined
from tests.executables import loader

_REPOSITORY = frozenset({Need.REPOSITORY})
_LOADER = loader()


def _named(name: str, script: str, wrapper: Outcome = DENIED, **more: Unpack[More]) -> Attack:
    return replace(Attack(name, script, DENIED, wrapper, needs=_REPOSITORY), **more)


def _own(name: str, script: str, outcome: Outcome = OWN_COPY, **more: Unpack[More]) -> Attack:
    return replace(Attack(name, script, outcome, outcome, needs=_REPOSITORY), **more)


# Wrapper mode does not see it, and it runs inside.
_UNSEEN_INSIDE = Outcome(output="strict ran")


def _led(name: str, script: str, wrapper: Outcome = DENIED) -> Attack:
    """A program with a forbidden one for its loader: `p`."""
    made = "cp $PROGRAMS/led p; ln -s $PROGRAMS/strict interp"
    return Attack(name, f"{made}; {script}", DENIED, wrapper, bare=False)


_LED_IN_MEMORY = """
import os
fd = os.memfd_create("p", 0)
os.write(fd, open("p", "rb").read())
os.execve(fd, ["p"], os.environ)
"""
# The one that names the loader stands last, and the table at the end of the file.
_MANY_HEADERS = """
import struct
data = bytearray(open("p", "rb").read())
at, count = struct.unpack_from("=Q", data, 32)[0], struct.unpack_from("=H", data, 56)[0]
headers = [data[at + 56 * n : at + 56 * n + 56] for n in range(count)]
leads = [it for it in headers if it[:4] == b"\\3\\0\\0\\0"]
others = [it for it in headers if it[:4] not in (b"\\3\\0\\0\\0", b"\\6\\0\\0\\0")]
headers = others + [struct.pack("=IIQQQQQQ", 0, *[0] * 7)] * 900 + leads
struct.pack_into("=Q", data, 32, len(data))
struct.pack_into("=H", data, 56, len(headers))
open("p", "wb").write(data + b"".join(headers))
"""
_DESCRIPTOR = """
import os
fd = os.open("/usr/bin/git", os.O_PATH)
os.execve(fd, ["ls", "push", "origin", "HEAD:main"], os.environ)
"""
_IN_DIRECTORY = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
words = [b"ls", b"push", b"origin", b"HEAD:main", None]
names = [os.fsencode(name + "=" + value) for name, value in os.environ.items()] + [None]
libc.syscall({"x86_64": 322, "aarch64": 281}[os.uname().machine], os.open("/usr", os.O_PATH),
    b"bin/git", (ctypes.c_char_p * 5)(*words), (ctypes.c_char_p * len(names))(*names), 0)
"""
_IN_MEMORY = """
import os
fd = os.memfd_create("git", 0)
os.write(fd, open("/usr/bin/git", "rb").read())
os.execve(fd, ["git", "push", "origin", "HEAD:main"], os.environ)
"""
_WITHOUT_NAME = """
import os
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o755)
os.write(fd, open("/usr/bin/git", "rb").read())
fd2 = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
os.close(fd)
os.execve(fd2, ["git", "push", "origin", "HEAD:main"], os.environ)
"""


def _execute(*words: str) -> str:
    """Python that executes a file of the working directory by its bare name."""
    return f'import os; os.execv("{words[0]}", "{" ".join(words)}".split())'


ANOTHER_PATH = Class(
    "a forbidden program by another path",
    (
        _named("absolute", "/usr/bin/git push origin HEAD:main"),
        _named("slashes-and-dots", "/usr//lib/./../bin/git push origin HEAD:main"),
        _named("relative", "cd /usr/lib; ../bin/git -h >/dev/null; cd $OLDPWD;"
               " ../../../../../../../../../usr/bin/git push origin HEAD:main"),
        _named("merged-directory", "/bin/git push origin HEAD:main"),
        _named("proc-root", "/proc/self/root/usr/bin/git push origin HEAD:main"),
        _named("proc-root-of-the-shell", "/proc/$$/root/usr/bin/git push origin HEAD:main"),
        _named("proc-cwd",
               "p=$PWD; cd /usr/bin; (cd $p; exec /proc/$$/cwd/git push origin HEAD:main)"),
        _named("proc-fd", "exec 9</usr/bin/git; /proc/self/fd/9 push origin HEAD:main"),
        _named("dev-fd", "exec 9</usr/bin/git; /dev/fd/9 push origin HEAD:main"),
        _named("directory-descriptor",
               "exec 9</usr/bin; /proc/self/fd/9/git push origin HEAD:main"),
        _named("symlink", "ln -s /usr/bin/git ls; ./ls push origin HEAD:main"),
        _named("symlinks",
               "ln -s /usr/bin/git a; ln -s a b; ln -s $PWD/b ls; ./ls push origin HEAD:main"),
        _named("symlinked-directory", "ln -s /usr/bin d; d/git push origin HEAD:main"),
        _named("symlink-on-path", "ln -s /usr/bin/git ls; PATH=.:$PATH ls push origin HEAD:main"),
        _named("git-in-its-folder", '"$(git --exec-path)/git" push origin HEAD:main'),
        _named("fexecve", f"$PYTHON -c '{_DESCRIPTOR}'", UNSEEN),
        _named("execveat", f"$PYTHON -c '{_IN_DIRECTORY}'", UNSEEN),
        Attack("hard-link", "ln /usr/bin/git ls && ./ls push origin HEAD:main", REFUSED,
               needs=_REPOSITORY, bare=False),
    ),
)  # fmt: skip

BY_ANOTHER = Class(
    "the kernel or the loader opens a forbidden program",
    (
        _led("loader-of-its-own", "./p"),
        _led("loader-of-its-own-absolute", "cp $PROGRAMS/led-absolute p; ./p"),
        _led("loader-of-a-script", "printf '#!./p\\n' >s; chmod +x s; ./s"),
        _led("loader-of-a-file-in-memory", f"$PYTHON -c '{_LED_IN_MEMORY}'", _UNSEEN_INSIDE),
        _led("loader-behind-many-headers", f"$PYTHON -c '{_MANY_HEADERS}'; ./p"),
        _led("loader-that-turns",
             "ln -sf /usr/bin/true interp; ./p; ln -sf $PROGRAMS/strict interp; ./p"),
        _named("loader", f"{_LOADER} /usr/bin/git push origin HEAD:main"),
        _named("loader-argv0", f"{_LOADER} --argv0 ls /usr/bin/git push origin HEAD:main"),
        _named("loader-preload",
               f"{_LOADER} --preload /lib/*/libm.so.6 /usr/bin/git push origin HEAD:main"),
        _named("loader-library-path", f"{_LOADER} --library-path /lib:/usr/lib"
               " --inhibit-cache /usr/bin/git push origin HEAD:main", bare=False),
        _named("loader-link", f"ln -s {_LOADER} ls; ./ls /usr/bin/git push origin HEAD:main"),
        _named("loader-copy", f"cp {_LOADER} ls; ./ls /usr/bin/git push origin HEAD:main"),
        _named("interpreter", f"$PYTHON -c '{_execute('push', 'origin', 'HEAD:main')}'", UNSEEN,
               files={"push": "#!/usr/bin/git\n"}),
        _named("interpreter-env", f"$PYTHON -c '{_execute('origin', 'HEAD:main')}'", UNSEEN,
               files={"origin": "#!/usr/bin/env -S git push\n"}),
        _named("interpreter-loader", f"$PYTHON -c '{_execute('push', 'origin', 'HEAD:main')}'",
               UNSEEN, files={"push": "#!@loader@ /usr/bin/git\n"}),
        _named("interpreter-of-interpreter", f"$PYTHON -c '{_execute('origin', 'HEAD:main')}'",
               UNSEEN, files={"origin": "#!push\n", "push": "#!/usr/bin/git\n"}),
    ),
)  # fmt: skip

A_COPY = Class(
    "a copy of a forbidden program",
    (
        _named("copy", "cp /usr/bin/git git; ./git push origin HEAD:main"),
        _own("renamed-copy", "cp /usr/bin/git ls; ./ls push origin HEAD:main"),
        _own("copy-in-shared-memory",
             "cp /usr/bin/git /dev/shm/$$; /dev/shm/$$ push origin HEAD:main; rm /dev/shm/$$"),
        _own("memfd", f"$PYTHON -c '{_IN_MEMORY}'"),
        _own("unnamed-file", f"$PYTHON -c '{_WITHOUT_NAME}'"),
        _own("loader-of-a-copy", f"cp /usr/bin/git ls; {_LOADER} ./ls push origin HEAD:main"),
        _own("user-space-exec", "$PROGRAMS/load /usr/bin/git push origin HEAD:main",
             _confined("the kernel executes nothing")),
        _own("no-program-at-all",
             "p=$(git rev-parse HEAD); mkdir -p remote.git/refs/heads;"
             " cp -r .git/objects remote.git;"
             """ echo $p >remote.git/refs/heads/main; echo x >"$OUT/pushed" """,
             _confined("the shell's own commands execute nothing")),
    ),
)  # fmt: skip

CLASSES = (ANOTHER_PATH, BY_ANOTHER, A_COPY)
