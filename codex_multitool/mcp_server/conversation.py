"""What of a session is answered from what is always known.

It knows no loop and waits for nothing, so it can answer before there is a server.
"""

from codex_multitool import __version__
from codex_multitool.mcp_server import messages, shell_tool
from codex_multitool.mcp_server.messages import Object
from codex_multitool.mcp_server.session import Request, Session
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.mcp_server.words import Words

NAME = "codex-exec-mcp-server"
TITLE = "Sandboxed shell"
# `codex/sandbox-state-meta` is understood and need not be offered: newer Codex sends it with every
# call to a server that offers this one.
EXPERIMENTAL = {"codex/sandbox-state": {"version": "1.0.0"}}


class Conversation:
    """One session with one client. state: of its calls, until it sends one."""

    def __init__(self, words: Words, state: SandboxState | None = None) -> None:
        self.session = Session()
        self._words = words
        self._state = state
        self._initialized = False

    def answer(self, request: Request) -> bytes | None:
        """The answer to a request; None to those that are for a server."""
        match request.method:
            case messages.INITIALIZE:
                return self.session.result(request.id, self._initialize())
            case messages.PING:
                return self.session.result(request.id, {})
            case messages.LIST_TOOLS:
                return self.session.result(request.id, {"tools": [self._tool()]})
            case _:
                return None

    def notified(self, method: str) -> None:
        """The client has said this."""
        self._initialized = self._initialized or method == messages.INITIALIZED

    def follow(self, state: SandboxState) -> bytes | None:
        """This state is in force from now on; what is to be told to the client."""
        before, self._state = self._tool(), state
        if before == self._tool() or not self._initialized:
            return None
        return messages.notification(messages.TOOLS_CHANGED)

    def _tool(self) -> Object:
        return {**shell_tool.DEFINITION, "description": self._words.description(self._state)}

    def _initialize(self) -> Object:
        return {
            "protocolVersion": self.session.version,
            "capabilities": {"experimental": EXPERIMENTAL, "tools": {"listChanged": True}},
            "serverInfo": {"name": NAME, "title": TITLE, "version": __version__},
            "instructions": self._words.instructions(self._state),
        }
