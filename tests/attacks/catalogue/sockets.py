"""Talking to somebody outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import REFUSED, Attack, Class, More, Need, Sandbox, refused

_SERVICES = frozenset({Need.SERVICES})
_PREPARED = """import ctypes, os, socket
from socket import AF_INET, AF_UNIX, SOCK_DGRAM, SOCK_STREAM
out, port = os.environ["OUT"], int(os.environ["PORT"])
abstract = "\\0" + os.environ["ABSTRACT"] + "-"
libc = ctypes.CDLL(None, use_errno=True)
"""


def _python(name: str, program: str, **more: Unpack[More]) -> Attack:
    files = {"a.py": _PREPARED + program}
    return replace(Attack(name, "$PYTHON -IS a.py", REFUSED, files=files, needs=_SERVICES), **more)


def _online(name: str, program: str, **more: Unpack[More]) -> Attack:
    return replace(_python(name, program, sandbox=Sandbox.ONLINE, abi=6), **more)


_TCP = "socket.socket(AF_INET, SOCK_STREAM)"
_UNIX = "socket.socket(AF_UNIX, SOCK_STREAM)"
_LETTER = "socket.socket(AF_UNIX, SOCK_DGRAM)"
_PAIR = "socket.socketpair(AF_UNIX, SOCK_DGRAM)[0]"
# Opens /dev/tcp in the shell itself: no program is executed.
_BY_SHELL = "exec 9<>/dev/tcp/127.0.0.1/$PORT"
_BY_SHELL_UDP = "echo written >/dev/udp/127.0.0.1/$PORT"
_BY_NUMBER = """
number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
fd = libc.syscall(ctypes.c_long(number), ctypes.c_long(%s), ctypes.c_long(1), ctypes.c_long(0))
if fd < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
socket.socket(AF_INET, SOCK_STREAM, 0, fd).connect(("127.0.0.1", port))
"""
_OUT_OF_BAND = f"s = {_TCP}\ns.sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.1', port))"

NETWORK = Class(
    "the network, which is off",
    (
        Attack("tcp-by-the-shell", _BY_SHELL, REFUSED, needs=_SERVICES),
        Attack("udp-by-the-shell", _BY_SHELL_UDP, REFUSED, needs=_SERVICES),
        Attack("tcp-by-curl", "curl -sS -m 1 http://127.0.0.1:$PORT/", refused(r"curl: \(7\)"),
               needs=_SERVICES, programs=("curl",)),
        _python("tcp", f"{_TCP}.connect(('127.0.0.1', port))"),
        _python("tcp-non-blocking",
                f"s = {_TCP}\ns.setblocking(False)\ns.connect_ex(('127.0.0.1', port))"),
        _python("tcp-fast-open", _OUT_OF_BAND),
        _python("tcp-over-ipv6",
                "socket.socket(socket.AF_INET6, SOCK_STREAM).connect(('::ffff:127.0.0.1', port))"),
        _python("tcp-with-an-odd-family", _BY_NUMBER % "0x1_0000_0002"),
        _python("udp", "socket.socket(AF_INET, SOCK_DGRAM).sendto(b'x', ('127.0.0.1', port))"),
        _python("udp-sendmsg",
                "socket.socket(AF_INET, SOCK_DGRAM).sendmsg([b'x'], (), 0, ('127.0.0.1', port))"),
        _python("raw", "socket.socket(AF_INET, socket.SOCK_RAW, 1)", bare=False),
        _python("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", bare=False),
        _python("packet", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)", bare=False),
        _python("vsock", "socket.socket(socket.AF_VSOCK, SOCK_STREAM)", bare=False),
        Attack("io-uring", "$PROGRAMS/ring $PORT", REFUSED, needs=_SERVICES),
    ),
)  # fmt: skip

UNIX = Class(
    "unix sockets of services outside",
    (
        _python("path-stream", f"{_UNIX}.connect(out + '/stream')"),
        Attack("path-stream-by-curl",
               'curl -sS -m 1 --unix-socket "$OUT/stream" http://x/', refused(r"curl: \(7\)"),
               needs=_SERVICES, programs=("curl",)),
        _python("path-stream-through-link",
                f"os.symlink(out + '/stream', 's')\n{_UNIX}.connect('s')"),
        _python("path-stream-through-proc",
                f"{_UNIX}.connect(f'/proc/self/root{{out}}/stream')"),
        _python("path-datagram", f"{_LETTER}.sendto(b'x', out + '/datagram')"),
        _python("path-datagram-sendmsg", f"{_LETTER}.sendmsg([b'x'], (), 0, out + '/datagram')"),
        _python("path-datagram-of-a-pair", f"{_PAIR}.sendmsg([b'x'], (), 0, out + '/datagram')"),
        _python("abstract-stream", f"{_UNIX}.connect(abstract + 'stream')"),
        _python("abstract-datagram", f"{_LETTER}.sendto(b'x', abstract + 'datagram')"),
        _python("abstract-datagram-sendmsg",
                f"{_LETTER}.sendmsg([b'x'], (), 0, abstract + 'datagram')"),
        _python("abstract-of-a-pair", f"{_PAIR}.sendmsg([b'x'], (), 0, abstract + 'datagram')"),
        _online("abstract-stream-online", f"{_UNIX}.connect(abstract + 'stream')"),
        _online("abstract-datagram-online", f"{_LETTER}.sendto(b'x', abstract + 'datagram')"),
        _online("path-stream-online", f"{_UNIX}.connect(out + '/stream')",
                open="with the network on, pathname sockets are open as other services are"),
    ),
)  # fmt: skip

# Requests of an administrator's: for root, too. Each names an interface that is not there.
_NETLINK = """
import struct
name = b"attack-none\\0"
what = struct.pack("HH", 4 + len(name), 3) + name
body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + what
head = struct.pack("IHHII", 16 + len(body), %d, 5, 1, 0)
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.send(head + body)
code = struct.unpack_from("i", s.recv(4096), 16)[0]
if code:
    raise OSError(-code, os.strerror(-code))
"""

ADMINISTRATION = Class(
    "the network, set up anew",
    (
        _online("netlink-remove-link", _NETLINK % 17, bare=False),
        _online("netlink-change-link", _NETLINK % 19, bare=False),
        _online("raw-socket", "socket.socket(AF_INET, socket.SOCK_RAW, 1)", bare=False),
        _online("interface-down",
                "import fcntl, struct\n"
                "fcntl.ioctl(socket.socket(AF_INET, SOCK_DGRAM), 0x8914,"
                " struct.pack('16sH14x', b'attack-none', 0))", bare=False),
    ),
)  # fmt: skip

CLASSES = (NETWORK, UNIX, ADMINISTRATION)
