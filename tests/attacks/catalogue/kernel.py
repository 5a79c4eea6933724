"""`git push`, which a rule forbids, past what the kernel tells the server of."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import (
    DENIED,
    REFUSED,
    STAYS,
    Attack,
    Class,
    More,
    Need,
    Outcome,
    denied,
    refused,
)

_REPOSITORY = frozenset({Need.REPOSITORY})
_SECONDS = 0.7
# Half of the tries are judged in the state in which they are harmless: those are killed.
_CAUGHT = denied("forbidden by policy|something else than was judged")


def _caller(kind: str, outcome: Outcome = DENIED, **more: Unpack[More]) -> Attack:
    return replace(
        Attack(f"caller-{kind}", f"$PROGRAMS/lone {kind}", outcome, needs=_REPOSITORY), **more
    )


def _race(kind: str) -> Attack:
    return Attack(f"race-{kind}", f"$PROGRAMS/race {kind} {_SECONDS}", _CAUGHT, needs=_REPOSITORY)


RACES = Class(
    "an exec that changes while it is judged",
    (
        *map(_race, ("word", "shared", "clone", "path", "link", "folder", "script")),
        Attack("race-allowed", f"$PROGRAMS/race allowed {_SECONDS}", STAYS,
               files={"evil/ls": "#!/bin/sh\necho written >$OUT/file\n"}),
    ),
)  # fmt: skip

CALLERS = Class(
    "a caller out of the ordinary",
    (
        _caller("thread"),
        _caller("sibling"),
        _caller("hidden", denied("forbidden by policy|could not be read")),
        _caller("listener"),
        _caller("deaf", bare=False),
        _caller("storm"),
        _caller("traced", bare=False),
        _caller("full"),
        Attack("closed-stderr", "git push origin HEAD:main 2>&-; true", DENIED, DENIED,
               needs=_REPOSITORY),
        Attack("full-stderr", "mkfifo p; exec 8<>p; dd if=/dev/zero bs=64k count=1 status=none >&8;"
               " timeout 1 git push origin HEAD:main 2>&8", DENIED, needs=_REPOSITORY),
        Attack("stopped-meanwhile",
               "git push origin HEAD:main & kill -STOP $!; sleep 0.2; kill -CONT $!; wait",
               DENIED, DENIED, needs=_REPOSITORY),
        Attack("no-memory", "ulimit -v 12000; exec git push origin HEAD:main", DENIED,
               needs=_REPOSITORY, bare=False),
        Attack("few-descriptors", "ulimit -n 6; git push origin HEAD:main", DENIED,
               needs=_REPOSITORY, bare=False),
    ),
)  # fmt: skip

_FOREIGN = (
    Attack(
        "i386", "$PROGRAMS/foreign i386; echo $?", REFUSED, REFUSED, needs=_REPOSITORY, bare=False
    ),
    Attack(
        "x32", "$PROGRAMS/foreign x32; echo $?", REFUSED, REFUSED, needs=_REPOSITORY, bare=False
    ),
)
OTHER_CALLS = Class(
    "another architecture's system calls",
    _FOREIGN if os.uname().machine == "x86_64" else (),
)

_ANCESTORS = """p=$PPID
for level in spawner keeper zygote server; do
    case $(</proc/$p/comm) in {spared}) ;; codex-*) {act};; *) break;; esac
    p=$(sed -n 's/^PPid:\\t//p' /proc/$p/status)
done
"""


def _against_us(name: str, act: str, spared: str = "none", **more: Unpack[More]) -> Attack:
    script = _ANCESTORS.format(act=act, spared=spared)
    return replace(Attack(name, script, REFUSED, REFUSED, bare=False), **more)


_FULL = '{"type": "danger-full-access"}'
_EVIL = """sh -c 'echo written >"$OUT/file"'"""
_UNSEEN = "--intercept=wrapper --shell $PATCHED"
_PATCHED = frozenset({Need.PATCHED})
_ASKED = """
{"jsonrpc": "2.0", "id": 1, "method": "initialize",
 "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}
{"jsonrpc": "2.0", "id": 2, "method": "codex/sandbox-state/update",
 "params": {"sandboxPolicy": {"type": "danger-full-access"}, "sandboxCwd": "/"}}
{"jsonrpc": "2.0", "id": 3, "method": "tools/call",
 "params": {"name": "shell", "arguments": {"workdir": "/", "command": "echo written >$OUT/file"}}}
""".replace("\n ", " ").lstrip()

OURSELVES = Class(
    "our own programs, started inside",
    (
        Attack("own-sandbox", "$OURS/codex-linux-sandbox --sandbox-policy-cwd /"
               f" --sandbox-policy '{_FULL}' -- {_EVIL}", REFUSED, REFUSED),
        Attack("own-command-line",
               f"$OURS/codex-multitool exec {_UNSEEN} -s danger-full-access -- {_EVIL}",
               REFUSED, REFUSED, needs=_PATCHED),
        Attack("own-debug-command", "$OURS/codex-multitool debug landlock"
               f" --sandbox-permission disk-full-write-access -- {_EVIL}", REFUSED, REFUSED),
        Attack("own-server",
               f"(cat asked; sleep 3) | $OURS/codex-exec-mcp-server {_UNSEEN}"
               " --execve $OURS/codex-execve-wrapper", REFUSED, REFUSED, {"asked": _ASKED},
               needs=_PATCHED),
        Attack("unknown-descriptors", "for n in $(seq 3 400); do echo '{}' >&$n; done 2>&1 |"
               " grep -o 'Bad file descriptor' | sort -u", refused("Bad file descriptor"),
               refused("Bad file descriptor"), bare=False),
    ),
)  # fmt: skip

SERVER = Class(
    "the server, its keepers and their zygote",
    (
        # Their spawner is in the sandbox, too, and no loss.
        _against_us("kill-the-server", "kill -KILL $p", "codex-spawner", abi=6),
        _against_us("stop-the-server", "kill -STOP $p", "codex-spawner", abi=6),
        _against_us("starve-the-server", "prlimit --pid $p --nofile=0:0"),
        _against_us("oom-the-server", "echo 1000 >/proc/$p/oom_score_adj"),
        _against_us("write-to-the-server",
                    "for f in /proc/$p/fd/*; do echo x >$f; done 2>&1 | grep denied"),
        _against_us("read-the-servers-environment", "tr '\\0' '\\n' </proc/$p/environ"),
        _against_us("debug-the-server", "gdb -batch -p $p -ex 'call (int)abort()'",
                    programs=("gdb",)),
    ),
)  # fmt: skip

CLASSES = (RACES, CALLERS, OTHER_CALLS, OURSELVES, SERVER)
