"""Rules files of one home: found, read, and all or none of them in force."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.rules_files import (
    load_policy,
    overlooked,
    read_rules,
    rules_files,
)
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


def test_files_that_are_not_read_for_a_slip_in_their_name_are_told(folder: Path) -> None:
    for name in ("a.rule", "b.RULES", "c.codexpolicy", "d.rules", "e.txt", "f.rules~", "rules"):
        (folder / name).touch()
    (folder / "g.rule").mkdir()
    assert list(overlooked(str(folder.parent))) == [
        f"{folder}/{name}.{ending} is not read: the name of a rules file is {name}.rules"
        for name, ending in (("a", "rule"), ("b", "RULES"), ("c", "codexpolicy"), ("f", "rules~"))
    ]
    assert list(overlooked(str(folder / "none"))) == []


class TestPaths:
    """Rules about files that are not there, or go by another name."""

    @pytest.fixture
    def program(self, folder: Path) -> Path:
        (folder / "bin").mkdir()
        (folder / "bin" / "program").touch()
        (folder / "link").symlink_to("bin/program")
        return folder / "bin" / "program"

    def warnings(self, folder: Path, text: str) -> tuple[str, ...]:
        (folder / "a.rules").write_text(text)
        return load_policy([str(folder / "a.rules")]).warnings

    def test_one_that_is_there_is_no_news(self, folder: Path, program: Path) -> None:
        text = (
            f'prefix_rule(["{program}"], "forbidden")\n'
            f'prefix_rule([["{program}", "/no/such"]], "forbidden")\n'
            f'prefix_rule(["{folder}/link"])\n'
            f'prefix_rule([["{folder}/link", "{program}"]], "prompt")\n'
            f'host_executable("program", ["{program}", "/no/such/program"])\n'
        )
        assert self.warnings(folder, text) == ()

    @pytest.mark.parametrize("decision", ["allow", "forbidden"])
    def test_one_that_is_not_is_told(self, folder: Path, decision: str) -> None:
        text = f'prefix_rule(["/no/such x"], "{decision}")\nhost_executable("a", ["/no/such/a"])'
        assert self.warnings(folder, text) == (
            f"{folder}/a.rules:1:1: /no/such x is not there: the rule covers nothing until it is",
            'host_executable("a"): no file of these is there: /no/such/a',
        )

    def test_another_name_of_a_file_is_not_all_of_it(self, folder: Path, program: Path) -> None:
        (told,) = self.warnings(folder, f'prefix_rule(["{folder}/link"], "forbidden")')
        assert f"{folder}/link leads to {program}: who calls it by that name is not covered" in told
        (told,) = self.warnings(folder, f'prefix_rule(["{folder}/bin"], "forbidden")')
        assert f"{folder}/bin is a folder: the rule covers nothing" in told

    def test_a_command_line_in_place_of_a_path(self, folder: Path, program: Path) -> None:
        with pytest.raises(RulesError) as caught:
            self.warnings(folder, f'prefix_rule(["{program} -rf x"], "forbidden")')
        assert caught.value.mend == f'write "{program}", "-rf x"'
        assert len(self.warnings(folder, f'prefix_rule(["{program} -rf"])')) == 1
        (folder / "bin" / "program -rf").touch()
        assert self.warnings(folder, f'prefix_rule(["{program} -rf"], "forbidden")') == ()
