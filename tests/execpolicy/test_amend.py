"""An allow rule goes into a rules file once, whole, or not at all."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codex_multitool.execpolicy import amend
from codex_multitool.execpolicy.amend import AmendError, append_allow_rule
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Decision

GIT = 'prefix_rule(pattern=["git", "push"], decision="allow")\n'


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path / "rules" / "default.rules"


def append(path: Path, *prefix: str) -> bool:
    return append_allow_rule(str(path), prefix)


def refusal(path: Path, *prefix: str) -> str:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(AmendError) as caught:
        append(path, *prefix)
    assert (path.read_bytes() if path.is_file() else None) == before
    return str(caught.value)


def test_makes_the_folder_and_the_file(rules: Path) -> None:
    assert append(rules, "git", "push")
    assert rules.read_text() == GIT
    assert rules.stat().st_mode & 0o022 == 0
    assert rules.parent.stat().st_mode & 0o022 == 0


def test_makes_one_folder_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "rules" / "default.rules"
    assert refusal(path, "git") == (
        f"failed to create policy directory {path.parent}: No such file or directory"
    )
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("before", "between"),
    [("", ""), ("# mine\n", ""), ("# mine", "\n"), ("# mine\n\n", ""), ("x = 1\r\n", "")],
)
def test_adds_exactly_the_newlines_that_are_needed(rules: Path, before: str, between: str) -> None:
    rules.parent.mkdir()
    rules.write_bytes(before.encode())
    assert append(rules, "git", "push")
    assert rules.read_bytes().decode() == before + between + GIT


def test_the_same_rule_is_there_once(rules: Path) -> None:
    assert append(rules, "git", "push")
    assert append(rules, "git")
    assert not append(rules, "git", "push")
    assert rules.read_text() == GIT + 'prefix_rule(pattern=["git"], decision="allow")\n'


def test_the_same_rule_without_its_newline_counts(rules: Path) -> None:
    rules.parent.mkdir()
    rules.write_text(GIT.rstrip())
    assert not append(rules, "git", "push")
    assert rules.read_text() == GIT.rstrip()


def test_a_link_to_a_file_stays_a_link(rules: Path, tmp_path: Path) -> None:
    rules.parent.mkdir()
    rules.symlink_to(tmp_path / "elsewhere")
    assert append(rules, "git", "push")
    assert rules.is_symlink()
    assert (tmp_path / "elsewhere").read_text() == GIT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_words_read_back_as_one_rule(tmp_path: Path, prefix: list[str]) -> None:
    path = tmp_path / "rules" / "default.rules"
    path.unlink(missing_ok=True)
    assert append_allow_rule(str(path), prefix)
    text = path.read_bytes().decode()
    assert text.count("\n") == 1
    (rule,) = parse([Source("f", text)]).rules[prefix[0]]
    assert rule.pattern == tuple((word,) for word in prefix)
    assert rule.decision is Decision.ALLOW
    assert not append_allow_rule(str(path), prefix)


def test_refuses_an_empty_rule(rules: Path) -> None:
    assert refusal(rules) == "prefix rule requires at least one token"
    assert not rules.parent.exists()


def test_refuses_words_that_no_rules_file_can_hold(rules: Path) -> None:
    assert refusal(rules, "caf\udce9") == "failed to format prefix tokens: not UTF-8 text"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"prefix_rule([", "mend the policy file first: {}:"),
        (b"x = '''\n", "mend the policy file first: {}:"),
        (b"foo\n", "mend the policy file first: {}:1: Variable `foo` not found"),
        (b"# caf\xe9\n", "policy file {} is not UTF-8; mend it first"),
        (b"def prefix_rule(pattern, decision):\n    pass\n", "the end of policy file {} hides"),
        (b"x = [1,\\\n", "mend the policy file first: {}:"),
    ],
)
def test_refuses_a_file_in_which_the_rule_would_be_lost(
    rules: Path, content: bytes, reason: str
) -> None:
    rules.parent.mkdir()
    rules.write_bytes(content)
    assert refusal(rules, "git").startswith(reason.format(rules))


def test_examples_that_need_another_file_are_no_hindrance(rules: Path) -> None:
    rules.parent.mkdir()
    rules.write_text('prefix_rule(["git"], not_match=["/x/git"])\n')
    assert append(rules, "hg")


def test_refuses_what_is_no_file(rules: Path, tmp_path: Path) -> None:
    rules.parent.mkdir()
    os.mkfifo(rules)
    assert refusal(rules, "a") == f"failed to open policy file {rules}: not a regular file"
    assert refusal(tmp_path / "rules", "a") == (
        f"failed to open policy file {tmp_path / 'rules'}: Is a directory"
    )
    with pytest.raises(AmendError, match="policy path has no parent: "):
        append_allow_rule("", ["a"])
    (tmp_path / "file").touch()
    assert "Not a directory" in refusal(tmp_path / "file" / "default.rules", "a")


def test_a_write_cut_short_leaves_the_file_as_it_was(rules: Path) -> None:
    append(rules, "git", "push")
    # Past the size limit write(2) stops short, then fails with EFBIG.
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for room in (0, 10):
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(GIT) + room, limits[1]))
            reason = refusal(rules, "hg")
            assert reason.startswith(f"failed to write to policy file {rules}: ")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_a_lock_held_for_ever_is_an_error(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(rules, "git", "push")
    monkeypatch.setattr(amend, "_LOCK_SECONDS", 0.1)
    with rules.open() as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert refusal(rules, "hg") == f"failed to lock policy file {rules}: held for over 0.1 s"
    assert append(rules, "hg")


def test_writers_at_the_same_time_lose_nothing(rules: Path) -> None:
    script = (
        "import sys\n"
        "from codex_multitool.execpolicy.amend import append_allow_rule\n"
        "for n in range(8): append_allow_rule(sys.argv[1], ['shared', str(n)])\n"
        "for n in range(8): append_allow_rule(sys.argv[1], [sys.argv[2], str(n)])\n"
    )
    root = Path(amend.__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(rules), name], cwd=root)
        for name in ("one", "two", "three")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    policy = parse([Source("f", rules.read_text())])
    assert {name: len(found) for name, found in policy.rules.items()} == {
        "shared": 8,
        "one": 8,
        "two": 8,
        "three": 8,
    }
