"""What is said to the client: JSON-RPC 2.0 messages, and MCP's names and codes — pure."""

import json
import re
from typing import Any, TypeGuard

# JSON-RPC 2.0, section 5.1
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST = VERSIONS[-1]
BATCHES = "2025-03-26"  # the only version that has them

INITIALIZE = "initialize"
INITIALIZED = "notifications/initialized"
TOOLS_CHANGED = "notifications/tools/list_changed"
PING = "ping"
LIST_TOOLS = "tools/list"
CALL_TOOL = "tools/call"
UPDATE_STATE = "codex/sandbox-state/update"
ELICIT = "elicitation/create"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
METHODS = frozenset({INITIALIZE, PING, LIST_TOOLS, CALL_TOOL, UPDATE_STATE})

MAX_ID = 1024  # characters

# msgspec is faster with what is long, and would make the first answer come later by a third.
_JSON = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))

RequestId = str | int
Object = dict[str, Any]


def is_id(value: object) -> TypeGuard[RequestId]:
    """Whether `value` can be the id of a request: MCP takes strings and integers, never null.

    Ids are kept while requests run, so their length is bounded.
    """
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return isinstance(value, int) and not isinstance(value, bool)


def request(number: RequestId, method: str, params: Object) -> bytes:
    """A request of ours."""
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: Object | None = None) -> bytes:
    """A notification of ours."""
    message = {"jsonrpc": "2.0", "method": method}
    return _line(message if params is None else {**message, "params": params})


def result(number: RequestId, value: Object | bytes) -> bytes:
    """An answer. value: may be JSON already, without a newline in it."""
    if isinstance(value, bytes):
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (encoded(number), value)
    return _line({"jsonrpc": "2.0", "id": number, "result": value})


def error(number: RequestId | None, code: int, text: str, data: Any = None) -> bytes:
    """An answer that is an error; `number` is None where the id could not be made out."""
    body: Object = {"code": code, "message": text}
    if data is not None:
        body["data"] = data
    # JSON-RPC 2.0, section 5, has null there, which no version of MCP takes. Since 2025-11-25 there
    # is no `id` in it; the versions before have no form for it.
    known = {} if number is None else {"id": number}
    return _line({"jsonrpc": "2.0", **known, "error": body})


def batch(answers: list[bytes]) -> bytes:
    """Answers as one message; nothing, if there are none."""
    return b"[" + b",".join(answer.rstrip(b"\n") for answer in answers) + b"]\n" if answers else b""


def named(value: object) -> str:
    """A value's JSON type, for the texts of errors."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def printable(text: str) -> str:
    """Text that JSON can carry: what was no UTF-8 in a path or an argument is replaced."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def encoded(value: object) -> bytes:
    """A value as JSON. Raises UnicodeEncodeError where a string is no text."""
    return _JSON.encode(value).encode()


def _line(message: Object) -> bytes:
    # Transports, stdio: a message holds no newline; JSON without spaces never does.
    return encoded(message) + b"\n"
