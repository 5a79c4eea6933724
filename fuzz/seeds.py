"""What the fuzzers begin with: one or more inputs for each target that get past its first test."""

from __future__ import annotations

import os
import struct

_REQUEST = (
    b'{"file":"/bin/ls","argv":["ls","\\udcff"],"workdir":"/","env":{"A":"b"},"codex_multitool":1}'
)
_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{"elicitation":{"form":{}}}}}\n'
)
_CALL = (
    b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"command":"ls","workdir":"/",'
    b'"timeout_ms":1.0,"login":false}}\n'
)
_STATE = (
    b'{"sandboxPolicy":{"type":"workspace-write","writable_roots":["/a"],"network_access":true,'
    b'"exclude_slash_tmp":true},"sandboxCwd":"file:///a%20b"}'
)
_UPDATE = (
    b'{"jsonrpc":"2.0","id":2,"method":"codex/sandbox-state/update","params":' + _STATE + b"}\n"
)
_ANSWER = (
    b'{"jsonrpc":"2.0","id":"server-1","result":{"action":"accept","content":{"reason":"x"}}}\n'
    b'{"jsonrpc":"2.0","id":"server-1","error":{"code":-1,"message":"no"}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n'
)
_POLICIES = (
    b'{"type":"read-only","access":{"type":"full-access"}}',
    b'{"mode":"workspace-write","writable_roots":["/a","\\u00e9\\ud83d\\ude00"]}',
    b'{"type":"external-sandbox","network_access":"enabled"}',
)
_JSON = (b'[-0.5e+3,12,true,false,null,"\\n\\u00e9",{"a":{}},[]]', b' "\\ud83d\\ude00" ', b"0")
_RULES = (
    (
        b'prefix_rule(pattern=["git",["push","pull"]],decision="forbidden",justification="no",'
        b'match=["git push",["git","pull"]],not_match=["git add"])\n'
        b'host_executable(name="git",paths=["/usr/bin/git"])\n'
        b'network_rule(host="example.org",protocol="https",decision="allow")\n'
    ),
    b"def f(x):\n  return [x for _ in range(3)]\nfor n in f('a'):\n  prefix_rule([n])\n",
)
_CONFIG = (
    b'sandbox_mode = "workspace-write"\nproject_root_markers = [".git"]\n'
    b'[sandbox_workspace_write]\nwritable_roots = ["/a", "~/b"]\n'
    b'[shell_environment_policy]\ninherit = "all"\nset = {A = "b"}\n'
    b'[shell_environment_policy.filters]\n"A*" = "exclude"\n'
    b'[projects."/x"]\ntrust_level = "trusted"\n'
    b'[codex_multitool]\nmax_memory = "1G"\napproval_timeout = "1m"\nrules = ["r"]\0\0'
    b'sandbox_mode = "read-only"\na = [[1, 2020-01-01 00:00:00], """x""", \'y\']\n[[t]]\nb.c = 1'
    b'\0\0shell_environment_policy.exclude=["A"]'
)
_DOTENV = b"A=b # c\nexport B='x\ny'\nC=\"$A ${B} \\n\"\nD=\\ e\nCODEX_X=1\n"
_SCRIPTS = (
    b"if x; then a=b rm -rf \"$(echo `c`)\" 'd' & fi | while read x; do y; done <<E >f\nz\nE\n",
    b"case x in a|b) c;; *) d ;& esac; f() { g; }; ((1+2)); [[ a = b ]]; $'\\x41' ${a:-$(b)} <(c)",
)
_COMMANDS = (
    b"env\0-S\0A=b git -c alias.x=!y x",
    b"sudo\0-u\0me\0sh\0-c\0find . -exec rm {} ;",
    b"git\0-C\0.\0push\0--force\0origin\0:x",
)
_ENVIRONMENT = (
    b"git\0-c\0a.b=c\0x\0\0alias.x\n!y\0core.pager\nless\0\0"
    b"PATH=/w:/bin::.\0LD_PRELOAD=/w/e.so\0GIT_CONFIG_COUNT=1\0EDITOR=vi\0PAGER=cat\0A=b"
)


