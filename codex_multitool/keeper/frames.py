"""How the messages of `protocol` are spelled in a stream of bytes.

Both ends are forks of one interpreter. The messages of every call are of plain values, which
marshal spells and reads in a tenth of the time that pickle takes; all others are pickled.
"""

import marshal
import pickle
import struct
from typing import Any

from codex_multitool.keeper.outcome import Decision, Outcome
from codex_multitool.keeper.output import Output
from codex_multitool.keeper.protocol import (
    Agree,
    Answer,
    Done,
    Leaving,
    Line,
    Look,
    Message,
    Order,
    Over,
    Returned,
    Sandbox,
    Withdrawn,
)

_HEADER = struct.Struct("<IB")  # bytes that follow, kind
_PICKLED = 0
_PLAIN: tuple[Any, ...] = (
    Order, Done, Over, Look, Agree, Leaving, Returned, Withdrawn, Line, Answer,
)  # fmt: skip
_KINDS = {kind: number for number, kind in enumerate(_PLAIN, start=1)}
_MOST_READ = 16

# Calls come in the same sandbox again and again.
_spelled: tuple[Sandbox | None, bytes] = None, b""
_read: dict[bytes, Sandbox] = {}


def encode(message: Message) -> bytes:
    """A message as it goes over the stream."""
    kind = _KINDS.get(type(message), _PICKLED)
    try:
        payload = marshal.dumps(_fields(message)) if kind else _pickled(message)
    except ValueError:  # what is asked or answered may be any value
        kind, payload = _PICKLED, _pickled(message)
    return _HEADER.pack(len(payload), kind) + payload


class Decoder:
    """Cuts a byte stream into messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages completed by `data`, in order."""
        buffer = self._buffer
        buffer += data
        messages = []
        begin = 0
        while len(buffer) - begin >= _HEADER.size:
            length, kind = _HEADER.unpack_from(buffer, begin)
            start = begin + _HEADER.size
            end = start + length
            if len(buffer) < end:
                break
            with memoryview(buffer) as view, view[start:end] as payload:
                messages.append(_message(kind, payload))
            begin = end
        del buffer[:begin]
        return messages


def _pickled(value: object) -> bytes:
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def _fields(message: Message) -> tuple[Any, ...]:
    """As marshal takes them: it knows no named tuples."""
    if isinstance(message, Order):
        return (*message[:2], _sandbox_spelled(message.sandbox), *message[3:])
    if isinstance(message, Done):
        outcome: Any = message.outcome
        output, decisions = tuple(outcome.output), tuple(map(tuple, outcome.decisions))
        return (outcome._replace(output=output, decisions=decisions)[:], message.over)
    return message[:]


def _message(kind: int, payload: memoryview) -> Any:
    if kind == _PICKLED:
        return pickle.loads(payload)
    message = _PLAIN[kind - 1]._make(marshal.loads(payload))
    if isinstance(message, Order):
        spelled: Any = message.sandbox
        return message._replace(sandbox=_sandbox_read(spelled))
    if isinstance(message, Done):
        outcome = Outcome._make(message.outcome)
        decisions = tuple(map(Decision._make, outcome.decisions))
        output = Output._make(outcome.output)
        return message._replace(outcome=outcome._replace(output=output, decisions=decisions))
    return message


def _sandbox_spelled(sandbox: Sandbox) -> bytes:
    global _spelled
    if _spelled[0] is not sandbox:
        _spelled = sandbox, _pickled(sandbox)
    return _spelled[1]


def _sandbox_read(spelled: bytes) -> Sandbox:
    if spelled not in _read:
        if len(_read) == _MOST_READ:
            _read.clear()
        _read[spelled] = pickle.loads(spelled)
    return _read[spelled]
