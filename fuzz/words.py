"""Words that are worth trying anywhere in an input of a target: libFuzzer's dictionaries."""

from __future__ import annotations

_JSON = (
    *(b"null", b"true", b"1e999", b"-0.0", b'{"', b'":', b'"]', b"\\ud800", b"\\u0000"),
    *(b"9" * 40, b"NaN", b"[[[[[[[["),
)
_POLICY = (
    *(b'"type":', b'"mode":', b'"read-only"', b'"workspace-write"', b'"external-sandbox"'),
    *(b'"network_access":', b'"access":', b'"writable_roots":'),
)
_NAMES = (b"..", b"/", b"/proc/self/", b"root", b"cwd", b"exe", b"thread-self", b"l", b"m", b"d/e")

WORDS: dict[str, tuple[bytes, ...]] = {
    "wire": (*_JSON, b'"file":', b'"argv":', b'"env":', b'"fds":', b'"signal":', b'"Deny":'),
    "session": (*_JSON, b'"id":', b'"method":', b'"params":', b'"error":', b"\n", b"\xff"),
    "tool": (*_JSON, *_POLICY, b'"timeout_ms":', b"file://localhost", b"%00", b"%ff"),
    "policy": (*_JSON, *_POLICY),
    "json": (*_JSON, b"\\", b'"a":1,', b"Infinity"),
    "rules": (
        *(b"prefix_rule(", b"network_rule(", b"host_executable(", b"match=[", b"not_match=["),
        *(b"for x in range(9):\n ", b"def f():\n ", b"lambda x:", b" % ", b"{}", b"load(", b"f'"),
    ),
    "config": (
        *(b"'''", b'"""', b"[[", b"]]\n", b" = ", b"\r\n", b"{a=1}", b"0x", b"1e9", b".", b"#"),
        *(b"[a.b]\n", b"[codex_multitool]\n", b"\0\0", b"[shell_environment_policy]\n"),
    ),
    "dotenv": (b"export ", b"${", b"}", b"\\", b"CODEX_", b"=", b"'", b'"', b"#"),
    "script": (b"$(", b"`", b"<<-E\n", b"case x in ", b"esac", b"$((", b"${", b";;&", b"<(", b"$'"),
    "command": (
        *(b"\0--\0", b"env\0", b"-S\0", b"sudo\0", b"xargs\0", b"find\0", b"-exec\0", b"git\0"),
        *(b"-C\0", b"sh\0-c\0", b"push\0", b"foreach\0", b"-c\0alias.x="),
    ),
    "environment": (
        *(b"LD_PRELOAD=", b"PATH=", b"GIT_CONFIG_COUNT=99999", b"GIT_DIR=", b"HOME=", b"PAGER=cat"),
        *(b"EDITOR=", b"CODEX_ESCALATE_SOCKET=", b"BASH_FUNC_a%%=", b"LESS=-R", b"alias.", b"\xff"),
    ),
    "program": (b"#!", b"\x7fELF", b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\t", b"ld-"),
    "execution": (
        *(b"#!./a\n", b"#!l\n", b"--preload\0", b"--library-path\0", b"--argv0\0", b"\0\0"),
        *(b"LD_LIBRARY_PATH=", *_NAMES),
    ),
    "names": (b"\0\0", *_NAMES),
    "protected": (b"gitdir: ", b"\0\0", b"../", b"d/.git", b"/proc/self/fd/3", b"\n", b"/dev/tty"),
    "loader": (
        b"--preload=",
        b"--audit\0",
        b"--library-path\0",
        b"--list\0",
        b"--\0",
        b"--argv0\0",
    ),
}
