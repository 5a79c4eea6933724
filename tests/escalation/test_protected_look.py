"""What is seen under the protected names, and what an enemy's files do to who looks."""

import mmap
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codex_multitool.escalation.protected import Snapshot, changes, put_back, unseen
from codex_multitool.escalation.protected_look import MAX_CONTENT, MAX_ENTRIES
from codex_multitool.escalation.protected_look import look as look_within

Change = Callable[[Path], object]


def look(places: list[str]) -> Snapshot:
    return look_within(places, places)


def git(*words: object, cwd: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", *identity, *map(str, words)]
    subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("template")
    git("init", "-q", cwd=folder)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=folder)
    return folder


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    """A repository with an agent's settings, in a directory that a sandbox may write."""
    place = tmp_path.resolve() / "place"
    shutil.copytree(template, place, symlinks=True)
    (place / ".claude").mkdir()
    (place / ".claude/settings.json").write_text("{}")
    (place / ".git/hooks/post-merge").write_text("#!/bin/sh\n")
    return place


def different(place: Path, change: Change) -> list[str]:
    """What is told of a change, by paths relative to the place."""
    before = look([str(place)])
    change(place)
    found = changes(before, look([str(place)]))
    return [f"{verb} {os.path.relpath(path, place)}" for verb, path, _ in found]


def write(name: str, text: str = "evil\n") -> Change:
    def change(place: Path) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)

    return change


def link_at(name: str) -> Change:
    def change(place: Path) -> None:
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to("/elsewhere")

    return change


def through_a_hard_link(place: Path) -> None:
    (place / "link").hardlink_to(place / ".git/config")
    (place / "link").write_text("[core]\n")


def by_renaming_the_directory(place: Path) -> None:
    (place / ".git/hooks").rename(place / "hooks")
    write("other/pre-commit")(place)
    (place / "other").rename(place / ".git/hooks")


def by_a_link(place: Path) -> None:
    write("other/pre-commit")(place)
    shutil.rmtree(place / ".git/hooks")
    (place / ".git/hooks").symlink_to("../other")


def in_another_repository(place: Path) -> None:
    git("init", "-q", "other", cwd=place)
    git("config", "core.fsmonitor", "evil", cwd=place / "other")
    (place / ".git").rename(place / "git")
    (place / ".git").write_text("gitdir: other/.git\n")


def through_a_mapping(place: Path) -> None:
    with (place / ".git/config").open("r+b") as config:
        mapping = mmap.mmap(config.fileno(), 0)
        mapping[:1] = b"#"
        mapping.close()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (write(".git/hooks/pre-commit"), ["wrote .git/hooks/pre-commit"]),
        (write(".git/hooks/post-merge"), ["wrote .git/hooks/post-merge"]),
        (write(".git/config"), ["wrote .git/config"]),
        (write(".git/config.worktree"), ["wrote .git/config.worktree"]),
        (write(".git/commondir"), ["wrote .git/commondir"]),
        (write(".git/info/attributes"), ["wrote .git/info/attributes"]),
        (write(".git/modules/a/b/config"), ["wrote .git/modules"]),
        (write(".envrc"), ["wrote .envrc"]),
        (write(".mcp.json"), ["wrote .mcp.json"]),
        (write(".codex/config.toml"), ["wrote .codex"]),
        (write(".vscode/tasks.json"), ["wrote .vscode"]),
        (write(".claude/settings.json"), ["wrote .claude/settings.json"]),
        (write(".claude/agents/a.md"), ["wrote .claude/agents"]),
        (link_at(".git/COMMIT_EDITMSG"), ["wrote .git/COMMIT_EDITMSG"]),
        (link_at(".git/FETCH_HEAD"), ["wrote .git/FETCH_HEAD"]),
        (link_at(".git/logs/refs/heads/branch"), ["wrote .git/logs/refs/heads/branch"]),
        (link_at(".git/objects/00"), ["wrote .git/objects/00"]),
        (link_at(".git/refs/heads/branch"), ["wrote .git/refs/heads/branch"]),
        (through_a_hard_link, ["wrote .git/config"]),
        (through_a_mapping, ["wrote .git/config"]),
        (
            by_renaming_the_directory,
            ["removed .git/hooks/post-merge", "wrote .git/hooks/pre-commit"],
        ),
        (by_a_link, ["wrote .git/hooks"]),
        (
            in_another_repository,
            ["wrote .git", *(f"wrote other/.git/{name}" for name in ("config", "hooks", "info"))],
        ),
        (lambda place: (place / ".git").rename(place / "x"), ["removed .git"]),
        (lambda place: (place / ".git/hooks/post-merge").chmod(0o755),
         ["changed the mode of .git/hooks/post-merge"]),
        (lambda place: place.rename(place.parent / "x"), ["removed .claude", "removed .git"]),
    ],
)  # fmt: skip
def test_a_change_is_seen(place: Path, change: Change, found: list[str]) -> None:
    assert different(place, change) == found


def commit(place: Path) -> None:
    write("file")(place)
    git("add", "file", cwd=place)
    git("commit", "-q", "-m", "second", cwd=place)
    git("checkout", "-q", "-b", "branch", cwd=place)
    git("config", "--get", "core.bare", cwd=place)


