"""The first words with a client, while the large imports are still being done.

A client starts a server and waits for what it says of itself. All that needs no waiting is
answered here, now and then, and what does is kept in order for the server.

The descriptors are moved away first. 0 becomes /dev/null and 1 becomes stderr, so neither a stray
print nor a child can touch the protocol.
"""

import fcntl
import os
import select
import signal

from codex_multitool.mcp_server import messages
from codex_multitool.mcp_server.conversation import Conversation
from codex_multitool.mcp_server.session import Event, Invalid, Notification, Request

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_CHUNK = 1 << 16


class Opening:
    """A session without a server. Never blocks.

    unanswered: what came and needs one. unsent: answers the client has not taken yet.
    """

    def __init__(self, conversation: Conversation, descriptors: tuple[int, int]) -> None:
        self.conversation = conversation
        self.descriptors = descriptors
        self.unanswered: list[Event] = []
        self.unsent: list[bytes] = []

    def attend(self) -> None:
        """Answer what has come."""
        source, target = self.descriptors
        if not self.unanswered and _ready(source, select.POLLIN):
            try:
                data = os.read(source, _CHUNK)
            except OSError:
                data = b""  # the server will find the same
            for event in self.conversation.session.receive(data):
                self._take(event)
        # A pipe that can be written to takes PIPE_BUF bytes at least, pipe(7) and poll(2).
        while self.unsent and len(self.unsent[0]) <= select.PIPE_BUF:
            if not _ready(target, select.POLLOUT):
                break
            try:
                written = os.write(target, self.unsent[0])
            except OSError:
                break  # again: the server's to find
            self.unsent[0] = self.unsent[0][written:]
            if not self.unsent[0]:
                del self.unsent[0]

    def _take(self, event: Event) -> None:
        answer = None if self.unanswered else self._answer(event)
        if answer is None:
            self.unanswered.append(event)
        elif answer:
            self.unsent.append(answer)

    def _answer(self, event: Event) -> bytes | None:
        """What to say to it; None if that is for the server."""
        match event:
            case Request():
                return self.conversation.answer(event)
            case Notification(method) if method != messages.CANCELLED:
                self.conversation.notified(method)
                return b""
            case Invalid(answer):
                return answer
            case _:
                return None


def end_on_signals() -> None:
    """Until there is a server to do it: 128 + n for signal n, with nothing left to end but us."""
    for number in ENDING:
        signal.signal(number, lambda number, _: os._exit(128 + number))


def _ready(descriptor: int, events: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, events)
    found = poll.poll(0)
    return (
        bool(found)
        and bool(found[0][1] & (events | select.POLLHUP))
        and not (found[0][1] & select.POLLERR)
    )


def take_over() -> tuple[int, int]:
    """Move 0 and 1 out of everybody's reach; ones that are closed count as /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        os.set_inheritable(null, True)
        null = os.open(os.devnull, os.O_RDWR)
    ours = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return ours
