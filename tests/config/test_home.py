"""CODEX_HOME: where configuration and rules are looked for."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home


def refusal(value: str) -> str:
    with pytest.raises(ConfigError) as caught:
        codex_home({"CODEX_HOME": value, "HOME": "/home/user"})
    return str(caught.value)


@pytest.mark.parametrize("environ", [{}, {"CODEX_HOME": ""}])
def test_the_default_need_not_exist(environ: dict[str, str]) -> None:
    assert codex_home({**environ, "HOME": "/nowhere/user"}) == "/nowhere/user/.codex"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_without_home_the_user_database_is_asked(environ: dict[str, str]) -> None:
    expected = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".codex")
    assert codex_home(environ) == expected


def test_a_stated_home_is_made_canonical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real = str((tmp_path / "real").resolve())
    assert codex_home({"CODEX_HOME": str(tmp_path / "link")}) == real
    monkeypatch.chdir(tmp_path)
    assert codex_home({"CODEX_HOME": "./link/"}) == real


def test_a_home_that_is_not_utf8(tmp_path: Path) -> None:
    home = os.path.join(os.path.realpath(tmp_path), os.fsdecode(b"caf\xe9"))
    os.mkdir(home)
    assert codex_home({"CODEX_HOME": home}) == home


def test_a_stated_home_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    missing, file, loop = (str(tmp_path / name) for name in ("missing", "file", "loop"))
    assert refusal(missing) == f'CODEX_HOME points to "{missing}", but that path does not exist'
    assert refusal(file) == f'CODEX_HOME points to "{file}", but that path is not a directory'
    assert refusal(f"{file}/x") == f'failed to read CODEX_HOME "{file}/x": Not a directory'
    assert refusal(loop).startswith(f'failed to read CODEX_HOME "{loop}": ')
    assert refusal("a\0b") == 'failed to read CODEX_HOME "a\0b": embedded null byte'
