"""Bytes in, events out: no task, no descriptor, no clock."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codex_multitool.mcp_server import messages, session
from codex_multitool.mcp_server.session import (
    MAX_LINE,
    Event,
    Invalid,
    Notification,
    Request,
    Response,
    Session,
)

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}},
}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def opened(version: str = "2025-11-25") -> Session:
    """A session that has been initialized."""
    made = Session()
    hello = {"protocolVersion": version, "capabilities": {"elicitation": {}}}
    (event,) = made.receive(line({**INITIALIZE, "params": hello}))
    assert isinstance(event, Request)
    made.result(event.id, {})
    return made


def received(data: bytes) -> list[Event]:
    return opened().receive(data)


def refused(data: bytes, made: Session | None = None) -> dict[str, Any]:
    """The one answer that `data` gets, an error."""
    (event,) = (made or opened()).receive(data)
    assert isinstance(event, Invalid)
    answer = json.loads(event.answer)
    assert event.answer.count(b"\n") == 1
    assert event.answer.endswith(b"\n")
    assert {*answer, "id"} == {"jsonrpc", "id", "error"}
    assert answer.get("id", "none") is not None
    assert answer["jsonrpc"] == "2.0"
    assert set(answer["error"]) == {"code", "message"}
    return {"id": answer.get("id"), **answer["error"]}


class TestMessages:
    def test_request_notification_and_response(self) -> None:
        data = (
            b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":[1]}}\n'
            b'{"jsonrpc":"2.0","method":"n"}\r\n'
            b'{"jsonrpc":"2.0","id":"q","result":{"b":null}}\n'
            b'{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":"no"}}\n'
        )
        assert received(data) == [
            Request(7, "m", {"a": [1]}),
            Notification("n", {}),
            Response("q", {"b": None}, None),
            Response(8, None, {"code": 1, "message": "no"}),
        ]

    def test_params_may_be_absent_null_or_empty(self) -> None:
        data = (
            b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'
            b'{"jsonrpc":"2.0","id":2,"method":"m","params":null}\n'
            b'{"jsonrpc":"2.0","id":3,"method":"m","params":{}}\n'
        )
        assert received(data) == [Request(1, "m", None), Request(2, "m", None), Request(3, "m", {})]

    @pytest.mark.parametrize("number", [0, -1, 2**64, 10**1000, "", "1", "é", "\0"])
    def test_any_string_or_integer_is_an_id(self, number: messages.RequestId) -> None:
        made = opened()
        (event,) = made.receive(line({"jsonrpc": "2.0", "id": number, "method": "ping"}))
        assert event == Request(number, "ping", None)
        answer = json.loads(made.result(number, {}))
        assert answer == {"jsonrpc": "2.0", "id": number, "result": {}}

    def test_the_number_1_and_the_string_1_are_two_ids(self) -> None:
        first, second = received(
            b'{"jsonrpc":"2.0","id":1,"method":"m"}\n{"jsonrpc":"2.0","id":"1","method":"m"}\n'
        )
        assert isinstance(first, Request)
        assert isinstance(second, Request)

    @pytest.mark.parametrize("empty", [b"\n", b"\r\n", b"  \t\n", b"\n\n\n"])
    def test_empty_line_is_nothing(self, empty: bytes) -> None:
        assert received(empty) == []

    def test_a_line_that_has_not_ended_is_not_there_yet(self) -> None:
        made = opened()
        assert made.receive(b'{"jsonrpc":"2.0","id":1,"method":"m"}') == []
        assert made.receive(b"\n") == [Request(1, "m", None)]


class TestRefused:
    @pytest.mark.parametrize(
        "data",
        [
            b"this is no json",
            b"{",
            b'{"jsonrpc":"2.0","id":1,"method":"m"',
            b'{"jsonrpc":"2.0","id":1,"method":"m",}',
            b'{"jsonrpc":"2.0","id":1,"method":"m"}{}',
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}',
            b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xed\xa0\x80"}}',
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"\xff":1}}',
            b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"m"}',
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + b"[" * 10_000 + b"}}",
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":'
            + b"[" * 10_000
            + b"]" * 10_000
            + b"}}",
            b"\xef\xbb\xbf{}",
        ],
        ids=lambda data: ascii(data)[2:50],
    )
    def test_what_is_not_json(self, data: bytes) -> None:
        answer = refused(data + b"\n")
        assert (answer["id"], answer["code"]) == (None, -32700)

    @pytest.mark.parametrize(
        ("data", "number"),
        [
            (b"1", None),
            (b"null", None),
            (b'"text"', None),
            (b"{}", None),
            (b'{"jsonrpc":"2.0"}', None),
            (b'{"jsonrpc":"2.0","id":5}', 5),
            (b'{"jsonrpc":"1.0","id":5,"method":"m"}', 5),
            (b'{"jsonrpc":2.0,"id":5,"method":"m"}', 5),
            (b'{"id":"five","method":"m"}', "five"),
            (b'{"jsonrpc":"2.0","id":5,"method":7}', 5),
            (b'{"jsonrpc":"2.0","method":null}', None),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', None),
            (b'{"jsonrpc":"2.0","id":1.0,"method":"m"}', None),
            (b'{"jsonrpc":"2.0","id":null,"method":"m"}', None),
            (b'{"jsonrpc":"2.0","id":true,"method":"m"}', None),
            (b'{"jsonrpc":"2.0","id":[1],"method":"m"}', None),
            (b'{"jsonrpc":"2.0","id":5,"method":"m","params":"p"}', 5),
            (b'{"jsonrpc":"2.0","id":5,"method":"m","params":0}', 5),
            (b'[{"jsonrpc":"2.0","id":5,"method":"m"}]', None),
            (b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":"\\ud800"}}', 5),
            (b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":1e999}}', 5),
            (b'{"jsonrpc":"2.0","id":"\\udc00","method":"m"}', None),
            (b'["\\ud800"]', None),
            (b'"\\ud800"', None),
            (b"[]", None),
        ],
    )
    def test_what_is_no_request(self, data: bytes, number: object) -> None:
        answer = refused(data + b"\n")
        assert (answer["id"], answer["code"]) == (number, -32600)

    def test_batch_is_told_what_to_do(self) -> None:
        assert "batch" in refused(b"[]\n")["message"]

    def test_params_by_position(self) -> None:
        answer = refused(b'{"jsonrpc":"2.0","id":5,"method":"m","params":[1]}\n')
        assert (answer["id"], answer["code"]) == (5, -32602)

    @pytest.mark.parametrize(
        "data",
        [
            b'{"jsonrpc":"2.0","method":"m","params":[1]}\n',
            b'{"jsonrpc":"2.0","method":"m","params":7}\n',
            b'{"jsonrpc":"2.0","method":"m","params":{"a":"\\ud800"}}\n',
            b'{"jsonrpc":"2.0","id":null,"result":{}}\n',
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}\n',
            b'{"jsonrpc":"2.0","id":1.5,"error":{"code":-32700,"message":"what?"}}\n',
            b'{"jsonrpc":"2.0","result":{}}\n',
        ],
    )
    def test_wrong_notifications_and_answers_get_no_answer(self, data: bytes) -> None:
        assert received(data) == []

    def test_an_answer_is_taken_though_its_words_are_cut_within_a_character(self) -> None:
        (event,) = received(b'{"jsonrpc":"2.0","id":"q","result":{"reason":"no \\ud83d"}}\n')
        assert event == Response("q", {"reason": "no \ud83d"}, None)

    def test_the_next_line_is_served(self) -> None:
        first, second = received(b'nonsense\n{"jsonrpc":"2.0","id":1,"method":"m"}\n')
        assert isinstance(first, Invalid)
        assert second == Request(1, "m", None)


def ping(number: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


NOTIFICATION = {"jsonrpc": "2.0", "method": "n"}


class TestBatch:
    def test_its_requests_are_answered_together(self) -> None:
        made = opened("2025-03-26")
        answer = {"jsonrpc": "2.0", "id": "server-1", "result": {}}
        events = made.receive(line([ping(1), NOTIFICATION, ping("b"), answer]))
        assert events == [
            Request(1, "ping", None),
            Notification("n", {}),
            Request("b", "ping", None),
            Response("server-1", {}, None),
        ]
        assert made.result("b", {"late": 1}) == b""
        together = made.error(1, -32601, "no")
        assert together.endswith(b"]\n")
        assert json.loads(together) == [
            {"jsonrpc": "2.0", "id": "b", "result": {"late": 1}},
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}},
        ]
        assert made.receive(line(ping(1))) == [Request(1, "ping", None)]

    def test_what_is_wrong_in_it_is_answered_with_the_rest(self) -> None:
        made = opened("2025-03-26")
        events = made.receive(line([{"id": 7}, {"id": 8, "method": "x"}, 9, ping(1), ping(1)]))
        assert events == [Request(1, "ping", None)]
        told = [it.get("id") for it in json.loads(made.result(1, {}))]
        assert told == [7, 8, None, 1, 1]
        (alone,) = made.receive(line([{"jsonrpc": "1.0", "id": 3, "method": "x"}]))
        assert isinstance(alone, Invalid)
        assert [it["id"] for it in json.loads(alone.answer)] == [3]

    def test_one_that_is_forgotten_does_not_hold_up_the_others(self) -> None:
        made = opened("2025-03-26")
        made.receive(line([ping(1), ping(2)]))
        assert made.result(1, {}) == b""
        assert [it["id"] for it in json.loads(made.forget(2))] == [1]
        made.receive(line([ping(1)]))
        assert made.forget(1) == b""

    def test_of_notifications_alone_there_is_no_answer(self) -> None:
        assert opened("2025-03-26").receive(line([NOTIFICATION])) == [Notification("n", {})]
        assert opened("2025-03-26").receive(b"[]\n") == []

    def test_initialize_is_not_part_of_one(self) -> None:
        made = opened("2025-03-26")
        (refusal,) = made.receive(line([INITIALIZE]))
        assert isinstance(refusal, Invalid)
        (answer,) = json.loads(refusal.answer)
        assert (answer["id"], answer["error"]["code"]) == ("hello", -32600)
        assert made.version == "2025-03-26"

    def test_no_more_messages_are_taken_than_a_client_needs(self) -> None:
        made = opened("2025-03-26")
        events = made.receive(line([ping(number) for number in range(1000)]))
        assert len(events) == 64
        for number in range(63):
            assert made.result(number, {}) == b""
        answers = json.loads(made.result(63, {}))
        assert sorted(it["id"] for it in answers) == list(range(1000))
        assert sum("error" in it for it in answers) == 1000 - 64

    @pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
    def test_other_versions_have_none(self, version: str) -> None:
        (refusal,) = opened(version).receive(line([ping(1)]))
        assert isinstance(refusal, Invalid)


@pytest.mark.parametrize("data", [b"nonsense\n", b"{}\n", b"7\n", b'{"id":null,"method":"m"}\n'])
def test_the_answer_to_what_has_no_id_has_none(data: bytes) -> None:
    for version in messages.VERSIONS:
        (refusal,) = opened(version).receive(data)
        assert isinstance(refusal, Invalid)
        assert json.loads(refusal.answer).keys() == {"jsonrpc", "error"}


class TestLongLine:
    def request(self, length: int) -> bytes:
        frame = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"%s"}}'
        return frame % (b"x" * (length - len(frame) + 2)) + b"\n"

    def test_longest_line_is_taken(self) -> None:
        data = self.request(MAX_LINE)
        assert len(data) == MAX_LINE + 1
        (event,) = received(data)
        assert isinstance(event, Request)

    def test_longer_line_is_refused_once_and_the_next_is_served(self) -> None:
        made = opened()
        chunk = b"x" * 65536
        events: list[Event] = []
        for _ in range(3 * MAX_LINE // len(chunk)):
            events += made.receive(chunk)
            assert len(made._line) <= MAX_LINE
        events += made.receive(b'x\n{"jsonrpc":"2.0","id":1,"method":"m"}\n')
        refusal, request = events
        assert isinstance(refusal, Invalid)
        assert json.loads(refusal.answer)["error"]["code"] == -32600
        assert request == Request(1, "m", None)

    def test_refused_in_one_chunk_too(self) -> None:
        refusal, request = received(
            self.request(MAX_LINE + 1) + b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'
        )
        assert isinstance(refusal, Invalid)
        assert request == Request(1, "m", None)


class TestState:
    def test_ping_comes_before_initialize(self) -> None:
        assert Session().receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n') == [
            Request(1, "ping", None)
        ]

    @pytest.mark.parametrize("method", ["tools/list", "tools/call", "codex/sandbox-state/update"])
    def test_others_do_not(self, method: str) -> None:
        answer = refused(line({"jsonrpc": "2.0", "id": 1, "method": method}), Session())
        assert (answer["id"], answer["code"]) == (1, -32600)
        assert answer["message"] == f"{method} came before initialize"

    @pytest.mark.parametrize("method", ["server/discover", "resources/list", ""])
    def test_an_unknown_one_is_unknown_at_once(self, method: str) -> None:
        answer = refused(line({"jsonrpc": "2.0", "id": 1, "method": method}), Session())
        assert (answer["id"], answer["code"]) == (1, -32601)
        assert method in answer["message"]

    @pytest.mark.parametrize(
        ("wanted", "got"),
        [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
            ("", "2025-11-25"),
        ],
    )
    def test_version_is_the_clients_or_else_the_newest(self, wanted: str, got: str) -> None:
        made = Session()
        hello = {**INITIALIZE, "params": {"protocolVersion": wanted}}
        (event,) = made.receive(line(hello))
        assert isinstance(event, Request)
        assert made.version == got

    @pytest.mark.parametrize(
        "params",
        [
            None,
            {},
            {"protocolVersion": 1},
            {"protocolVersion": None},
            {"protocolVersion": "2025-11-25", "capabilities": []},
        ],
    )
    def test_wrong_initialize_can_be_made_again(self, params: object) -> None:
        made = Session()
        answer = refused(line({**INITIALIZE, "params": params}), made)
        assert (answer["id"], answer["code"]) == ("hello", -32602)
        assert made.version == ""
        (event,) = made.receive(line(INITIALIZE))
        assert isinstance(event, Request)
        assert made.version == "2025-11-25"
        assert made.capabilities == {"elicitation": {}}

    def test_initialize_and_more_may_come_in_one_chunk(self) -> None:
        data = line(INITIALIZE) + b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
        first, second = Session().receive(data)
        assert isinstance(first, Request)
        assert second == Request(1, "tools/list", None)

    def test_an_id_is_free_again_once_answered_or_forgotten(self) -> None:
        made = opened()
        request = b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'
        ends: list[Callable[[], bytes]] = [
            lambda: made.result(1, {}),
            lambda: made.error(1, -1, "no"),
            lambda: made.forget(1),
        ]
        for end in ends:
            assert made.receive(request) == [Request(1, "m", None)]
            answer = refused(request, made)
            assert (answer["id"], answer["code"]) == (1, -32600)
            end()
        assert made.receive(request) == [Request(1, "m", None)]

    def test_requests_of_ours_have_ids_of_their_own(self) -> None:
        made = opened()
        (first, _), (second, sent) = made.request("m", {}), made.request("m", {"a": 1})
        assert first != second
        assert json.loads(sent) == {
            "jsonrpc": "2.0", "id": second, "method": "m", "params": {"a": 1},
        }  # fmt: skip


ANSWERS_AND_MORE = st.sampled_from(
    [
        line(INITIALIZE),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell"}}\r\n',
        b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"ping"}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
        b'{"jsonrpc":"2.0","id":3,"result":{"action":"accept"}}\n',
        b"\n",
        b"[]\n",
        b"\xff\n",
        b'{"jsonrpc":"2.0","id":1\n',
        b"nonsense",
        b"x" * 200 + b"\n",
    ]
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


class TestAnyBytes:
    @given(st.lists(ANSWERS_AND_MORE), st.lists(st.integers(0, 10_000)))
    def test_events_do_not_depend_on_where_the_bytes_are_cut(
        self, pieces: list[bytes], places: list[int]
    ) -> None:
        data = b"".join(pieces)
        limit, session.MAX_LINE = session.MAX_LINE, 150
        try:
            whole, cut_up, bytewise = Session(), Session(), Session()
            expected = whole.receive(data)
            assert [e for piece in cut(data, places) for e in cut_up.receive(piece)] == expected
            single = [data[at : at + 1] for at in range(len(data))]
            assert [e for byte in single for e in bytewise.receive(byte)] == expected
        finally:
            session.MAX_LINE = limit

    @given(st.lists(st.binary()))
    @example([b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":[]}}\n'])
    def test_whatever_comes_is_an_event_or_an_answer(self, chunks: list[bytes]) -> None:
        made = opened()
        for event in [e for chunk in [*chunks, b"\n"] for e in made.receive(chunk)]:
            if isinstance(event, Invalid):
                assert json.loads(event.answer)["error"]["code"] in (-32700, -32600, -32602)

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
        max_leaves=8,
    )  # fmt: skip

    @given(
        st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
            st.sampled_from(["2.0", "initialize", "tools/call"]) | json_values,
        )
    )
    def test_objects_of_any_shape(self, message: object) -> None:
        for made in (Session(), opened()):
            for event in made.receive(line(message)):
                if isinstance(event, Request):
                    made.result(event.id, {})
