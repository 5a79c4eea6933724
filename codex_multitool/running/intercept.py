"""The two ways in which the execs of one command come to the server."""

import os
import socket

import trio

from codex_multitool.escalation import wire
from codex_multitool.escalation.broker import Broker, received_descriptors
from codex_multitool.escalation.context import Context
from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.listener import Listener
from codex_multitool.interception.supervisor import Supervisor
from codex_multitool.launcher.protocol import KILLABLE

# Where the shell finds its socket: above what scripts and shells use for themselves.
_SOCKET_NUMBER = 197


class ByWrapper:
    """The patched shell runs a wrapper in place of each program; the wrapper asks by a socket.

    environment, descriptors: what the shell gets on top. listener: None.
    """

    def __init__(self, context: Context, wrapper: str) -> None:
        # Not SOCK_DGRAM, by which the sandbox could reach any datagram socket it can name: unix(7).
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._broker = Broker(context, ours)
        self.environment = {
            wire.SOCKET_VARIABLE: str(_SOCKET_NUMBER),
            wire.SHELL_SOCKET_VARIABLE: str(_SOCKET_NUMBER),
            wire.WRAPPER_VARIABLE: wrapper,
            wire.OLDER_WRAPPER_VARIABLE: wrapper,
        }
        self.descriptors = [(self._theirs.fileno(), _SOCKET_NUMBER)]
        self.listener: int | None = None

    def handed_over(self) -> None:
        """The shell has its end: drop ours of it."""
        self._theirs.close()

    def close(self) -> None:
        """Drop both ends."""
        self._theirs.close()
        self._broker.close()

    async def serve(self) -> None:
        """Answer until cancelled."""
        await self._broker.serve()


class ByKernel:
    """The kernel holds every exec of the tree until the server has judged it.

    environment, descriptors: nothing. listener: the socket on which the listener is handed over.
    """

    def __init__(self, context: Context, *, confined: bool) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._context = context
        self._confined = confined
        self.environment: dict[str, str] = {}
        self.descriptors: list[tuple[int, int]] = []
        self.listener: int | None = self._theirs.fileno()
        self.supervisor: Supervisor | None = None

    def handed_over(self) -> None:
        """The process has its end: drop ours of it."""
        self._theirs.close()

    def close(self) -> None:
        """Drop both ends; the supervisor owns the listener."""
        self._theirs.close()
        self._ours.close()

    async def serve(self) -> None:
        """Judge until no process is left, or until cancelled."""
        machine = architecture(os.uname().machine)
        with self._ours:
            self._ours.setblocking(False)
            await trio.lowlevel.wait_readable(self._ours)
            told, ancillary, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(4))
        fds = received_descriptors(ancillary)
        if machine is None or not fds:
            return  # its set-up failed; the launcher tells why
        listener = Listener(fds[0], machine, killable=told == KILLABLE)
        listener.sync_wake_up()
        self.supervisor = Supervisor(self._context, listener, confined=self._confined)
        await self.supervisor.serve()
