"""The codec gives the shapes other peers know, and survives whatever they send."""

import json
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation import requests, wire

REQUEST = {
    "file": "/bin/echo",
    "argv": ["echo", "caf\u00e9"],
    "workdir": "/tmp",
    "env": {"A": "b"},
}
DECODERS: list[Callable[[bytes], object]] = [
    requests.decode_request,
    wire.decode_response,
    wire.decode_result,
    requests.decode_signal,
    lambda payload: requests.decode_descriptors(payload, 3),
]


def payload_of(message: dict[str, object]) -> bytes:
    data = wire.frame(message)
    assert wire.payload_length(data[:4]) == len(data) - 4
    return data[4:]


def test_a_frame_is_a_little_endian_length_and_compact_json() -> None:
    assert wire.frame({"action": "Run"}) == b'\x10\0\0\0{"action":"Run"}'


def test_a_request_of_another_implementation_is_understood() -> None:
    request = requests.decode_request(json.dumps(REQUEST).encode())
    assert (request.file, request.argv) == ("/bin/echo", ["echo", "café"])
    assert (request.workdir, request.env, request.extended) == ("/tmp", {"A": "b"}, False)


def test_a_request_to_another_implementation_has_no_new_member() -> None:
    request = wire.EscalateRequest("f", ["a"], "/", {}, extended=False)
    assert set(wire.encode_request(request)) == {"file", "argv", "workdir", "env"}


@pytest.mark.parametrize(
    ("response", "shape"),
    [
        (wire.EscalateResponse("Run"), b'{"action":"Run"}'),
        (wire.EscalateResponse("Escalate"), b'{"action":"Escalate"}'),
        (wire.EscalateResponse("Deny", "no"), b'{"action":{"Deny":{"reason":"no"}}}'),
        (wire.EscalateResponse("Deny"), b'{"action":{"Deny":{"reason":null}}}'),
    ],
)
def test_responses_have_the_known_shapes(response: wire.EscalateResponse, shape: bytes) -> None:
    assert payload_of(wire.encode_response(response)) == shape
    decoded = wire.decode_response(shape)
    assert (decoded.action, decoded.reason) == (response.action, response.reason)


def test_run_among_our_own_has_the_one_shape_that_a_shell_takes() -> None:
    run = wire.EscalateResponse("Run", extended=True)
    assert payload_of(wire.encode_response(run)) == b'{"action":"Run","codex_multitool":1}'


@pytest.mark.parametrize(
    ("member", "by_shell"), [(True, True), (False, False), (1, False), ("true", False)]
)
def test_a_shell_says_that_it_asks(member: object, by_shell: bool) -> None:
    request = {**REQUEST, wire.EXTENSION: 1, wire.SHELL: member}
    assert requests.decode_request(json.dumps(request).encode()).by_shell is by_shell
    assert not requests.decode_request(json.dumps(REQUEST).encode()).by_shell


def test_descriptors_and_results_have_the_known_shapes() -> None:
    assert payload_of(wire.encode_descriptors([0, 1, 2])) == b'{"fds":[0,1,2]}'
    assert requests.decode_descriptors(b'{"fds":[0,1,2]}', 3) == [0, 1, 2]
    assert payload_of(wire.encode_result(wire.SuperExecResult(7))) == b'{"exit_code":7}'
    assert wire.decode_result(b'{"exit_code":-1}').exit_code == -1


@given(st.lists(st.binary().filter(lambda b: b"\0" not in b), min_size=1))
def test_any_bytes_survive_as_arguments(words: list[bytes]) -> None:
    argv = [os.fsdecode(word) for word in words]
    request = wire.EscalateRequest("f", argv, "/", {}, extended=True)
    decoded = requests.decode_request(payload_of(wire.encode_request(request)))
    assert [os.fsencode(word) for word in decoded.argv] == words
    assert decoded.extended


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"argv": []}, "argv is empty"),
        ({"argv": "ls"}, "argv is not a list"),
        ({"argv": ["ls", 1]}, "argv is not a list"),
        ({"argv": ["a\0b"]}, "NUL"),
        ({"argv": ["\ud800"]}, "not what bytes decode to"),
        ({"env": {"A": "\udc00"}}, "not what bytes decode to"),
        ({"file": ""}, "file is empty"),
        ({"file": None}, "file is not a string"),
        ({"workdir": "here"}, "not an absolute path"),
        ({"env": []}, "env is not a map"),
        ({"env": {"A": 1}}, "env is not a map"),
        ({"env": {"A=B": "1"}}, "env has a name"),
    ],
)
def test_a_request_that_is_not_one_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(wire.WireError, match=complaint):
        requests.decode_request(json.dumps({**REQUEST, **change}).encode())


@pytest.mark.parametrize(
    "numbers", ["[0,1]", "[0,0,1]", "[0,1,-2]", '[0,1,"2"]', "[0,1,true]", "7"]
)
def test_descriptor_numbers_must_fit_what_came_along(numbers: str) -> None:
    with pytest.raises(wire.WireError, match="SuperExecMessage"):
        requests.decode_descriptors(b'{"fds":%s}' % numbers.encode(), 3)


def test_a_length_beyond_the_limit_is_refused_before_anything_is_read() -> None:
    with pytest.raises(wire.WireError, match="announced"):
        wire.payload_length(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    "payload", [b"", b"[" * 100_000, b"\xff", b"[]", b"null", b'{"action":{}}']
)
@pytest.mark.parametrize("decode", DECODERS)
def test_garbage_is_a_wire_error(decode: Callable[[bytes], object], payload: bytes) -> None:
    with pytest.raises(wire.WireError):
        decode(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*REQUEST, "fds", "x"]), inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()), st.sampled_from(DECODERS))
def test_whatever_comes_is_decoded_or_refused(
    payload: bytes, decode: Callable[[bytes], object]
) -> None:
    try:
        decode(payload)
    except wire.WireError:
        pass
