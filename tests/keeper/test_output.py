"""Output is kept whole, or its beginning and end with an exact count of what is missing."""

import json
import re

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_multitool.keeper.output import SIZE, STDERR, STDOUT, Buffer, Capture, Output

LEFT_OUT = re.compile(r"\n?\[\.\.\. (\d+) bytes left out \.\.\.\]\n")

chunks = st.lists(st.binary(max_size=40), max_size=20)
texts = st.text(st.sampled_from("aé漢😀\n\x01"), max_size=200)


def captured(pieces: list[bytes], size: int = SIZE) -> tuple[Output, bytes]:
    """What is kept, and what was handed on with the rest."""
    rest: list[bytes] = []
    capture = Capture(size, rest.append)
    for piece in pieces:
        capture.feed(STDOUT, piece)
    return capture.output(), b"".join(rest)


def cut(data: bytes, points: list[int]) -> list[bytes]:
    ends = sorted(point % (len(data) + 1) for point in points)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def spelled(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


@given(chunks)
def test_what_fits_is_the_bytes_decoded(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    output, rest = captured(pieces)
    assert output.text() == data.decode(errors="replace")
    assert (output.left_out, rest) == (0, b"")
    assert output.replaced == (data.decode(errors="replace").encode() != data)


@pytest.mark.parametrize(
    ("size", "left_out"), [(0, 0), (SIZE - 1, 0), (SIZE, 0), (SIZE + 1, 1), (4 * SIZE, 3 * SIZE)]
)
def test_just_the_size_is_kept(size: int, left_out: int) -> None:
    output, rest = captured([b"x" * size])
    assert output.left_out == left_out
    assert output.text("").count("x") == size - left_out
    assert len(rest) == (size if left_out else 0)


def test_what_counts_is_what_a_model_is_given() -> None:
    assert captured([b'"' * (SIZE // 2)])[0].left_out == 0
    output, rest = captured([b'"' * (SIZE // 2 + 1)])
    assert (output.left_out, len(rest)) == (1, SIZE // 2 + 1)


@given(data=st.binary(max_size=40))
@example(bytes(range(256)))
def test_it_is_counted_as_json_spells_it(data: bytes) -> None:
    spelled = len(msgspec.json.encode(data.decode(errors="replace"))) - 2
    assert captured([data], size=spelled + spelled % 2)[0].left_out == 0
    if spelled > 2:
        assert captured([data], size=(spelled - 1) // 2 * 2)[0].left_out > 0


@settings(max_examples=300)
@given(text=texts, points=st.lists(st.integers(0, 1000), max_size=8), size=st.integers(2, 80))
def test_of_more_the_beginning_and_the_end_are_kept_and_the_rest_counted(
    text: str, points: list[int], size: int
) -> None:
    data = text.encode()
    output, rest = captured(cut(data, points), size)
    if not output.left_out:
        assert (output.text(), rest) == (text, b"")
        return
    assert spelled(text) > size // 2 * 2
    assert text.startswith(output.head)
    assert text.endswith(output.tail)
    assert output.left_out == len(data) - len(output.head.encode()) - len(output.tail.encode())
    assert spelled(output.head) <= size // 2 >= spelled(output.tail)
    assert not output.replaced
    assert rest == data


@given(pieces=chunks, size=st.integers(2, 40))
def test_bytes_that_are_no_text_are_counted_just_as_well(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)
    output, rest = captured(pieces, size)
    assert 0 <= output.left_out <= len(data)
    assert output.left_out >= len(data) - size
    assert rest == (data if output.left_out else b"")


def test_it_is_cut_between_lines() -> None:
    output, _ = captured(["".join(f"line {n}\n" for n in range(5000)).encode()])
    assert output.head.startswith("line 0\nline 1\n")
    assert output.tail.endswith("line 4998\nline 4999\n")
    assert output.head.endswith("\n")
    assert output.tail.startswith("line ")
    assert spelled(output.head) > SIZE // 2 - 20
    assert spelled(output.tail) > SIZE // 2 - 20


def test_a_long_line_is_cut_rather_than_left_out() -> None:
    output, _ = captured([b"begin\n" + b"x" * 5 * SIZE + b"\nend\n"])
    assert output.head.startswith("begin\nxxx")
    assert output.tail.endswith("xxx\nend\n")
    assert spelled(output.head + output.tail) == SIZE


def test_no_more_lines_are_kept_than_clients_pass_on() -> None:
    whole, _ = captured([b"\n" * 2000])
    assert whole.left_out == 0
    output, rest = captured([b"\n" * 2001])
    assert (output.head, output.tail) == ("\n" * 990, "\n" * 990)
    assert (output.left_out, len(rest)) == (21, 2001)
    numbered, _ = captured([b"".join(b"%d\n" % n for n in range(2001))], 1 << 20)
    assert numbered.head.split()[-1] == "989"
    assert numbered.tail.split()[0] == "1011"


@pytest.mark.parametrize("size", range(2, 24))
def test_a_character_that_is_cut_is_no_mistake_of_the_command(size: int) -> None:
    output, _ = captured(["é漢😀".encode() * 10], size)
    assert "\ufffd" not in output.text()
    assert not output.replaced


def test_what_is_left_out_stands_on_a_line_of_its_own() -> None:
    assert Output("a\n", "b\n", 7).text() == "a\n[... 7 bytes left out ...]\nb\n"
    assert Output("a", "b", 7).text("[...]") == "a\n[...]\nb"
    assert Output("", "b", 7).text("[...]") == "[...]\nb"
    assert Output("a").text("[...]") == "a"


def test_what_is_kept_does_not_grow_with_what_is_printed() -> None:
    buffer = Buffer(cap=1000)
    for _ in range(10_000):
        buffer.feed(b"x" * 777)
        assert sum(map(len, buffer.kept())) < 1 << 17


def test_invalid_bytes_are_replaced_and_that_is_told() -> None:
    assert captured([b"a\xff\xfeb\n"])[0] == Output("a\ufffd\ufffdb\n", replaced=True)


def test_streams_are_kept_in_the_order_they_came() -> None:
    capture = Capture()
    for stream, data in [(STDOUT, b"1 "), (STDERR, b"2 "), (STDERR, b"3 "), (STDOUT, b"4")]:
        capture.feed(stream, data)
    assert capture.output().text() == "1 2 3 4"


def test_one_streams_bad_bytes_do_not_touch_the_other() -> None:
    capture = Capture()
    capture.feed(STDERR, b"\xff")
    capture.feed(STDOUT, "café\n".encode())
    output = capture.output()
    assert output.replaced
    assert sorted(output.text()) == sorted("café\n\ufffd")


@given(st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), texts), max_size=6), st.data())
def test_a_character_split_between_two_reads_stays_whole_beside_the_other_stream(
    written: list[tuple[int, str]], data: st.DataObject
) -> None:
    capture = Capture(1 << 20)
    pending = {stream: "".join(t for s, t in written if s == stream).encode() for stream in (0, 1)}
    every = "".join(text for _, text in written)
    while any(pending.values()):
        stream = data.draw(st.sampled_from([s for s in (0, 1) if pending[s]]))
        size = data.draw(st.integers(1, 30))
        capture.feed(stream, pending[stream][:size])
        pending[stream] = pending[stream][size:]
    output = capture.output()
    assert not output.replaced
    assert sorted(output.text()) == sorted(every)


@given(st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=6))))
@example([(STDOUT, b"\xf0\x9f"), (STDERR, b"e"), (STDOUT, b"\x98")])
def test_together_no_byte_is_lost_whatever_the_bytes(written: list[tuple[int, bytes]]) -> None:
    capture = Capture()
    for stream, data in written:
        capture.feed(stream, data)
    assert capture.output().left_out == 0
    kept = b"".join(capture._buffer.kept())
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
    capture = Capture(100)
    for number in range(1000):
        capture.feed(number % 2, b"line %d\n" % number)
    assert capture.last_line() == "line 999"
