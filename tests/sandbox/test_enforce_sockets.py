"""What sockets a confined process may make, and whom it can reach by them."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.confined import (
    CONFINED,
    FULL,
    OFFLINE,
    ONLINE,
    RESTRICTED,
    USERS,
    Workspace,
    landlock_abi,
    require_abi,
    workspace,
)

pytestmark = require_abi(1)


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Workspace:
    return workspace(request.param)


@pytest.fixture
def tcp_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


CONNECT = "socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print('connected')"


def test_tcp_takes_the_network(place: Workspace, tcp_port: int) -> None:
    for policy in (ONLINE, FULL):
        assert place.ask(policy, CONNECT, str(tcp_port)) == "connected"
    for policy in OFFLINE:
        assert place.ask(policy, CONNECT, str(tcp_port)) == "EPERM"


SOCKETS = {
    "tcp": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "tcp6": "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "icmp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "listen": "socket.create_server(('127.0.0.1', 0))",
}


@pytest.mark.parametrize("kind", SOCKETS)
def test_without_network_there_is_no_socket_of_it(place: Workspace, kind: str) -> None:
    code = SOCKETS[kind] + "\nprint('made')"
    free = place.ask(FULL, code)
    if kind != "icmp":  # net.ipv4.ping_group_range
        assert free == "made"
        assert place.ask(ONLINE, code) == "made"
    for policy in OFFLINE:
        assert place.ask(policy, code) == "EPERM"


@pytest.mark.parametrize(
    "family", [17, 31, 38, 40, 44], ids=["packet", "bt", "alg", "vsock", "xdp"]
)
def test_odd_families_are_refused_with_the_network_on_too(place: Workspace, family: int) -> None:
    code = f"socket.socket({family}, socket.SOCK_STREAM); print('made')"
    assert place.ask(ONLINE, code) == "EPERM"
    if place.user is None and family == 40:
        assert place.ask(FULL, code) != "EPERM"


def test_what_is_no_descriptor_and_what_is_no_family_is_said_as_anywhere(place: Workspace) -> None:
    libc = "libc = ctypes.CDLL(None, use_errno=True)\n"
    say = "\nprint(errno.errorcode[ctypes.get_errno()])"
    for call in ("accept(-1, 0, 0)", "bind(-1, 0, 0)", "connect(-1, 0, 0)", "listen(-1, 1)"):
        for policy in (FULL, *OFFLINE):
            assert place.ask(policy, f"{libc}libc.{call}{say}") == "EBADF", (call, policy)
    for family in (-1, 0, 46, 9999):
        for call in (f"socket({family}, 1, 0)", f"socketpair({family}, 1, 0, 0)"):
            for policy in (FULL, *OFFLINE, ONLINE):
                found = place.ask(policy, f"{libc}libc.{call}{say}")
                assert found in ("EAFNOSUPPORT", "EFAULT"), (call, policy)


def test_a_pair_of_datagram_sockets_is_refused_where_names_are_not_told_apart(
    place: Workspace,
) -> None:
    code = "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); print('made')"
    assert place.ask(FULL, code) == place.ask(ONLINE, code) == "made"
    for policy in OFFLINE:
        expected = "made" if landlock_abi() >= 9 and policy != RESTRICTED else "EPERM"
        assert place.ask(policy, code) == expected


def test_a_pair_works_with_its_options(place: Workspace) -> None:
    code = """
a, b = socket.socketpair()
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
assert a.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
assert a.getsockname() == a.getpeername() == ""
a.send(b"one"); a.sendall(b"two"); os.write(a.fileno(), b"3")
assert b.recv(3) == b"one" and b.recvfrom(3)[0] == b"two" and os.read(b.fileno(), 1) == b"3"
socket.send_fds(a, [b"fd"], [0])
assert socket.recv_fds(b, 2, 1)[0] == b"fd"
a.shutdown(socket.SHUT_WR)
assert b.recv(1) == b""
print(socket.socket(fileno=b.detach()).family == socket.AF_UNIX)
"""
    for policy in (*OFFLINE, ONLINE):
        assert place.ask(policy, code) == "True"


@pytest.fixture
def unix_server(place: Workspace) -> Iterator[str]:
    """A daemon of the user's: a stream socket, and a datagram socket beside it."""
    path = str(place.outside / "daemon")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        stream.bind(path)
        stream.listen(64)
        datagram.bind(path + ".dgram")
        for name in (path, path + ".dgram"):
            place.own(Path(name))
        yield path


UNIX = {
    "connect": "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])",
    "connect a pair again": "a, b = socket.socketpair(); a.connect(sys.argv[1])",
    "sendto": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)"
    ".sendto(b'x', sys.argv[1] + '.dgram')",
    "sendmsg": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)"
    ".sendmsg([b'x'], [], 0, sys.argv[1] + '.dgram')",
    "sendmsg, raw": "socket.socket(socket.AF_UNIX, socket.SOCK_RAW)"
    ".sendmsg([b'x'], [], 0, sys.argv[1] + '.dgram')",
    "sendmsg from a pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]"
    ".sendmsg([b'x'], [], 0, sys.argv[1] + '.dgram')",
}


@pytest.mark.parametrize("way", UNIX)
def test_sockets_of_other_programs_are_out_of_reach(
    place: Workspace, unix_server: str, way: str
) -> None:
    code = UNIX[way] + "\nprint('reached')"
    if way != "connect a pair again":
        assert place.ask(FULL, code, unix_server) == "reached"
    for policy in OFFLINE:
        assert place.ask(policy, code, unix_server) in ("EPERM", "EACCES")
    if way == "connect":
        assert place.ask(ONLINE, code, unix_server) == "reached"


def test_a_datagram_on_a_sequenced_pair_goes_to_its_peer(
    place: Workspace, unix_server: str
) -> None:
    """The pairs that are left take no address: what they are sent stays in the tree."""
    code = """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
a.sendmsg([b"mine"], [], 0, sys.argv[1] + ".dgram")
print(b.recv(9))
"""
    for policy in OFFLINE:
        assert place.ask(policy, code, unix_server) == "b'mine'"


@require_abi(6)
def test_abstract_sockets_of_other_programs_are_out_of_reach(place: Workspace) -> None:
    name = f"codex-sandbox-test-{os.getpid()}-{place.user}"
    code = "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1]); print('reached')"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen(8)
        assert place.ask(FULL, code, name) == "reached"
        for policy in CONFINED:
            assert place.ask(policy, code, name) == "EPERM"
