"""Rules files of one home: found, read, and all or none of them in force."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.rules_files import load_policy, read_rules, rules_files
from codex_multitool.execpolicy.rules import RulesError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    return tmp_path / "rules"


def found(folder: Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in rules_files(str(folder.parent))]


def test_no_folder_means_no_rules_and_makes_none(tmp_path: Path) -> None:
    assert rules_files(str(tmp_path)) == []
    assert rules_files(str(tmp_path / "missing")) == []
    assert list(tmp_path.iterdir()) == []


def test_files_are_sorted_by_their_bytes(folder: Path) -> None:
    for name in ("b.rules", "B.rules", "é.rules", "a.rules", os.fsdecode(b"\xff.rules")):
        (folder / name).touch()
    assert found(folder) == [
        "B.rules",
        "a.rules",
        "b.rules",
        "é.rules",
        os.fsdecode(b"\xff.rules"),
    ]


def test_only_regular_files_named_so_directly_in_the_folder(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "deep.rules").touch()
    (folder / "folder.rules").mkdir()
    os.mkfifo(folder / "pipe.rules")
    for name in ("a.rule", "b.rules~", "c.RULES", ".rules", "rules", "d.codexpolicy"):
        (folder / name).touch()
    (folder / "to-folder.rules").symlink_to("in")
    (folder / "to-file.rules").symlink_to("in/deep.rules")
    (folder / ".hidden.rules").touch()
    assert found(folder) == [".hidden.rules", "to-file.rules"]


def test_a_link_that_leads_nowhere_is_an_error(folder: Path) -> None:
    (folder / "lost.rules").symlink_to("missing")
    with pytest.raises(ConfigError) as caught:
        rules_files(str(folder.parent))
    assert str(caught.value) == (
        f"failed to read rules file {folder}/lost.rules: No such file or directory"
    )


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rules").touch()
    with pytest.raises(ConfigError) as caught:
        rules_files(str(tmp_path))
    assert str(caught.value) == f"failed to read rules files from {tmp_path}/rules: Not a directory"


def test_all_files_make_one_policy(folder: Path) -> None:
    (folder / "b.rules").write_text('prefix_rule(["git"], "forbidden")')
    (folder / "a.rules").write_text('prefix_rule(["git"])')
    policy = load_policy(rules_files(str(folder.parent)))
    assert [str(rule.location) for rule in policy.rules["git"]] == [
        f"{folder}/a.rules:1:1",
        f"{folder}/b.rules:1:1",
    ]


def test_one_bad_file_means_no_policy(folder: Path) -> None:
    (folder / "a.rules").write_text('prefix_rule(["git"])')
    (folder / "b.rules").write_text('\nprefix_rule(["git"], "never")')
    with pytest.raises(RulesError) as caught:
        load_policy(rules_files(str(folder.parent)))
    assert str(caught.value).startswith(f"{folder}/b.rules:2:1: invalid decision: never\n")


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"\xff", "1:1: not UTF-8: byte 0xff"),
        (b"# caf\xc3\xa9\nx = '\xc3\xa9\xe9'", "2:7: not UTF-8: byte 0xe9"),
        (b"\xed\xa0\x80", "1:1: not UTF-8: byte 0xed"),
        (b"# \xe2\x82", "1:3: not UTF-8: byte 0xe2"),
    ],
)
def test_text_that_is_not_utf8_is_located(folder: Path, content: bytes, where: str) -> None:
    path = folder / "a.rules"
    path.write_bytes(content)
    with pytest.raises(RulesError) as caught:
        load_policy([str(path)])
    assert str(caught.value) == f"{path}:{where}\n  save the file as UTF-8"


def test_a_path_that_is_not_utf8_can_be_read_and_named(folder: Path) -> None:
    path = os.fsdecode(bytes(folder) + b"/\xff.rules")
    Path(path).write_text("prefix_rule([])")
    with pytest.raises(RulesError) as caught:
        load_policy(rules_files(str(folder.parent)))
    assert caught.value.path == path


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_policy([str(folder)])
    assert str(caught.value) == f"failed to read rules file {folder}: Is a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_read_permission_is_named(folder: Path) -> None:
    (folder / "a.rules").touch(mode=0)
    with pytest.raises(ConfigError, match=r"a\.rules: Permission denied"):
        load_policy(rules_files(str(folder.parent)))


def test_a_huge_file_is_refused_before_it_is_read_whole(folder: Path) -> None:
    path = folder / "a.rules"
    with path.open("wb") as rules:
        rules.truncate(1 << 40)
    with pytest.raises(RulesError, match=r"a\.rules: larger than 16 MiB"):
        read_rules(str(path))