@pytest.mark.parametrize(
    "change",
    [
        commit,
        write(".git/hooks/pre-push.sample"),
        write(".claude/projects/a/transcript.jsonl"),
        write("file"),
        write("below/.envrc"),
    ],
)
def test_everyday_work_is_no_change(place: Path, change: Change) -> None:
    write(".claude/projects/a/transcript.jsonl", "first\n")(place)
    assert different(place, change) == []


def test_what_is_put_back_leaves_a_trace(place: Path) -> None:
    config = place / ".git/config"
    before, text = look([str(place)]), config.read_text()
    config.write_text("[core]\n")
    config.write_text(text)
    after = look([str(place)])
    assert changes(before, after) == ()
    assert put_back(before, after) == (str(config),)


def test_the_hook_that_a_link_leads_to_is_looked_at(place: Path) -> None:
    write("scripts/hook")(place)
    (place / ".git/hooks/pre-commit").symlink_to("../../scripts/hook")
    assert different(place, write("scripts/hook", "worse\n")) == ["wrote .git/hooks/pre-commit"]


def test_the_repository_of_a_worktree_is_looked_at_where_the_sandbox_may_write_it(
    place: Path, tmp_path: Path
) -> None:
    worktree = tmp_path.resolve() / "worktree"
    git("worktree", "add", "-q", worktree, cwd=place)
    outside, both = look([str(worktree)]), look([str(worktree), str(place)])
    assert set(outside) == {str(worktree / ".git")}
    assert str(place / ".git/config") in both
    within = tmp_path.resolve()
    before = look([str(worktree), str(within)])
    write(".git/hooks/pre-commit")(place)
    ((_, path, _),) = changes(before, look([str(worktree), str(within)]))
    assert path == str(place / ".git/hooks/pre-commit")


def test_a_link_that_leads_out_is_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("a")
    (place / ".codex").symlink_to(tmp_path / "out")
    (place / ".envrc").symlink_to(tmp_path / "out/secret")
    before = look([str(place)])
    (tmp_path / "out/secret").write_text("b")
    (tmp_path / "out/more").write_text("b")
    assert look([str(place)]) == before
    assert not [path for path in before if "secret" in path]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def deep(path: Path) -> None:
    path.joinpath(*["a"] * 40).mkdir(parents=True)


def crowded(path: Path) -> None:
    path.mkdir()
    for number in range(MAX_ENTRIES + 1):
        (path / str(number)).touch()


def long(path: Path) -> None:
    path.write_bytes(bytes(MAX_CONTENT + 1))


def unreadable(path: Path) -> None:
    path.mkdir(mode=0)


HOSTILE = [fifo, bound, loop, deep, crowded, long, unreadable]


@pytest.mark.parametrize("make", HOSTILE)
@pytest.mark.parametrize("name", [".codex", ".git", ".envrc", ".claude/x", ".git/hooks/x"])
def test_whatever_an_enemy_puts_there_is_a_change(
    place: Path, name: str, make: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    if (place / name).is_dir():
        (place / name).rename(place / "moved")
    assert different(place, lambda place: make(place / name))


def test_a_directory_that_long_was_the_same_is_looked_at_anew_when_it_changes(place: Path) -> None:
    time.sleep(3.1)  # until its listing is remembered
    assert different(place, lambda _: None) == []
    assert different(place, link_at(".git/logs/link")) == ["wrote .git/logs/link"]
    assert different(place, write(".git/hooks/pre-commit")) == ["wrote .git/hooks/pre-commit"]
    (place / ".git/hooks/pre-commit").rename(place / "kept")
    assert different(place, lambda place: (place / "kept").rename(place / ".git/hooks/x")) == [
        "wrote .git/hooks/x"
    ]


def test_many_logs_are_told_and_take_nothing_else_along(place: Path) -> None:
    def change(place: Path) -> None:
        for number in range(1100):
            (place / f".git/logs/{number % 40}").mkdir(exist_ok=True)
            (place / f".git/logs/{number % 40}/{number}").touch()
        (place / ".git/logs/link").symlink_to("/elsewhere")

    assert different(place, change) == ["wrote .git/logs"]
    assert different(place, write(".git/config")) == ["wrote .git/config"]


def test_what_is_too_much_is_told_and_no_change_of_its_own(place: Path) -> None:
    crowded(place / ".codex")
    seen = look([str(place)])
    assert unseen(seen) == ((str(place / ".codex"), "too many files"),)
    (place / ".codex/0").write_text("evil")
    assert changes(seen, look([str(place)])) == ()


def test_a_long_file_is_compared_by_its_times(place: Path) -> None:
    long(place / ".envrc")
    assert different(place, lambda _: None) == []
    assert different(place, lambda place: (place / ".envrc").write_bytes(bytes(MAX_CONTENT + 1)))


def test_a_place_that_became_a_link_is_a_change(place: Path) -> None:
    def change(place: Path) -> None:
        place.rename(place.parent / "moved")
        place.symlink_to("moved")

    assert different(place, change)
