"""Role: stand in for one exec of a patched shell.

Asks the server whether the program may run, then executes it here (Run), lends all descriptors to
the server and waits for its status (Escalate), or refuses (Deny). Everything it says is taken by
the server as said by an enemy; it decides nothing. It starts once per exec: no import beyond
these, and of the socket calls only `sendmsg` and `recvmsg`, which pass the sandbox's own filter.

`_signal` and `_socket` are what `signal` and `socket` are made of. Those two also import enum,
selectors and what these need, which takes longer than all the rest.
"""

import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import os
import resource
import sys

from codex_multitool import __version__
from codex_multitool.escalation import wire

NAME = "codex-execve-wrapper"
HELP = f"""\
Usage: {NAME} FILE ARGV0 [ARG]...

Run FILE with the given argument vector if the server on ${wire.SOCKET_VARIABLE} agrees.
A shell patched to honour ${wire.WRAPPER_VARIABLE} starts this in place of each program;
there is nothing here to call by hand.

Exit status: the program's own; 1 if it is denied or the server cannot be asked;
126 if it cannot be executed, 127 if it does not exist.
"""
# Stopping and continuing act on the stand-in as on any job; the rest is for the program.
RELAYED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGALRM, signal.SIGWINCH, signal.SIGCONT,
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Run the role; argv is [name, FILE, ARGV0, ARG...]. Returns the exit status."""
    if len(argv) == 2 and argv[1] in ("--help", "-h"):
        return _print(HELP)
    if len(argv) == 2 and argv[1] in ("--version", "-V"):
        return _print(f"{NAME} {__version__}\n")
    if len(argv) < 3:
        return _fail(f"needs FILE and ARGV0; see {NAME} --help")
    try:
        return _stand_in(argv[1], argv[2:])
    except (OSError, ValueError, wire.WireError) as error:
        return _fail(f"{argv[1]}: cannot ask the server: {error}")


def _print(text: str) -> int:
    try:
        os.write(1, text.encode())
    except OSError as error:
        return _fail(f"write error: {error.strerror}")
    return 0


def _fail(text: str) -> int:
    _complain(f"{NAME}: {text}")
    return 1


def _complain(text: str) -> None:
    try:
        os.write(2, os.fsencode(text + "\n"))
    except OSError:
        pass  # nobody to tell; the exit status says it


def _stand_in(file: str, argv: list[str]) -> int:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    number = _server_socket()
    inherited = [n for n in _open_descriptors() if n != number]
    server_pid, stream = _connect(number)
    environment = {k: v for k, v in os.environ.items() if k not in wire.PRIVATE_VARIABLES}
    request = wire.EscalateRequest(file, argv, os.getcwd(), environment, extended=True)
    _send(stream, wire.frame(wire.encode_request(request)))
    response = wire.decode_response(_receive(stream))
    if response.action == "Run":
        _restore_signals(server_pid)
        return _execute(file, argv)
    if response.action == "Deny":
        reason = "" if response.reason is None else f": {response.reason}"
        _complain(f"Execution denied{reason}")
        return 1
    return _escalate(stream, inherited if response.extended else [0, 1, 2], response.extended)


def _server_socket() -> int:
    text = os.environ.get(wire.SOCKET_VARIABLE)
    if text is None:
        raise ValueError(f"{wire.SOCKET_VARIABLE} is not set")
    if not text.isdecimal():
        raise ValueError(f"{wire.SOCKET_VARIABLE} is not a valid file descriptor: {text}")
    return int(text)


def _open_descriptors() -> list[int]:
    # What exec left open is what is inheritable; everything Python opens itself is not (PEP 446).
    found = []
    for name in os.listdir("/dev/fd"):
        try:
            if os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue  # the descriptor of the listing itself
    return sorted(found)


def _connect(number: int) -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    # A duplicate, with the family given: closing it leaves the shell's descriptor alone.
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM, 0, os.dup(number))
    datagram.sendmsg([wire.HANDSHAKE], _rights([theirs.fileno()]))
    try:
        credentials = datagram.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        credentials = bytes(4)  # another sandbox's filter; nobody's process id
    datagram.close()
    theirs.close()
    return int.from_bytes(credentials[:4], sys.byteorder), ours


def _rights(descriptors: list[int]) -> list[tuple[int, int, bytes]]:
    """The control message that lends descriptors: unix(7)."""
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)]


def _send(stream: socket.socket, data: bytes, descriptors: list[int] | None = None) -> None:
    sent = stream.sendmsg([data], _rights(descriptors)) if descriptors else 0
    view = memoryview(data)
    while sent < len(data):
        sent += stream.sendmsg([view[sent:]])


def _receive(stream: socket.socket) -> bytes:
    return _exactly(stream, wire.payload_length(_exactly(stream, wire.HEADER_SIZE)))


def _exactly(stream: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        chunk = stream.recvmsg(length - len(data))[0]
        if not chunk:
            raise wire.WireError("the server closed the connection without an answer")
        data += chunk
    return data


def _restore_signals(server_pid: int) -> None:
    """Give the program the dispositions the shell gave us.

    Python ignores SIGPIPE and SIGXFSZ before any code of ours runs, so what exec passed on is lost
    here; the parent shell still has it. Where the shell itself became this process its parent may
    be the server, whose own dispositions say nothing: the default is right.
    """
    ignored = 0
    parent = os.getppid()
    if parent != server_pid:
        try:
            with open(f"/proc/{parent}/status", "rb") as status:
                ignored = next(int(line[7:], 16) for line in status if line[:7] == b"SigIgn:")
        except (OSError, ValueError, StopIteration):
            ignored = 0  # no /proc: the default is what nearly every program gets
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        if not ignored >> (number - 1) & 1:
            signal.signal(number, signal.SIG_DFL)


def _execute(file: str, argv: list[str]) -> int:
    try:
        os.execv(file, argv)
    except OSError as error:
        _complain(f"{argv[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126


def _escalate(stream: socket.socket, descriptors: list[int], extended: bool) -> int:
    if len(descriptors) > wire.MAX_DESCRIPTORS:
        raise wire.WireError(
            f"{len(descriptors)} descriptors are open, at most {wire.MAX_DESCRIPTORS} can be lent"
        )
    relayed = {n for n in RELAYED if extended and signal.getsignal(n) is not signal.SIG_IGN}
    # From the descriptors on the program may run: no signal may end us and leave it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, relayed)
    _send(stream, wire.frame(wire.encode_descriptors(descriptors)), descriptors)
    for number in relayed:
        signal.signal(number, lambda n, _: _send(stream, wire.frame(wire.encode_signal(n))))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    result = wire.decode_result(_receive(stream))
    if result.signal is not None:
        _die_by(result.signal)
    return result.exit_code & 0xFF


def _die_by(number: int) -> None:
    # The same death, without a core of the stand-in; a stop or an ignored signal falls through.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
