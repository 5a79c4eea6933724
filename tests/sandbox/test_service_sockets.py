"""Services of the user and of the system cannot be reached by their sockets with the network off.

Real sockets stand in for them, which take whatever comes. On this kernel, and as on older ones:
there the system call filter has to do what Landlock's scopes (ABI 6) and RESOLVE_UNIX (ABI 9) do.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from codex_multitool.sandbox.landlock import NEWEST_ABI
from tests.sandbox.confined import (
    FULL,
    OFFLINE,
    ONLINE,
    USERS,
    Workspace,
    landlock_abi,
    require_abi,
    workspace,
)

pytestmark = require_abi(3)

STREAM, DATAGRAM, SEQPACKET = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
# Of the kernel: what there is, then without UDP and RESOLVE_UNIX, without scopes, before TCP.
ABIS = sorted({landlock_abi(), *(abi for abi in (8, 5, 3) if abi < landlock_abi())}, reverse=True)


@dataclass(frozen=True)
class Service:
    """name: of its socket file, or after @ in the abstract namespace."""

    name: str
    kind: int


SERVICES = [
    Service("docker.sock", STREAM),
    Service("bus", STREAM),
    Service("agent.1234", STREAM),
    Service("X99", STREAM),
    Service("journal", DATAGRAM),
    Service("control", SEQPACKET),
    Service("@dbus", STREAM),
    Service("@X11", STREAM),
    Service("@datagrams", DATAGRAM),
    Service("@packets", SEQPACKET),
]

# Every way by which a name reaches the kernel; prints what became of each as JSON.
TRY = """
import json, struct
places = json.loads(sys.argv[1])
def outcome(attempt):
    try:
        attempt()
        return "sent"
    except OSError as error:
        return errno.errorcode[error.errno]
def connected(make):
    def attempt():
        s = make()
        s.connect(address)
        s.send(b"x")
    return attempt
def sendmmsg(make):
    def attempt():
        s = make()
        name = struct.pack("=H", socket.AF_UNIX) + os.fsencode(address)
        name += b"" if address.startswith(chr(0)) else bytes(1)
        text, place = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(name)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(text), 1)
        header = (ctypes.c_uint64 * 8)(
            ctypes.addressof(place), len(name), ctypes.addressof(vector), 1, 0, 0, 0, 0
        )
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.sendmmsg(s.fileno(), header, 1, 0) < 0:
            raise OSError(ctypes.get_errno(), "sendmmsg")
    return attempt
told = {}
for address, kind in places:
    address = address.replace("@", chr(0)) if address.startswith("@") else address
    fresh = lambda: socket.socket(socket.AF_UNIX, kind)
    paired = lambda: socket.socketpair(socket.AF_UNIX, kind)[0]
    ways = {}
    for name, make in (("fresh", fresh), ("paired", paired)):
        ways[name + " connect"] = connected(make)
        if kind == socket.SOCK_DGRAM:
            ways[name + " sendto"] = lambda make=make: make().sendto(b"x", address)
            ways[name + " sendmsg"] = lambda make=make: make().sendmsg([b"x"], [], 0, address)
            ways[name + " sendmmsg"] = sendmmsg(make)
    told[address] = {name: outcome(attempt) for name, attempt in ways.items()}
print(json.dumps(told))
"""


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Workspace:
    return workspace(request.param)


class Listening:
    """The services' sockets."""

    def __init__(self, place: Workspace, stack: ExitStack) -> None:
        self.sockets: list[tuple[str, socket.socket]] = []
        self.places: list[tuple[str, int]] = []
        mark = f"codex-service-{os.getpid()}-{place.user}"
        for service in SERVICES:
            made = stack.enter_context(socket.socket(socket.AF_UNIX, service.kind))
            abstract = service.name.startswith("@")
            path = f"{mark}-{service.name[1:]}" if abstract else str(place.outside / service.name)
            made.bind("\0" + path if abstract else path)
            if not abstract:
                os.chmod(path, 0o666)
            if service.kind != DATAGRAM:
                made.listen(64)
            made.setblocking(False)
            self.places.append(("@" + path if abstract else path, service.kind))
            self.sockets.append((service.name, made))

    def reached(self) -> list[str]:
        """Those to which something has come since they were last asked."""
        found = []
        for name, listening in self.sockets:
            try:
                while True:
                    if listening.type == DATAGRAM:
                        listening.recv(16)
                    else:
                        listening.accept()[0].close()
                    if name not in found:
                        found.append(name)
            except BlockingIOError:
                continue
        return found


@pytest.fixture
def services(place: Workspace) -> Iterator[Listening]:
    with ExitStack() as stack:
        yield Listening(place, stack)


def attempts(
    place: Workspace,
    policy: dict[str, object],
    services: Listening,
    newest_abi: int = NEWEST_ABI,
) -> dict[str, str]:
    """What became of each way to each service."""
    places = json.dumps(services.places)
    told = json.loads(place.ask(policy, TRY, places, newest_abi=newest_abi))
    return {f"{at}: {way}": end for at, ways in told.items() for way, end in ways.items()}


def test_without_a_sandbox_they_are_all_reached(place: Workspace, services: Listening) -> None:
    ends = attempts(place, FULL, services)
    assert services.reached() == [service.name for service in SERVICES]
    fresh = [end for way, end in ends.items() if "fresh" in way]
    assert set(fresh) == {"sent"}


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("policy", OFFLINE, ids=lambda policy: str(policy["type"]))
def test_with_the_network_off_none_is(
    place: Workspace, services: Listening, policy: dict[str, object], abi: int
) -> None:
    ends = attempts(place, policy, services, newest_abi=abi)
    assert services.reached() == []
    assert set(ends.values()) <= {"EPERM", "EACCES", "EISCONN"}, ends
    # A pair that is connected already says so, and goes nowhere else either.
    assert {way for way, end in ends.items() if end == "EISCONN"} <= {
        way for way in ends if "paired" in way
    }


@require_abi(6)
def test_with_the_network_on_scopes_keep_from_the_abstract_ones(
    place: Workspace, services: Listening
) -> None:
    attempts(place, ONLINE, services)
    assert services.reached() == [it.name for it in SERVICES if not it.name.startswith("@")]
    attempts(place, ONLINE, services, newest_abi=5)
    # What older kernels cannot do, `doctor` and docs/security.md tell.
    assert services.reached() == [service.name for service in SERVICES]