def _elf(kind: int, *segments: tuple[int, int, int, int], tail: bytes = b"") -> bytes:
    """An ELF file. segments: type, offset, address, size (elf(5))."""
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "=HHIQQQIHHHHHH", kind, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    table = b"".join(
        struct.pack("=IIQQQQQQ", which, 4, offset, address, address, size, size, 8)
        for which, offset, address, size in segments
    )
    return (header + table).ljust(400, b"\0") + tail


_NAMES = struct.pack("=qQqQqQ", 14, 1, 5, 448, 0, 0) + b"\0ld-linux-x86-64.so.2\0"
_LOADER = _elf(3, (1, 0, 0, 500), (2, 400, 400, 48), tail=_NAMES)
_ELF = _elf(2, (3, 400, 400, 8), (1, 0, 0, 500), tail=b"/lib/ld\0")
_SCRIPT = b"#! \t/bin/sh  -x y\t\necho"
_POINTERS = struct.pack("<HHH", 0, 0, 3) + struct.pack("<HHH", 32760, 100, 0xFFFB) + b"a\0bc\0"

SEEDS: dict[str, tuple[bytes, ...]] = {
    "wire": (
        b"\0" + _REQUEST,
        b'\1{"action":{"Deny":{"reason":"x"}}}',
        b'\1{"action":"Run"}',
        b'\2{"fds":[0,1,2]}',
        b'\3{"exit_code":1,"signal":9}',
        b'\4{"signal":15}',
    ),
    "session": (b"\7" + _INITIALIZE + _CALL + _UPDATE, b"\0" + _INITIALIZE + _ANSWER, b"\1\xff\n"),
    "tool": (
        _STATE,
        b'{"command":"x","workdir":"/","timeout_ms":1e2}',
        b'{"elicitation":{}}',
        b'{"sandboxPolicy":{"type":"read-only"},"sandboxCwd":"\\ud800"}',
    ),
    "policy": (*_POLICIES, b"{"),
    "json": (*_JSON, *_POLICIES),
    "rules": _RULES,
    "config": (_CONFIG, b"\0\0\0\0a.b=c", b'"a\\u00e9"."b" = {c = [{d=1}]}\0\0'),
    "dotenv": (_DOTENV,),
    "script": _SCRIPTS,
    "command": _COMMANDS,
    "environment": (_ENVIRONMENT,),
    "pointers": (_POINTERS, _POINTERS[:6] + bytes(range(1, 256)) * 40),
    "program": (_SCRIPT, _LOADER, _ELF, b"#!/bin/sh" + b" " * 260),
    "execution": (
        b"\0\0".join((b"a", b"a\0--preload\0x\0b", b"b", b"#!l x\n", b"#!c\n", _SCRIPT)),
        b"\0\0".join((b"l", b"l\0--library-path\0.\0b", b"a", b"#!c\n", b"", b"#!./b\n")),
        b"\0\0".join((b"/proc/self/cwd", b"", b"", b"", b"", b"")),
    ),
    "names": (
        b"\1l/../m/.\0\0d/e\0\0/proc/self/cwd",
        b"\0/proc/self/root//dev/null/\0\0m\0\0l",
        b"\1//proc/thread-self/exe\0\0..\0\0.",
    ),
    "loader": (b"ld.so\0--preload\0x\0--argv0=a\0--\0ls\0-l", b"ld.so\0--list\0ls"),
    "protected": (
        b"\0\1gitdir: d/x\0\0\x0f\0\0\0\x10\1[core]\n\0\0\x0a\1set\0\0\x0c\1a = 1",
        b"\0\0\0\0\2\1../d/.git\0\0\4\1#!/bin/sh\0\0\7\0\0\0\x09\1x\0\0\x0f\2../.git",
        b"\0\2d\0\0\x0b\2..\0\0\x0a\2/etc/passwd\0\0\x0e\1{}\0\0\x0d\2.codex",
    ),
    "relay": (b"15\n\n2\nx\n99\n",),
}


def large(name: str) -> list[bytes]:
    """The seeds repeated: what takes long to read shows there."""
    return [seed * (16384 // len(seed) + 1) for seed in SEEDS[name] if seed]


def loaders() -> list[bytes]:
    """The first bytes of this machine's own loader and shell."""
    found = []
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/bin/sh"):
        try:
            with open(os.path.realpath(path), "rb") as file:
                found.append(file.read(4096))
        except OSError:
            continue
    return found
