"""What comes over a wire: escalation frames, MCP lines, tool arguments, sandbox policies."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from codex_multitool import json_text
from codex_multitool.escalation import requests, wire
from codex_multitool.mcp_server import arguments, elicitation, messages, result, sandbox_state
from codex_multitool.mcp_server.calls import ToolError
from codex_multitool.mcp_server.session import Event, Invalid, Notification, Request, Session
from codex_multitool.sandbox import policy
from fuzz.pieces import head

_RECEIVED = 3  # descriptors


def _descriptors(payload: bytes) -> list[int]:
    return requests.decode_descriptors(payload, _RECEIVED)


_CODECS: tuple[tuple[Callable[[bytes], Any], Callable[[Any], dict[str, object]]], ...] = (
    (requests.decode_request, wire.encode_request),
    (wire.decode_response, wire.encode_response),
    (_descriptors, wire.encode_descriptors),
    (wire.decode_result, wire.encode_result),
    (requests.decode_signal, wire.encode_signal),
)


def escalation(data: bytes) -> None:
    """A frame's payload is a message that goes over the wire unchanged, or a WireError."""
    kind, payload = head(data)
    decode, encode = _CODECS[kind % len(_CODECS)]
    try:
        if len(payload) >= wire.HEADER_SIZE:
            wire.payload_length(payload[: wire.HEADER_SIZE])
    except wire.WireError:
        pass  # the frame is refused before there is a payload
    try:
        message = decode(payload)
    except wire.WireError:
        return
    sent = wire.frame(encode(message))
    length = wire.payload_length(sent[: wire.HEADER_SIZE])
    assert length == len(sent) - wire.HEADER_SIZE
    again = decode(sent[wire.HEADER_SIZE :])
    assert encode(again) == encode(message)


def session(data: bytes) -> None:
    """Lines are events, however they are cut; every request can be answered on one line."""
    step, stream = head(data)
    step = step or 1
    whole, cut = Session(), Session()
    events = whole.receive(stream)
    found: list[Event] = []
    for at in range(0, len(stream), step):
        found += cut.receive(stream[at : at + step])
    assert repr(found) == repr(events)
    lines = 1 + stream.count(b"\n")
    assert len(events) <= lines + stream.count(b"{")  # a batch has several in a line
    for event in events:
        match event:
            case Invalid(answer):
                _one_line(answer)
            case Request(number, method, params):
                answer = whole.result(number, {})
                if answer:  # else it is not the last of its batch
                    _one_line(answer)
                _one_line(whole.error(number, messages.INTERNAL_ERROR, method))
                _arguments(params)
            case Notification(_, params):
                _arguments(params)
            case _:
                elicitation.answer(event, 1.0)


def tool(data: bytes) -> None:
    """Any JSON is arguments of the tool, a sandbox state, an answer; or refused as such."""
    try:
        value = json.loads(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return
    _arguments(value)


def _arguments(value: object) -> None:
    if isinstance(value, dict):
        try:
            spec = arguments.parse_arguments(value)
            assert "\0" not in spec.command + spec.workdir
            assert spec.timeout_ms >= 0
        except (arguments.ArgumentError, ToolError) as error:
            _one_line(messages.result(1, result.encode_failure(str(error))))
        elicitation.possible(value)
    try:
        state = sandbox_state.parse_state(value, "/")
        assert state.cwd.startswith("/")
        os.fsencode(state.cwd)
    except sandbox_state.StateError as error:
        _one_line(messages.result(1, result.encode_failure(str(error))))


def _one_line(answer: bytes) -> None:
    assert answer.count(b"\n") == 1
    assert answer.endswith(b"\n")
    assert isinstance(json.loads(answer), dict | list)


def sandbox_policy(data: bytes) -> None:
    """A text is a policy that its own form spells again, or a PolicyError."""
    try:
        found = policy.parse_policy(data)
    except policy.PolicyError:
        return
    assert policy.from_object(policy.to_object(found)) == found
    policy.writable_roots(found, "/w", {"TMPDIR": "/t"})


class _TwiceError(ValueError):
    """A name is given twice."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise _TwiceError
    return dict(pairs)


def _none(constant: str) -> None:
    raise ValueError(constant)


def json_reader(data: bytes) -> None:
    """Our reader and the standard one agree, but for what ours says it refuses."""
    text = data.decode("utf-8", "surrogateescape")
    refusal, ours, theirs = "", None, None
    try:
        ours = json_text.decode(text)
    except json_text.JSONTextError as error:
        refusal = str(error)
    try:
        theirs = json.loads(text, object_pairs_hook=_unique, parse_constant=_none)
    except (ValueError, RecursionError) as error:
        assert refusal, f"{text!r} is taken for {ours!r}, and is none: {error}"
        return
    ours_alone = ("nested too deep", "given twice", "a number too long")
    if not any(reason in refusal for reason in ours_alone):
        assert not refusal, f"{text!r} is {theirs!r}, and is refused: {refusal}"
        assert repr(ours) == repr(theirs)
