"""Progress of one call, told to a client that asked for it (MCP, Progress)."""

from collections.abc import Callable

import trio

from codex_multitool.mcp_server import messages
from codex_multitool.mcp_server.messages import RequestId, printable

_INTERVAL = 1.0  # seconds between two notifications, at least
# Clients give up on a silent call after 30 to 120 seconds, unless it shows that it lives.
_HEARTBEAT = 10.0


class Progress:
    """Reports of one call: `progress` is its age in seconds, `message` its latest line."""

    def __init__(self, token: RequestId, send: Callable[[bytes], None]) -> None:
        self._token = token
        self._send = send
        self._latest: Callable[[], str] = str
        self._scope = trio.CancelScope()

    def follow(self, latest: Callable[[], str]) -> None:
        """Ask `latest` from now on where the call is."""
        self._latest = latest

    def end(self) -> None:
        """No report from now on: not one may follow the call's answer."""
        self._scope.cancel()

    async def report(self) -> None:
        """Report until the end."""
        begun = told = trio.current_time()
        line = ""
        with self._scope:
            while True:
                await trio.sleep(_INTERVAL)
                now = trio.current_time()
                latest = self._latest()
                if latest != line or now - told >= _HEARTBEAT:
                    line, told = latest, now
                    self._send(self._notification(now - begun, line))

    def _notification(self, age: float, line: str) -> bytes:
        params = {"progressToken": self._token, "progress": round(age, 3)}
        if line:
            params["message"] = printable(line)
        return messages.notification(messages.PROGRESS, params)
