"""Texts for property tests: TOML in all its forms, and what a config.toml may look like."""

from __future__ import annotations

import json

from hypothesis import strategies as st

SPACE = st.sampled_from(["", " ", "\t", "  "])
BLANK = st.sampled_from(["", " ", "\n", ' # ] } , "\n', "\r\n", "\n\t\n"])
WORDS = st.one_of(
    st.sampled_from(
        ["", "a", "é", "a b", "#", "]", "}", ",", "=", "\\", "'", '"', '"""', "\n", "𝄞"]
    ),
    st.text(max_size=5),
)


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)  # its escapes are TOML's too, surrogate pairs aside


def _multiline(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"""', '""\\"').replace("\r", "\\r") + '"""'


STRINGS = st.one_of(
    WORDS.map(_basic),
    WORDS.map(_multiline),
    WORDS.map(lambda text: f"'{text}'"),
    WORDS.map(lambda text: f"'''{text}'''"),
    st.sampled_from(['""""a"""""', "''''a'''''", '"""\n\\\n  a"""', '"\\"#"', r"'\'"]),
)
KEYS = st.one_of(
    st.sampled_from(["a", "b", "c-d", "1", "_"]),
    WORDS.map(_basic),
    WORDS.map(lambda text: f"'{text}'"),
)
SCALARS = st.one_of(
    STRINGS,
    st.sampled_from(
        [
            "1", "-0x", "0xff", "+1_000", "1.5e3", "inf", "nan", "true", "false",
            "1979-05-27", "1979-05-27 07:32:00", "1979-05-27T07:32:00.5-07:00", "07:32:00",
        ]
    ),
)  # fmt: skip


def _inline(pairs: list[tuple[str, str]], space: str) -> str:
    return "{" + ",".join(f"{space}{key} = {value}{space}" for key, value in pairs) + "}"


VALUES: st.SearchStrategy[str] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(
            lambda items, blank, comma: (
                "[" + ",".join(blank + it + blank for it in items) + comma + "]"
            ),
            st.lists(inner, max_size=3),
            BLANK,
            st.sampled_from(["", ","]),
        ),
        st.builds(_inline, st.lists(st.tuples(KEYS, inner), max_size=2), SPACE),
    ),
    max_leaves=5,
)
DOTTED = st.builds(
    lambda keys, space: f"{space}.{space}".join(keys), st.lists(KEYS, min_size=1, max_size=3), SPACE
)
LINES = st.one_of(
    st.builds("{}{} = {}{}".format, SPACE, DOTTED, VALUES, SPACE),
    st.builds("[{}{}] # [x]".format, SPACE, DOTTED),
    st.builds("[[{}]]".format, DOTTED),
    st.sampled_from(["", "# a = 1", " # \"'", "\t"]),
)
ENDS = st.sampled_from(["\n", "\r\n", "\n\n"])
TOML = st.builds(
    lambda lines, last: "".join(line + end for line, end in lines) + last,
    st.lists(st.tuples(LINES, ENDS), max_size=6),
    LINES,
)
