"""Layers as texts: what is no TOML is located, and an override is a small document."""

from __future__ import annotations

import pytest

from codex_multitool.config.documents import file_document, override_document
from codex_multitool.config.errors import ConfigError


def test_a_text_that_is_nested_too_deeply_to_be_walked_is_named_without_a_place() -> None:
    document = file_document("c.toml", "/", f"a = {'[' * 300}{']' * 300}\nb = 1")
    assert document.where(("b",)) in ("c.toml:2:1", "c.toml")
    for depth in (100, 400, 100_000):
        try:
            found = file_document("c.toml", "/", f"a = {'[' * depth}{']' * depth}").where(("a",))
        except ConfigError as error:
            found = error.where or ""
        assert found.startswith("c.toml")


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        file_document("c.toml", "/folder", text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a = 1\nb = ", "c.toml:2:5", "not TOML: Invalid value"),
        ("[a\n", "c.toml:1:3", "not TOML: Expected ']' at the end of a table declaration"),
        ('a = "', "c.toml:1:6", "not TOML: Unterminated string"),
        ("a = '''\n\n", "c.toml:3:1", "not TOML: Expected \"'''\""),
        ("a = 1\r\na = 2\r\n", "c.toml:2:6", "not TOML: Cannot overwrite a value"),
        ("é = 1", "c.toml:1:1", "not TOML: Invalid statement"),
        ("a = 'é' b", "c.toml:1:9", "not TOML: Expected newline or end of document"),
        ("a = 1\0", "c.toml:1:6", "not TOML: Expected newline or end of document"),
        ("d = 2026-02-30", "c.toml:1:5", "not TOML: Invalid date or datetime"),
    ],
)
def test_what_is_no_toml_is_located(text: str, where: str, what: str) -> None:
    error = refusal(text)
    assert error.where == where
    assert error.what.startswith(what)
    assert str(error) == f"{where}: {error.what}\n  {error.mend}"


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000])
def test_what_python_cannot_hold_is_an_error_of_the_file(text: str) -> None:
    error = refusal(text)
    assert error.where == "c.toml"


def test_a_place_that_is_not_there_is_that_of_what_is_around_it() -> None:
    document = file_document("c.toml", "/", "[t]\na = [1, 2]")
    assert document.where(("t", "a", 1)) == "c.toml:2:9"
    assert document.where(("t", "a"), value=True) == "c.toml:2:5"
    assert document.where(("t", "b")) == "c.toml:1:2"
    assert document.where(("x",)) == document.where(()) == "c.toml"


@pytest.mark.parametrize(
    ("stated", "values"),
    [
        ("a=1", {"a": 1}),
        (" a = true ", {"a": True}),
        ("a=x", {"a": "x"}),
        ("a=", {"a": ""}),
        ("a='x y'", {"a": "x y"}),
        ("a=x=y", {"a": "x=y"}),
        ("a='x", {"a": "x"}),
        ("a=/x#y", {"a": "/x#y"}),
        ("a=1 # one", {"a": 1}),
        ("a=1\nb = 2", {"a": "1\nb = 2"}),
        ('a=["x", "y"]', {"a": ["x", "y"]}),
        ("a={b = 1}", {"a": {"b": 1}}),
        ("a.b=c", {"a": {"b": "c"}}),
        ('a."b.c".d=1', {"a": {"b.c": {"d": 1}}}),
        ("a./b/c d.e=f", {"a": {"/b/c d": {"e": "f"}}}),
    ],
)
def test_an_override_is_a_document(stated: str, values: object) -> None:
    document = override_document(stated, "/here")
    assert document.values == values
    assert document.where(("a",)) == f"-c {stated}"
    assert document.folder == "/here"


@pytest.mark.parametrize("stated", ["a", "", "=1", ".=1", "a..b=1", "a.=1", "#=1", "\n=1", "[a]=1"])
def test_an_override_without_key_and_value_is_refused(stated: str) -> None:
    if stated == "[a]=1":
        assert override_document(stated, "/").values == {"[a]": 1}
        return
    with pytest.raises(ConfigError) as caught:
        override_document(stated, "/")
    assert str(caught.value) == (f"-c {stated}: not of the form key=value\n  write -c KEY=VALUE")


def test_an_override_of_any_depth_is_a_document() -> None:
    document = override_document(".".join(["a"] * 5000) + "=" + "[" * 5000, "/")
    assert list(document.values) == ["a"]
