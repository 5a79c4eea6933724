"""Something that is not the allowed program wants to leave the sandbox in its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import (
    HARMLESS,
    STAYS,
    Attack,
    Class,
    More,
    Need,
    Outcome,
    refused,
)
from tests.executables import loader

_LOADER = loader()
_EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'
_STAYS_INSIDE = Outcome(output="Permission denied")


def _evil(name: str, script: str, *, outcome: Outcome = STAYS, **more: Unpack[More]) -> Attack:
    """`ls` in the working directory writes outside."""
    files = {"ls": _EVIL}
    return replace(Attack(name, script, outcome, outcome, files), **more)


_NAMED_MEMFD = """
import os
fd = os.memfd_create("ls", 0)
os.write(fd, open("./ls", "rb").read())
os.execve("/proc/self/fd/%d" % fd, ["ls"], os.environ)
"""
_DELETED = """
import os
fd = os.open("ls", os.O_RDONLY)
os.remove("ls")
os.set_inheritable(fd, True)
os.execve("/proc/self/fd/%d" % fd, ["ls"], os.environ)
"""
_COPIED = """
import os
fd = os.memfd_create("ls", 0)
os.write(fd, open("/bin/sh", "rb").read())
os.execve(fd, ["ls", "-c", "echo written >$OUT/file"], os.environ)
"""

WRITTEN_BY_THE_SANDBOX = Class(
    "a program of the sandbox's own under an allowed name",
    (
        _evil("in-the-workspace", "./ls"),
        _evil("on-path", "PATH=.:$PATH ls"),
        _evil("on-path-absolute", "PATH=$PWD:$PATH; ls"),
        _evil("absolute-path", '"$PWD/ls"'),
        _evil("through-proc-root", '"/proc/self/root$PWD/ls"'),
        _evil("through-proc-cwd", "/proc/self/cwd/ls"),
        _evil("exec-a-trusted-path", "exec -a /usr/bin/ls ./ls"),
        _evil("hashed", "hash -p $PWD/ls ls; ls"),
        Attack("by-env", "env PATH=.:$PATH ls", STAYS, _STAYS_INSIDE, {"ls": _EVIL}),
        _evil("symlink-to-it", "mkdir bin; ln -s ../ls bin/ls; bin/ls"),
        _evil("symlink-named-so", "mv ls x; ln -s x ls; ./ls", outcome=_STAYS_INSIDE),
        _evil("hard-link-named-so", "mv ls x; ln x ls; ./ls"),
        _evil("shared-memory", "cp ls /dev/shm/deploy; /dev/shm/deploy; rm /dev/shm/deploy"),
        _evil("copied-shell", """cp /bin/sh ls; ./ls -c 'echo written >"$OUT/file"'"""),
        _evil("host-program-through-link",
              """ln -sf /bin/sh ls; ./ls -c 'echo written >"$OUT/file"'""", outcome=_STAYS_INSIDE),
        _evil("loader-of-own-shell",
              f"cp /bin/sh ls; {_LOADER} ./ls -c 'echo written >\"$OUT/file\"'",
              outcome=_STAYS_INSIDE),
        _evil("loader-named-so", f"cp {_LOADER} ls;"
              " ./ls /bin/sh -c 'echo written >\"$OUT/file\"'"),
        _evil("memfd-named-so", f"$PYTHON -c '{_NAMED_MEMFD}'", outcome=_STAYS_INSIDE),
        _evil("memfd-of-a-shell", f"$PYTHON -c '{_COPIED}'", outcome=_STAYS_INSIDE),
        _evil("deleted", f"$PYTHON -c '{_DELETED}'", outcome=_STAYS_INSIDE),
        _evil("allowed-script", "cp ls deploy; ./deploy"),
        _evil("other-name-in-between", "mv ls x; ln -s x deploy; ./deploy", outcome=_STAYS_INSIDE),
    ),
)  # fmt: skip

_RUN = """-c 'import os; open(os.environ["OUT"] + "/file", "w")'"""


def _link(name: str, script: str, outcome: Outcome = _STAYS_INSIDE, **more: Unpack[More]) -> Attack:
    """A name that the rules allow leads to Python, which they do not."""
    return replace(Attack(name, f"{script} {_RUN}", outcome, outcome), **more)


NAMES_THAT_LEAD_ELSEWHERE = Class(
    "an allowed name that leads to another program",
    (
        _link("link", "ln -s $PYTHON ls; ./ls"),
        _link("link-through-proc", "ln -s $PYTHON ls; /proc/$$/cwd/ls"),
        _link("link-through-proc-root", "ln -s $PYTHON ls; /proc/$$/root$PWD/ls"),
        _link("link-through-proc-self", "ln -s $PYTHON ls; /proc/self/cwd/ls"),
        _link("link-through-descriptor", "ln -s $PYTHON ls; exec 9<.; /dev/fd/9/ls"),
        _link("link-through-a-link-outside", "ln -s $PYTHON ls; $BIN/ws/${PWD##*/}/ls"),
        # By its text the name is $BIN/ls, by way of the link it is ./deep$BIN/ls.
        _link("link-behind-dot-dot",
              "mkdir -p deep/1/2/3/4/5/6/7/8/9 deep$BIN; ln -s $PYTHON deep$BIN/ls;"
              ' up=$(echo "$PWD/l" | sed "s,/[^/]*,/..,g"); n=$(echo "$up" | tr -dc / | wc -c);'
              ' d=deep; for i in $(seq $n); do d=$d/x; mkdir -p $d; done; ln -s $PWD/$d l;'
              " $PWD/l$up$BIN/ls"),
        _link("link-outside-into-the-workspace", "ln -s $PYTHON target; linked"),
    ),
)  # fmt: skip

HANDED_TO_THE_TRUSTED = Class(
    "the allowed program is made to load the sandbox's code",
    (
        Attack("preload-by-loader", f"{_LOADER} --preload $PROGRAMS/evil.so /usr/bin/ls",
               _STAYS_INSIDE, _STAYS_INSIDE),
        Attack("audit-by-loader", f"{_LOADER} --audit $PROGRAMS/evil.so /usr/bin/ls",
               _STAYS_INSIDE, _STAYS_INSIDE, bare=False),
        Attack("library-path-by-loader",
               f"cp $PROGRAMS/evil.so libc.so.6; {_LOADER} --library-path . /usr/bin/ls",
               refused("."), refused("."), bare=False),
        Attack("interpreter-in-the-workspace", "with-interpreter", STAYS, STAYS, {"run": _EVIL}),
        Attack("relative-interpreter", "relative", STAYS, STAYS, {"run": _EVIL}),
    ),
)  # fmt: skip

_REPOSITORY = frozenset({Need.REPOSITORY})
# Of `git status` no rule says that it may archive.
_ARCHIVE = 'git branch status; (exec -a git-archive {} status --output="$OUT/new")'

CALLED_BY_ANOTHER_NAME = Class(
    "an allowed program that does what it is called by",
    (
        Attack("argv-0-of-the-allowed", _ARCHIVE.format("git"), HARMLESS, HARMLESS,
               needs=_REPOSITORY),
        Attack("link-to-the-allowed",
               'git branch status; "$(git --exec-path)/git-archive" status --output="$OUT/new"',
               HARMLESS, HARMLESS, needs=_REPOSITORY),
        Attack("own-link-to-the-allowed", "ln -s /usr/bin/git git-archive; git branch status;"
               ' ./git-archive status --output="$OUT/new"', HARMLESS, HARMLESS, needs=_REPOSITORY),
    ),
)  # fmt: skip

CLASSES = (
    WRITTEN_BY_THE_SANDBOX,
    NAMES_THAT_LEAD_ELSEWHERE,
    HANDED_TO_THE_TRUSTED,
    CALLED_BY_ANOTHER_NAME,
)
