"""A zygote and its keepers, played by a test: what they are told is in plain sight."""

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import trio
import trio.testing

from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.parser import parse
from codex_multitool.interception.rights import receive
from codex_multitool.keeper.frames import Decoder, encode
from codex_multitool.keeper.protocol import (
    Begin,
    Grow,
    Hello,
    Message,
    Order,
    Refused,
    Sandbox,
)
from codex_multitool.mcp_server.keepers import Keeper, Keepers
from codex_multitool.running.settings import Environments, Settings
from codex_multitool.sandbox.policy import SandboxPolicy

PATIENCE = 30.0
READ_ONLY = Sandbox(SandboxPolicy("read-only"), ())
FULL_ACCESS = Sandbox(SandboxPolicy("danger-full-access"), ())


def settings() -> Settings:
    """Some."""
    return Settings("/bin/sh", None, Judgement(parse([])), Environments({}, {}))


def order(sandbox: Sandbox = READ_ONLY, command: str = ":") -> Order:
    """One to be given."""
    return Order(("/bin/sh", "-c", command), "/", sandbox, (), 10.0, 1000)


class Played:
    """A keeper's end of its socket. heard: all that it was told."""

    def __init__(self, fd: int, number: int) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=fd)
        self.socket.setblocking(False)
        self.number = number
        self.heard: list[Any] = []
        self._decoder = Decoder()

    def say(self, *messages: Message) -> None:
        self.socket.sendall(b"".join(map(encode, messages)))

    async def hear(self) -> Any:
        """What comes next; None when the other end is closed."""
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            data, _ = receive(self.socket, 1 << 16, 4)
            if not data:
                return None
            if messages := self._decoder.feed(data):
                self.heard += messages
                return messages[0]


class Zygote:
    """forks: whether keepers are to be had. made: those that there are."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.front, self.socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.forks = True
        self.begun: list[Begin] = []
        self.made: list[Played] = []
        nursery.start_soon(self._serve)

    def close(self) -> None:
        for end in (self.front, self.socket, *(keeper.socket for keeper in self.made)):
            end.close()

    async def _serve(self) -> None:
        decoder, sockets = Decoder(), list[int]()
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            data, fds = receive(self.socket, 1 << 16, 16)
            if not data:
                break
            sockets += fds
            for message in decoder.feed(data):
                match message:
                    case Begin():
                        self.begun.append(message)
                        if message.quiet:
                            os.close(sockets.pop(0))
                    case Grow():
                        self._grow(Played(sockets.pop(0), len(self.made) + 1))
                    case _:
                        raise AssertionError(f"the front sent {message!r}")

    def _grow(self, keeper: Played) -> None:
        if self.forks:
            self.made.append(keeper)
            keeper.say(Hello(keeper.number))
        else:
            keeper.say(Refused("no process can be started: Out of memory", 12))
            keeper.socket.close()


class Lent(Keepers):
    """Keepers that are closed in the end, whoever has them."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._given: set[Keeper] = set()

    async def give(self, order: Order) -> Keeper:
        keeper = await super().give(order)
        self._given.add(keeper)
        return keeper

    def close(self) -> None:
        super().close()
        for keeper in self._given:
            keeper.close()


def played(scenario: Callable[[Keepers, Zygote], Awaitable[None]], **more: Any) -> None:
    """Run a scenario in which time passes when nothing else happens."""

    async def session() -> None:
        with trio.fail_after(3600):
            async with trio.open_nursery() as nursery:
                with closing(Zygote(nursery)) as zygote:
                    with closing(Lent(zygote.front, settings(), nursery, **more)) as keepers:
                        await scenario(keepers, zygote)
                    nursery.cancel_scope.cancel()

    trio.run(session, clock=trio.testing.MockClock(autojump_threshold=0.005))
