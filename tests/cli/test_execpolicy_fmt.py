"""`execpolicy fmt`: files laid out as they are meant, or left as they are."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from codex_multitool import roles
from codex_multitool.execpolicy.amend import append_allow_rule
from tests.executables import built

BEFORE = "# mine\nprefix_rule(pattern = ['git', 'push'],decision='prompt')\n"
AFTER = '# mine\nprefix_rule(pattern=["git", "push"], decision="prompt")\n'


def fmt(*words: str | Path | bytes, typed: bytes | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [built() / roles.CLI, "execpolicy", "fmt", *words],
        input=typed,
        capture_output=True,
        check=False,
        timeout=60,
    )
    out, err = done.stdout.decode(), done.stderr.decode(errors="replace")
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "my.rules"
    path.write_text(BEFORE)
    return path


def test_file_is_laid_out_and_keeps_its_mode_and_owner(rules: Path) -> None:
    rules.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(rules, 1234, 4321)
    before = rules.stat()
    done = fmt(rules)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{rules}: formatted\n")
    assert rules.read_text() == AFTER
    after = rules.stat()
    for name in ("st_mode", "st_uid", "st_gid"):
        assert getattr(after, name) == getattr(before, name)
    assert list(rules.parent.iterdir()) == [rules]
    again = fmt(rules)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert rules.stat().st_ino == after.st_ino


def test_check_changes_nothing_and_says_which(rules: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.rules"
    good.write_text(AFTER)
    done = fmt("--check", rules, good)
    assert done.returncode == 1
    assert done.stdout == f"{rules}: not in the layout of `execpolicy fmt`\n"
    assert rules.read_text() == BEFORE
    assert fmt("--check", good).returncode == 0


def test_stdin_goes_to_stdout() -> None:
    done = fmt("-", typed=BEFORE.encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, AFTER, "")
    assert fmt("--check", "-", typed=BEFORE.encode()).returncode == 1


def test_link_stays_a_link(rules: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.rules"
    link.symlink_to(rules)
    assert fmt(link).returncode == 0
    assert link.is_symlink()
    assert rules.read_text() == AFTER


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"x = 1\nprefix_rule([)\n", ":2:14: starlark error"),
        (b"prefix_rule(pattern=['a'],decision='deny')\n", ":1:1: invalid decision"),
        (b"prefix_rule(['\xff'])\n", ":1:15: "),
        (b"x  =  f'''a\n'''\nprefix_rule(['a'])\n", ":1"),
    ],
)
def test_file_with_a_mistake_stays_byte_for_byte_and_the_others_are_laid_out(
    rules: Path, tmp_path: Path, text: bytes, told: str
) -> None:
    bad = tmp_path / "bad.rules"
    bad.write_bytes(text)
    done = fmt(bad, rules)
    if b"'''" in text and done.returncode == 0:
        pytest.skip("this Python takes it for a string like others")
    assert done.returncode == 1
    assert f"{bad}{told}" in done.stderr
    assert bad.read_bytes() == text
    assert rules.read_text() == AFTER


def test_examples_that_need_another_file_are_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text("prefix_rule( ['git'], match=['/usr/bin/git x'])\n")
    assert fmt(path).returncode == 0
    assert path.read_text() == 'prefix_rule(["git"], match=["/usr/bin/git x"])\n'


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, told in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "not a regular file"),
    ):
        done = fmt(path)
        assert (done.returncode, done.stderr) == (1, f"{path}: {told}\n")
    assert fmt().returncode == 2


def test_rules_that_are_added_meanwhile_are_not_lost(rules: Path) -> None:
    added = [f"program{number}" for number in range(8)]

    def add() -> None:
        for name in added:
            append_allow_rule(str(rules), [name])

    adding = threading.Thread(target=add)
    adding.start()
    while adding.is_alive():
        assert fmt(rules).returncode in (0, 1)
    adding.join()
    text = rules.read_text()
    assert all(f'"{name}"' in text for name in added)
