"""The protocol without I/O: bytes in, events out; messages in, bytes out — pure.

JSON-RPC 2.0, one message a line (MCP, Transports, stdio). Whatever comes, `receive` returns events
and never raises; what is not a message, or not due, is `Invalid` with the answer it deserves.
How the bytes are cut into pieces makes no difference.
"""

import json
from typing import Any, NamedTuple

import msgspec

from codex_multitool.mcp_server import messages
from codex_multitool.mcp_server.messages import Object, RequestId, is_id, named

# A command is at most 128 KiB (execve(2), MAX_ARG_STRLEN), a state lists paths: this is ample, and
# decoded it may take twenty times as much.
MAX_LINE = 4 * 1024 * 1024
_BEFORE_INITIALIZE = frozenset({messages.INITIALIZE, messages.PING})


class Request(NamedTuple):
    """The client wants an answer. params: None if there were none."""

    id: RequestId
    method: str
    params: Object | None


class Notification(NamedTuple):
    """The client tells something."""

    method: str
    params: Object


class Response(NamedTuple):
    """The client answers a request of ours. error: None unless it is one."""

    id: RequestId
    result: Any
    error: Any


class Invalid(NamedTuple):
    """What is no message, or must not come now. answer: what to send back."""

    answer: bytes


Event = Request | Notification | Response | Invalid


class Session:
    """One client's session.

    version: the one agreed on, empty before `initialize`. client: its name. capabilities: its.
    """

    def __init__(self) -> None:
        self.version = ""
        self.client = ""
        self.capabilities: Object = {}
        self._line = bytearray()
        self._discarding = False
        self._unanswered: set[RequestId] = set()
        self._requests = 0

    def receive(self, data: bytes) -> list[Event]:
        """The events that `data` completes, in order. Empty lines are no events."""
        events: list[Event] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._take(piece, events)
            if not self._discarding and self._line.strip():
                event = self._event(bytes(self._line))
                if event is not None:
                    events.append(event)
            self._discarding = False
            self._line.clear()
        self._take(rest, events)
        return events

    def result(self, number: RequestId, value: Object) -> bytes:
        """The answer to a request of the client."""
        answer = messages.result(number, value)
        self._unanswered.discard(number)
        return answer

    def error(self, number: RequestId, code: int, text: str, data: Any = None) -> bytes:
        """The answer to a request of the client that is an error."""
        answer = messages.error(number, code, text, data)
        self._unanswered.discard(number)
        return answer

    def forget(self, number: RequestId) -> None:
        """A request of the client ends without an answer, as a cancelled one does."""
        self._unanswered.discard(number)

    def request(self, method: str, params: Object) -> tuple[RequestId, bytes]:
        """A request of ours, and its id: no client's numbering can be mistaken for it."""
        self._requests += 1
        number = f"server-{self._requests}"
        return number, messages.request(number, method, params)

    def _take(self, piece: bytes, events: list[Event]) -> None:
        if self._discarding:
            return
        self._line += piece
        if len(self._line) > MAX_LINE:
            self._line.clear()
            self._discarding = True
            events.append(_invalid(None, f"a message is longer than {MAX_LINE} bytes"))

    def _event(self, line: bytes) -> Event | None:
        try:
            message, problem = _decoded(line)
        except ValueError as error:
            return Invalid(messages.error(None, messages.PARSE_ERROR, f"not JSON: {error}"))
        if isinstance(message, list):
            return _invalid(None, "batches are not part of MCP: send each message on its own line")
        if not isinstance(message, dict):
            return _invalid(None, f"a message is an object, not {named(message)}")
        if "method" not in message and ("result" in message or "error" in message):
            return _response(message)
        number = message.get("id")
        if not is_id(number):
            if "id" in message:
                most = (
                    f" of at most {messages.MAX_ID} characters" if isinstance(number, str) else ""
                )
                return _invalid(None, f"`id` must be a string or an integer{most}")
            number = None
        if problem:
            return _useless(number, problem)
        if message.get("jsonrpc") != "2.0":
            return _invalid(number, '`jsonrpc` must be "2.0"')
        return self._call(number, message)

    def _call(self, number: RequestId | None, message: Object) -> Event | None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            return _invalid(number, "`method` must be a string")
        if number is None:
            # Nobody answers a notification, not even a wrong one: JSON-RPC 2.0, section 4.1.
            whole = params is None or isinstance(params, dict)
            return Notification(method, params or {}) if whole else None
        if params is not None and not isinstance(params, dict):
            # By position is JSON-RPC, but not MCP; anything else is neither.
            by_position = isinstance(params, list)
            code = messages.INVALID_PARAMS if by_position else messages.INVALID_REQUEST
            text = f"`params` must be an object, not {named(params)}"
            return Invalid(messages.error(number, code, text))
        return self._request(number, method, params)

    def _request(self, number: RequestId, method: str, params: Object | None) -> Event:
        if number in self._unanswered:
            return _invalid(number, f"the request {number!r} is not answered yet")
        if not self.version and method not in _BEFORE_INITIALIZE:
            if method in messages.METHODS:
                return _invalid(number, f"{method} came before {messages.INITIALIZE}")
            text = f"method not found: {method}"
            return Invalid(messages.error(number, messages.METHOD_NOT_FOUND, text))
        if method == messages.INITIALIZE:
            problem = self._initialize(params or {})
            if problem:
                return Invalid(messages.error(number, messages.INVALID_PARAMS, problem))
        self._unanswered.add(number)
        return Request(number, method, params)

    def _initialize(self, params: Object) -> str:
        """Agree on a version (Lifecycle, version negotiation); what is wrong, or nothing."""
        wanted, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
        if not isinstance(wanted, str):
            return f"`protocolVersion` must be a string, not {named(wanted)}"
        if not isinstance(capabilities, dict):
            return f"`capabilities` must be an object, not {named(capabilities)}"
        self.version = wanted if wanted in messages.VERSIONS else messages.NEWEST
        self.capabilities = capabilities
        introduced = params.get("clientInfo")
        name = introduced.get("name") if isinstance(introduced, dict) else None
        self.client = name if isinstance(name, str) else ""
        return ""


def _decoded(line: bytes) -> tuple[Any, str]:
    """The JSON value of a line, and why it is of no use, if so; ValueError where it is none."""
    try:
        return msgspec.json.decode(line), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error)
    # Half of a surrogate pair is JSON (RFC 8259, section 8.2) and no text; a model that cuts an
    # emoji in two sends it. Whoever does waits for an answer as any other.
    try:
        return json.loads(line.decode(), parse_constant=_refuse), problem
    except (ValueError, RecursionError):
        raise ValueError(problem) from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _useless(number: RequestId | None, problem: str) -> Invalid | None:
    if number is None:
        return None  # a notification
    text = f"the message cannot be read: {problem}"
    try:
        return _invalid(number, text)
    except UnicodeEncodeError:
        return _invalid(None, text)


def _response(message: Object) -> Response | None:
    # An answer that is wrong gets no answer: two peers could go on like that for ever.
    number = message.get("id")
    if not is_id(number):
        return None
    return Response(number, message.get("result"), message.get("error"))


def _invalid(number: RequestId | None, text: str) -> Invalid:
    return Invalid(messages.error(number, messages.INVALID_REQUEST, text))
