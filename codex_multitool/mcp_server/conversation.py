"""What of a session is answered from what is always known.

It knows no loop and waits for nothing, so it can answer before there is a server.
"""

from codex_multitool import __version__
from codex_multitool.mcp_server import messages, shell_tool
from codex_multitool.mcp_server.messages import Object
from codex_multitool.mcp_server.session import Request, Session

NAME = "codex-exec-mcp-server"
TITLE = "Sandboxed shell"
# `codex/sandbox-state-meta` is understood and need not be offered: newer Codex sends it with every
# call to a server that offers this one.
EXPERIMENTAL = {"codex/sandbox-state": {"version": "1.0.0"}}


class Conversation:
    """One session with one client."""

    def __init__(self, instructions: str) -> None:
        self.session = Session()
        self._instructions = instructions

    def answer(self, request: Request) -> bytes | None:
        """The answer to a request; None to those that are for a server."""
        match request.method:
            case messages.INITIALIZE:
                return self.session.result(request.id, self._initialize())
            case messages.PING:
                return self.session.result(request.id, {})
            case messages.LIST_TOOLS:
                return self.session.result(request.id, {"tools": [shell_tool.DEFINITION]})
            case _:
                return None

    def _initialize(self) -> Object:
        return {
            "protocolVersion": self.session.version,
            "capabilities": {"experimental": EXPERIMENTAL, "tools": {}},
            "serverInfo": {"name": NAME, "title": TITLE, "version": __version__},
            "instructions": self._instructions,
        }
