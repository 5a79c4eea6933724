"""Where keys and values stand, held against what tomllib reads."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings

from codex_multitool.config.toml_places import Path, Place, line_and_column, places
from tests.config.toml_texts import TOML

EXAMPLE = r"""# [not] a = "table"
title = "TOML"   # tail
[owner] # comment = 1
"full name" = 'Tom'
born . at = 1979-05-27 07:32:00
[ servers . "alpha" ]
ports = [ 8001, # one
  8002 ]
points = { x = 1, "y.z" = { w = "}" } }
[[fruit]]
name = QQQ
a "quoted" one""\"""QQQ
[fruit.physical]
color = "red"
[[fruit.variety]]
name = "delicious"
[[fruit.variety]]
name = "smith"
[[fruit]]
name = '''banana # ]'''
[[fruit.variety]]
name = "plantain"
""".replace("QQQ", '"' * 3)


QUOTED = '"""\na "quoted" one""' + r'\"""' + '"""'


def where(text: str, path: Path) -> tuple[str, str, str]:
    """Line and column of the key, of the value, and the value's text."""
    place = places(text)[path]
    key, start = (line_and_column(text, offset) for offset in (place.key, place.start))
    return "{}:{}".format(*key), "{}:{}".format(*start), text[place.start : place.end]


@pytest.mark.parametrize(
    ("path", "key", "value", "text"),
    [
        (("title",), "2:1", "2:9", '"TOML"'),
        (("owner",), "3:2", "3:2", ""),
        (("owner", "full name"), "4:1", "4:15", "'Tom'"),
        (("owner", "born"), "5:1", "5:1", ""),
        (("owner", "born", "at"), "5:8", "5:13", "1979-05-27 07:32:00"),
        (("servers",), "6:3", "6:3", ""),
        (("servers", "alpha"), "6:13", "6:13", ""),
        (("servers", "alpha", "ports"), "7:1", "7:9", "[ 8001, # one\n  8002 ]"),
        (("servers", "alpha", "ports", 1), "8:3", "8:3", "8002"),
        (("servers", "alpha", "points", "x"), "9:12", "9:16", "1"),
        (("servers", "alpha", "points", "y.z", "w"), "9:29", "9:33", '"}"'),
        (("fruit",), "10:3", "10:3", ""),
        (("fruit", 0), "10:3", "10:3", ""),
        (
            ("fruit", 0, "name"),
            "11:1",
            "11:8",
            EXAMPLE.splitlines()[10][7:] + "\n" + EXAMPLE.splitlines()[11],
        ),
        (("fruit", 0, "physical", "color"), "14:1", "14:9", '"red"'),
        (("fruit", 0, "variety", 1, "name"), "18:1", "18:8", '"smith"'),
        (("fruit", 1), "19:3", "19:3", ""),
        (("fruit", 1, "name"), "20:1", "20:8", "'''banana # ]'''"),
        (("fruit", 1, "variety", 0, "name"), "22:1", "22:8", '"plantain"'),
    ],
)
def test_each_thing_is_found(path: Path, key: str, value: str, text: str) -> None:
    tomllib.loads(EXAMPLE)
    assert where(EXAMPLE, path) == (key, value, text)


def test_columns_count_characters_and_keys_are_decoded() -> None:
    text = 'a = "𝄞é"\n"\\u00e9\\"" = { \'é"\' = 1 }'
    assert where(text, ('é"', 'é"')) == ("2:16", "2:23", "1")


def test_a_large_file_takes_no_long_way() -> None:
    text = "".join(f'k{n} = ["{"x" * 90}", {{ a = "y" }}] # {"z" * 50}\n' for n in range(5000))
    assert len(places(text)) == 5000 * 4


def leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from leaves(inner, (*path, key))
        case list():
            for index, inner in enumerate(value):
                yield from leaves(inner, (*path, index))
        case _:
            pass
    yield path, value


@settings(max_examples=200, suppress_health_check=[HealthCheck.filter_too_much])
@given(TOML)
def test_every_value_tomllib_reads_is_found_and_no_other(text: str) -> None:
    text = text.replace("\r\n", "\n")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    found = places(text)
    expected = dict(leaves(values))
    del expected[()]
    assert set(found) == set(expected)
    for path, place in found.items():
        if place.end > place.start:
            written = tomllib.loads(f"value = {text[place.start : place.end]}")["value"]
            assert repr(written) == repr(expected[path])  # NaN is equal only by its spelling
        else:
            assert isinstance(expected[path], dict | list)
            assert place == Place(place.key, place.key, place.key)
