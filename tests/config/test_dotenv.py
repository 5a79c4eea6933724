"""The `.env` file of CODEX_HOME."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.config.dotenv import load_dotenv, parse
from codex_multitool.config.errors import ConfigError

ENVIRON = {"HOME": "/home/me", "OLD": "old"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("A=b", {"A": "b"}),
        ("A=b\nC=d\n", {"A": "b", "C": "d"}),
        ("A=b\r\nC=d\r\n", {"A": "b", "C": "d"}),
        ("\n  # A=b\n\t A \t= b \t# c", {"A": "b"}),
        ("A=", {"A": ""}),
        ("A= # c", {"A": ""}),
        ("A=#c\nB=1", {"A": "", "B": "1"}),
        ("A=b#c", {"A": "b#c"}),
        ("A=1\nA=2", {"A": "2"}),
        ("export A=b", {"A": "b"}),
        ("export\tA=b", {"A": "b"}),
        ("export=b", {"export": "b"}),
        ("a.b_1=c", {"a.b_1": "c"}),
        ("A='b c # $OLD \\n'", {"A": "b c # $OLD \\n"}),
        ("A='b\nc'\nD=e", {"A": "b\nc", "D": "e"}),
        ('A="b c # \\"$OLD\\" \\n\\\\\\$"', {"A": 'b c # "old" \n\\$'}),
        ('A="b\nc"', {"A": "b\nc"}),
        ("A=b\\ c", {"A": "b c"}),
        ("A=b'c d'\"e f\"g", {"A": "bc de fg"}),
        ("A=$OLD", {"A": "old"}),
        ("A=${OLD}er", {"A": "older"}),
        ("A=$OLD-$HOME", {"A": "old-/home/me"}),
        ("A=$NONE.", {"A": "."}),
        ("OLD=new\nA=$OLD", {"OLD": "new", "A": "new"}),
        ("OLD=\nA=$OLD", {"OLD": "", "A": ""}),
        ("A=a=b", {"A": "a=b"}),
    ],
)
def test_a_line_states_a_variable(text: str, expected: dict[str, str]) -> None:
    assert parse(text, ENVIRON) == expected


@pytest.mark.parametrize(
    "line",
    ["A", "A b=c", "=b", "1A=b", "-A=b", "A=b c", "A='b", 'A="b', 'A="b\\x"', "A=b\\", "A=${OLD",
     "A B", "export A", 'A="b" c', "A=\0", "\0=b"],
)  # fmt: skip
def test_a_bad_line_is_skipped_and_the_others_count(line: str) -> None:
    assert parse(f"X=1\n{line}\nY=2", ENVIRON) == {"X": "1", "Y": "2"}


@pytest.mark.parametrize("name", ["CODEX_HOME", "codex_x", "Codex_", "CODEX_MULTITOOL_CACHE"])
def test_names_of_codex_are_left_out(name: str) -> None:
    assert parse(f"{name}=x\nA=${{{name}}}", ENVIRON) == {"A": "x"}
    assert parse(f"{name}=x\nA=${{{name}}}", {name: "y"}) == {"A": "y"}


@given(st.text(st.sampled_from("AB= '\"\\$\n#{}é\0")))
def test_any_text_is_read(text: str) -> None:
    for name, value in parse(text, ENVIRON).items():
        assert name.isidentifier()
        assert "\0" not in value


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"CODEX_HOME": str(tmp_path), "A": "old", "B": "kept"}


def test_what_is_there_is_overwritten(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / ".env").write_bytes(b"A=new\nC=caf\xe9\nCODEX_HOME=/elsewhere\n")
    assert load_dotenv(environ) == {**environ, "A": "new", "C": os.fsdecode(b"caf\xe9")}


def test_without_the_file_nothing_changes(environ: dict[str, str]) -> None:
    assert load_dotenv(environ) == environ


def test_without_a_home_nothing_changes() -> None:
    assert load_dotenv({"CODEX_HOME": "/no/such/home"}) == {"CODEX_HOME": "/no/such/home"}


def test_the_working_folders_file_is_nobodys(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".env").write_text("A=new")
    monkeypatch.chdir(tmp_path / "work")
    assert load_dotenv(environ) == environ


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / ".env").mkdir()
    with pytest.raises(ConfigError) as caught:
        load_dotenv(environ)
    assert str(caught.value) == (f"failed to read environment file {tmp_path}/.env: Is a directory")
