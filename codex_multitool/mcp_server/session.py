"""The protocol without I/O: bytes in, events out; messages in, bytes out — pure.

JSON-RPC 2.0, one message a line (MCP, Transports, stdio). Whatever comes, `receive` returns events
and never raises; what is not a message, or not due, is `Invalid` with the answer it deserves.
How the bytes are cut into pieces makes no difference.
"""

import json
import math
from typing import Any, NamedTuple

from codex_multitool.mcp_server import messages
from codex_multitool.mcp_server.messages import BATCHES, NEWEST, Object, RequestId, is_id, named

# A command is at most 128 KiB (execve(2), MAX_ARG_STRLEN), a state lists paths: this is ample, and
# decoded it may take twenty times as much.
MAX_LINE = 4 * 1024 * 1024
_SHOWN = 40  # characters of a number
_MAX_BATCH = 64  # messages of a batch; more are refused, each
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


class _Batch:
    """Requests that are answered together: the answers there are, and how many are to come."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.open = 0


class Session:
    """One client's session. An answer may be empty: one of a batch, which is not yet whole.

    version: the one agreed on, empty before `initialize`. client: its name. capabilities: its.
    """

    def __init__(self) -> None:
        self.version = ""
        self.client = ""
        self.capabilities: Object = {}
        self._line = bytearray()
        self._discarding = False
        self._unanswered: set[RequestId] = set()
        self._batches: dict[RequestId, _Batch] = {}
        self._requests = 0

    def receive(self, data: bytes) -> list[Event]:
        """The events that `data` completes, in order. Empty lines are no events."""
        events: list[Event] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._take(piece, events)
            if not self._discarding and self._line.strip():
                events += self._events(bytes(self._line))
            self._discarding = False
            self._line.clear()
        self._take(rest, events)
        return events

    def result(self, number: RequestId, value: Object | bytes) -> bytes:
        """The answer to a request of the client. value: may be JSON already."""
        return self._answered(number, messages.result(number, value))

    def error(self, number: RequestId, code: int, text: str, data: Any = None) -> bytes:
        """The answer to a request of the client that is an error."""
        return self._answered(number, messages.error(number, code, text, data))

    def forget(self, number: RequestId) -> bytes:
        """A request of the client ends without an answer, as a cancelled one does.

        It may have been the last of a batch, whose answers are returned.
        """
        return self._answered(number, b"")

    def _answered(self, number: RequestId, answer: bytes) -> bytes:
        self._unanswered.discard(number)
        batch = self._batches.pop(number, None)
        if batch is None:
            return answer
        batch.open -= 1
        if answer:
            batch.answers.append(answer)
        return b"" if batch.open else messages.batch(batch.answers)

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
            events += self._nameless(f"a message is longer than {MAX_LINE} bytes")

    def _events(self, line: bytes) -> list[Event]:
        try:
            message, problem = _decoded(line)
        except ValueError as error:
            return self._nameless(f"not JSON: {error}", messages.PARSE_ERROR)
        if isinstance(message, list):
            return self._batch(message, problem)
        return self._event(message, problem)

    def _batch(self, members: list[Any], problem: str) -> list[Event]:
        if self.version != BATCHES:
            version = self.version or NEWEST
            return self._nameless(f"{version} has no batches: send each message on its own line")
        batch, events = _Batch(), list[Event]()
        for at, member in enumerate(members):
            for event in self._member(at, member, problem):
                if isinstance(event, Invalid):
                    batch.answers.append(event.answer)
                    continue
                if isinstance(event, Request):
                    self._batches[event.id] = batch
                    batch.open += 1
                events.append(event)
        if batch.answers and not batch.open:
            events.append(Invalid(messages.batch(batch.answers)))
        return events

    def _member(self, at: int, member: object, problem: str) -> list[Event]:
        number = member.get("id") if isinstance(member, dict) and "method" in member else None
        if at >= _MAX_BATCH:
            many = f"a batch has at most {_MAX_BATCH} messages"
            return [_invalid(number, many)] if is_id(number) else []
        if is_id(number) and isinstance(member, dict) and member["method"] == messages.INITIALIZE:
            # Lifecycle, initialization (2025-03-26)
            return [_invalid(number, f"{messages.INITIALIZE} must not be part of a batch")]
        return self._event(member, problem)

    def _nameless(self, text: str, code: int = messages.INVALID_REQUEST) -> list[Event]:
        """What has no id is refused without one."""
        return [Invalid(messages.error(None, code, text))]

    def _event(self, message: object, problem: str) -> list[Event]:
        if not isinstance(message, dict):
            return self._nameless(f"a message is an object, not {named(message)}")
        if "method" not in message and ("result" in message or "error" in message):
            return _response(message)
        number = message.get("id")
        if not is_id(number):
            if "id" in message:
                most = (
                    f" of at most {messages.MAX_ID} characters" if isinstance(number, str) else ""
                )
                return self._nameless(f"`id` must be a string or an integer{most}")
            number = None
        if problem:
            return self._useless(number, problem)
        if message.get("jsonrpc") != "2.0":
            return self._invalid(number, '`jsonrpc` must be "2.0"')
        return self._call(number, message)

    def _useless(self, number: RequestId | None, problem: str) -> list[Event]:
        if number is None:
            return []  # a notification
        text = f"the message cannot be read: {problem}"
        try:
            return [_invalid(number, text)]
        except UnicodeEncodeError:
            return self._nameless(text)

    def _invalid(self, number: RequestId | None, text: str) -> list[Event]:
        return self._nameless(text) if number is None else [_invalid(number, text)]

    def _call(self, number: RequestId | None, message: Object) -> list[Event]:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            return self._invalid(number, "`method` must be a string")
        if number is None:
            # Nobody answers a notification, not even a wrong one: JSON-RPC 2.0, section 4.1.
            whole = params is None or isinstance(params, dict)
            return [Notification(method, params or {})] if whole else []
        if params is not None and not isinstance(params, dict):
            # By position is JSON-RPC, but not MCP; anything else is neither.
            by_position = isinstance(params, list)
            code = messages.INVALID_PARAMS if by_position else messages.INVALID_REQUEST
            text = f"`params` must be an object, not {named(params)}"
            return [Invalid(messages.error(number, code, text))]
        return [self._request(number, method, params)]

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
        self.version = wanted if wanted in messages.VERSIONS else NEWEST
        self.capabilities = capabilities
        introduced = params.get("clientInfo")
        name = introduced.get("name") if isinstance(introduced, dict) else None
        self.client = name if isinstance(name, str) else ""
        return ""


def _decoded(line: bytes) -> tuple[Any, str]:
    """The JSON value of a line, and why it is of no use, if so; ValueError where it is none."""
    try:
        text = line.decode()
        try:
            message = _DECODER.decode(text)
        except OverflowError as error:
            return _LENIENT.decode(text), str(error)
        # Half of a surrogate pair is JSON (RFC 8259, section 8.2) and no text; a model that cuts an
        # emoji in two sends it. Whoever does waits for an answer as any other.
        if "\\u" in text:
            messages.encoded(message)
    except UnicodeEncodeError:
        return message, "half of a surrogate pair is no character"
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return message, ""


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError(f"{text[:_SHOWN]} is too large a number")
    return number


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_LENIENT = json.JSONDecoder(parse_constant=_refuse)


def _response(message: Object) -> list[Event]:
    # An answer that is wrong gets no answer: two peers could go on like that for ever.
    number = message.get("id")
    if not is_id(number):
        return []
    return [Response(number, message.get("result"), message.get("error"))]


def _invalid(number: RequestId, text: str) -> Invalid:
    return Invalid(messages.error(number, messages.INVALID_REQUEST, text))
