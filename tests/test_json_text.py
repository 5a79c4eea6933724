"""The reader agrees with the standard one, or refuses with a place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.json_text import MAX_DEPTH, JSONTextError, decode

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def standard(text: str) -> object:
    def refuse(constant: str) -> object:
        raise ValueError(constant)

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_the_standard_module_writes_is_read(
    value: object, ascii_only: bool, indent: int | str | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert decode(text) == standard(text) == value


def agree(text: str) -> None:
    try:
        expected = standard(text)
    except (ValueError, RecursionError):
        with pytest.raises(JSONTextError, match=r"at character [0-9]+$"):
            decode(text)
    else:
        assert decode(text) == expected


@given(st.text(alphabet='{}[]",:\\u0aDd89cEe+-.tfnrlse \n\x01é', max_size=24))
def test_any_text_is_read_as_the_standard_module_does_or_refused(text: str) -> None:
    agree(text)


@given(VALUES, st.integers(0, 200), st.characters())
def test_so_is_a_text_with_one_character_changed(value: object, at: int, new: str) -> None:
    text = json.dumps(value)
    agree(text[:at] + new + text[at + 1 :])


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{", "[", "[1", "[1,", "[1,]", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}'),
        *(
            "{1:2}",
            "nul",
            "truer",
            "NaN",
            "Infinity",
            "-",
            "01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "0x1",
        ),
        *('"', '"\\', '"\\x"', '"\\u12"', '"\\u12g4"', '"a\nb"', "'a'", "1 2", "\ufeff1", "[1]]"),
        *("\u0661", '{"a":1 "b":2}', "[1 2]", "/**/1"),
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(JSONTextError):
        decode(text)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(JSONTextError, match="`a` is given twice, at character 7"):
        decode('{"a":1,"a":1}')


def test_depth_is_bounded() -> None:
    assert decode("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(JSONTextError, match="nested too deep"):
        decode("[" * 100_000)
    with pytest.raises(JSONTextError, match="nested too deep"):
        decode('{"a":' * 100_000)


def test_numbers_are_bounded() -> None:
    with pytest.raises(JSONTextError, match="a number too long"):
        decode("9" * 5000)


def test_surrogates_pair_up_and_may_stand_alone() -> None:
    assert decode('"\\ud83d\\ude00"') == "\U0001f600"
    assert decode('"\\udcff"') == "\udcff"
    assert decode('"\\ud83dx"') == "\ud83dx"
    assert decode('"\\ud83d\\u0041"') == "\ud83dA"
