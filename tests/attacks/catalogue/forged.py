"""Requests that no wrapper would send, on the socket that the patched shell's programs inherit."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import (
    STAYS,
    Attack,
    Class,
    More,
    Need,
    Outcome,
    denied,
    kept_from,
    refused,
)

_EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'
PREPARED = """import array, json, os, socket, struct, sys
DATAGRAM, STREAM = socket.SOCK_DGRAM, socket.SOCK_STREAM
out, here = os.environ["OUT"], os.getcwd()
door = socket.socket(socket.AF_UNIX, DATAGRAM, 0, int(os.environ["CODEX_ESCALATE_SOCKET"]))
def rights(*fds):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
def knock(*fds, text=b"\\0"):
    door.sendmsg([text], rights(*fds))
def connect():
    ours, theirs = socket.socketpair(socket.AF_UNIX, STREAM)
    knock(theirs.fileno())
    theirs.close()
    ours.settimeout(5)
    return ours
def frame(message):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<I", len(text)) + text
def hear(stream):
    head = stream.recv(4)
    return json.loads(stream.recv(struct.unpack("<I", head)[0])) if head else "closed"
def request(file, *argv, env=None, workdir=here):
    env = dict(os.environ) | {"OUT": out} if env is None else env
    return {"file": file, "argv": argv, "workdir": workdir, "env": env}
def ask(*words, fds=(0, 1, 2), numbers=None, **more):
    stream = connect()
    stream.sendmsg([frame(request(*words, **more))])
    answer = hear(stream)
    print(answer)
    if answer == {"action": "Escalate"}:
        numbers = list(fds) if numbers is None else numbers
        stream.sendmsg([frame({"fds": numbers})], rights(*fds))
        print(hear(stream))
def closed(stream):
    print(hear(stream))
"""


def _forged(name: str, program: str, wrapper: Outcome, **more: Unpack[More]) -> Attack:
    files = {"a.py": PREPARED + program, "ls": _EVIL}
    return replace(Attack(name, "$PYTHON -IS a.py", None, wrapper, files, bare=False), **more)


_RUNS_INSIDE = refused(r"^\{'action': 'Run'\}$")
_CLOSED = refused("^closed$|ConnectionResetError|BrokenPipeError")
_ENDS = r"'exit_code'|^closed$|ConnectionResetError"
_ENDED = refused(_ENDS)

LIES = Class(
    "lies about the program",
    (
        _forged("own-program", "ask('./ls', 'ls')", STAYS),
        _forged("own-program-absolute", "ask(here + '/ls', '/usr/bin/ls')", STAYS),
        _forged("own-program-by-folder", "ask('ls', 'ls', workdir=here)", STAYS),
        _forged("own-program-from-root",
                "ask(here[1:] + '/ls', 'ls', workdir='/')", STAYS),
        _forged("another-argv-0", "ask('/bin/sh', 'ls', '-c', 'echo written >$OUT/file')",
                _RUNS_INSIDE),
        _forged("servers-own-descriptor",
                "for n in range(3, 30):\n    ask('/proc/self/fd/%d' % n, 'ls')",
                refused("'Run'")),
        _forged("servers-own-program",
                "ask('/proc/self/exe', 'report', '-c', 'open(\"/dev/null\")')", _RUNS_INSIDE),
        _forged("servers-own-folder", "ask('/proc/self/cwd/own-folder/ls', 'ls')",
                refused("'Run'")),
        _forged("forbidden", "ask('/usr/bin/git', 'git', 'push', 'origin', 'HEAD:main')",
                denied("forbidden by policy"), needs=frozenset({Need.REPOSITORY})),
        _forged("environment",
                "ask('/usr/bin/ls', 'ls', env={'OUT': out,"
                " 'LD_PRELOAD': os.environ['PROGRAMS'] + '/evil.so'})",
                kept_from("LD_PRELOAD")),
        _forged("folder-outside", "ask('ls', 'ls', workdir='/usr/bin')", _ENDED),
        _forged("no-folder", "ask('/usr/bin/ls', 'ls', workdir='/nonexistent')", _CLOSED),
    ),
)  # fmt: skip

BROKEN = Class(
    "broken messages",
    (
        _forged("huge-frame", "s = connect(); s.sendmsg([b'\\xff' * 4]); closed(s)", _CLOSED),
        _forged("not-json", "s = connect(); s.sendmsg([frame(b'{')]); closed(s)", _CLOSED),
        _forged("deep-json", "s = connect(); s.sendmsg([frame(b'[' * 90000)]); closed(s)", _CLOSED),
        _forged("wrong-types",
                "for bad in (1, [], {}, {'file': 1}, {**request('ls', 'ls'), 'argv': 'ls'},\n"
                "            {**request('ls', 'ls'), 'env': [1]}, {**request('ls'), 'argv': []},\n"
                "            request('l\\0s', 'ls'), request('ls', 'ls', workdir='.'),\n"
                "            request('ls', 'ls', env={'A=B': ''})):\n"
                "    s = connect(); s.sendmsg([frame(bad)]); closed(s)", _CLOSED),
        _forged("cut-off", "s = connect(); s.sendmsg([frame(request('/usr/bin/ls', 'ls'))[:20]])\n"
                "s.close(); print('closed')", _CLOSED),
        _forged("too-early",
                "s = connect(); s.sendmsg([frame({'fds': [0]})], rights(0)); closed(s)", _CLOSED),
        _forged("no-descriptor", "knock(); ask('ls', 'ls', workdir='/usr/bin')", _ENDED),
        _forged("two-descriptors", "knock(0, 1); ask('ls', 'ls', workdir='/usr/bin')", _ENDED),
        _forged("many-descriptors",
                "knock(*[0] * 253); ask('ls', 'ls', workdir='/usr/bin')", _ENDED),
        _forged("not-a-socket",
                "knock(os.open('.', 0)); knock(os.pipe()[0]); ask('ls', 'ls', workdir='/usr/bin')",
                _ENDED),
        _forged("the-door-itself",
                "knock(door.fileno()); ask('ls', 'ls', workdir='/usr/bin')", _ENDED),
        _forged("flood-of-descriptors",
                "for n in range(200):\n    knock(*[0] * 253)\nask('ls', 'ls', workdir='/usr/bin')",
                refused(f"{_ENDS}|Too many references")),  # ETOOMANYREFS, unix(7)
        _forged("flood-of-connections",
                "some = [connect() for n in range(60)]\nask('ls', 'ls', workdir='/usr/bin')",
                _ENDED),
    ),
)  # fmt: skip

DESCRIPTORS = Class(
    "lies about descriptors",
    (
        _forged("fewer-than-said",
                "ask('ls', 'ls', workdir='/usr/bin', numbers=[0, 1, 2, 3])", _CLOSED),
        _forged("one-number-twice",
                "ask('ls', 'ls', workdir='/usr/bin', numbers=[1, 1, 1])", _CLOSED),
        _forged("negative-number",
                "ask('ls', 'ls', workdir='/usr/bin', numbers=[0, 1, -1])", _CLOSED),
        _forged("high-number",
                "ask('ls', 'ls', workdir='/usr/bin', numbers=[0, 1, 999999])", _ENDED),
        _forged("no-signal", "s = connect(); s.sendmsg([frame(request('/usr/bin/ls', 'ls'))])\n"
                "hear(s); s.sendmsg([frame({'fds': [1]})], rights(1))\n"
                "s.sendmsg([frame({'signal': 9999})]); closed(s)", _ENDED),
    ),
)  # fmt: skip

CLASSES = (LIES, BROKEN, DESCRIPTORS)
