"""Output is kept whole, or its beginning and end with an exact count of what is missing."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_multitool.mcp_server.output import CAP, STDERR, STDOUT, Buffer, Capture, Captured

LEFT_OUT = re.compile(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")

chunks = st.lists(st.binary(max_size=40), max_size=20)
texts = st.text(st.sampled_from("aé漢😀"), max_size=60)


def filled(pieces: list[bytes], cap: int = CAP) -> Captured:
    buffer = Buffer(cap)
    for piece in pieces:
        buffer.feed(piece)
    return buffer.captured()


def cut(data: bytes, points: list[int]) -> list[bytes]:
    ends = sorted(point % (len(data) + 1) for point in points)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(chunks)
def test_below_the_cap_the_text_is_the_bytes_decoded(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    captured = filled(pieces)
    assert captured.text == data.decode(errors="replace")
    assert captured.dropped == 0
    assert captured.replaced == (data.decode(errors="replace").encode() != data)


@pytest.mark.parametrize(
    ("size", "dropped"), [(0, 0), (CAP - 1, 0), (CAP, 0), (CAP + 1, 1), (4 * CAP, 3 * CAP)]
)
def test_just_the_cap_is_kept(size: int, dropped: int) -> None:
    captured = filled([b"x" * size])
    assert captured.dropped == dropped
    assert captured.text.count("x") == size - dropped
    assert bool(LEFT_OUT.search(captured.text)) == bool(dropped)


@settings(max_examples=300)
@given(text=texts, points=st.lists(st.integers(0, 1000), max_size=8), cap=st.integers(2, 40))
def test_beyond_the_cap_the_beginning_and_the_end_are_kept_and_the_rest_counted(
    text: str, points: list[int], cap: int
) -> None:
    data = text.encode()
    captured = filled(cut(data, points), cap)
    if not captured.dropped:
        assert len(data) <= cap // 2 * 2
        assert captured.text == text
        return
    head, number, tail = LEFT_OUT.split(captured.text)
    assert text.startswith(head)
    assert text.endswith(tail)
    # Not a byte more than the cap demands, but for a character cut in two on either side.
    kept = len(head.encode()) + len(tail.encode())
    assert int(number) == captured.dropped == len(data) - kept
    assert cap // 2 * 2 - 6 <= kept <= cap
    assert not captured.replaced


@given(pieces=chunks, cap=st.integers(2, 40))
def test_bytes_that_are_no_text_are_counted_just_as_well(pieces: list[bytes], cap: int) -> None:
    data = b"".join(pieces)
    captured = filled(pieces, cap)
    assert captured.dropped >= max(0, len(data) - cap)
    assert captured.dropped <= max(0, len(data) - cap // 2 * 2 + 6)


@pytest.mark.parametrize("cap", range(2, 24))
def test_a_character_cut_by_the_cap_is_no_mistake_of_the_command(cap: int) -> None:
    captured = filled(["é漢😀".encode() * 10], cap)
    assert "\ufffd" not in captured.text
    assert not captured.replaced


def test_what_is_kept_does_not_grow_with_what_is_printed() -> None:
    buffer = Buffer(cap=1000)
    for _ in range(10_000):
        buffer.feed(b"x" * 777)
        assert len(buffer._head) + len(buffer._tail) <= 500 + 1000 + 777


def test_invalid_bytes_are_replaced_and_that_is_told() -> None:
    captured = filled([b"a\xff\xfeb\n"])
    assert captured == Captured("a\ufffd\ufffdb\n", 0, replaced=True)


def test_streams_are_kept_apart_and_together_in_the_order_they_came() -> None:
    capture = Capture()
    for stream, data in [(STDOUT, b"1 "), (STDERR, b"2 "), (STDERR, b"3 "), (STDOUT, b"4")]:
        capture.feed(stream, data)
    assert capture.stdout().text == "1 4"
    assert capture.stderr().text == "2 3 "
    assert capture.both().text == "1 2 3 4"


def test_one_streams_bad_bytes_do_not_touch_the_other() -> None:
    capture = Capture()
    capture.feed(STDERR, b"\xff")
    capture.feed(STDOUT, "café\n".encode())
    assert capture.stdout() == Captured("café\n", 0, replaced=False)
    assert capture.stderr().replaced
    assert sorted(capture.both().text) == sorted("café\n\ufffd")


@given(st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), texts), max_size=6), st.data())
def test_a_character_split_between_two_reads_stays_whole_beside_the_other_stream(
    written: list[tuple[int, str]], data: st.DataObject
) -> None:
    capture = Capture()
    pending = {stream: "".join(t for s, t in written if s == stream).encode() for stream in (0, 1)}
    while any(pending.values()):
        stream = data.draw(st.sampled_from([s for s in (0, 1) if pending[s]]))
        size = data.draw(st.integers(1, 3))
        capture.feed(stream, pending[stream][:size])
        pending[stream] = pending[stream][size:]
    assert capture.stdout().text == "".join(t for s, t in written if s == STDOUT)
    assert capture.stderr().text == "".join(t for s, t in written if s == STDERR)
    both = capture.both()
    assert not both.replaced
    assert sorted(both.text) == sorted(capture.stdout().text + capture.stderr().text)


@given(st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=6))))
@example([(STDOUT, b"\xf0\x9f"), (STDERR, b"e"), (STDOUT, b"\x98")])
def test_together_no_byte_is_lost_whatever_the_bytes(written: list[tuple[int, bytes]]) -> None:
    capture = Capture()
    for stream, data in written:
        capture.feed(stream, data)
    assert capture.both().dropped == 0
    kept = bytes(capture._both._head)
    assert sorted(kept) == sorted(b"".join(data for _, data in written))
    for stream in (STDOUT, STDERR):
        own = b"".join(data for which, data in written if which == stream)
        assert is_subsequence(own, kept)


def is_subsequence(part: bytes, whole: bytes) -> bool:
    rest = iter(whole)
    return all(byte in rest for byte in part)


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (b"", ""),
        (b"one\ntwo\n", "two"),
        (b"one\ntw", "tw"),
        (b"one\n \n\n", "one"),
        (b" 10%\r 20%\r", "20%"),
        (b"\x1b[1;31mred\x1b[0m\n", "red"),
        (b"a\tb\x07\n", "a b"),
        ("漢".encode()[:2], ""),
        ("café 漢\n".encode(), "café 漢"),
        (b"x" * 5000, "x" * 200),
    ],
)
def test_the_last_line_says_where_the_command_is(printed: bytes, line: str) -> None:
    capture = Capture()
    capture.feed(STDOUT, printed)
    assert capture.last_line() == line


def test_the_last_line_is_the_later_streams_also_beyond_the_cap() -> None:
    capture = Capture(cap=100)
    for number in range(1000):
        capture.feed(number % 2, b"line %d\n" % number)
    assert capture.last_line() == "line 999"
