"""Which git commands are asked about, and which everyday ones are not."""

import pytest

from codex_multitool.escalation.dangerous_git import git_danger

ASKED = [
    "reset",
    "reset --hard HEAD~1",
    "rm -r x",
    "rm x",
    "clean -f",
    "clean -fdx",
    "clean -xdf",
    "clean -d --force",
    "clean -d --forc",
    "-c clean.requireForce=false clean -d",
    "branch -d x",
    "branch -D x",
    "branch --delete x",
    "branch --del x",
    "branch -rd origin/x",
    "push -f",
    "push origin main -f",
    "push -uf origin main",
    "push --force",
    "push --force-with-lease",
    "push --force-with-lease=main:abc origin",
    "push -d origin x",
    "push origin --delete x",
    "push origin :x",
    "push origin +x",
    "push origin -- +x:y",
    "push --mirror",
    "push --prune origin",
    "checkout .",
    "checkout -- .",
    "checkout -- x",
    "checkout HEAD -- x",
    "checkout -f main",
    "checkout --force",
    "switch -f main",
    "switch --discard-changes main",
    "restore .",
    "restore --source=HEAD~1 x",
    "restore -SW x",
    "restore --staged --worktree x",
    "stash drop",
    "stash drop stash@{1}",
    "stash clear",
    "tag -d v1",
    "reflog expire --expire=now --all",
    "update-ref -d refs/heads/x",
    "worktree remove --force x",
    "filter-branch --tree-filter x",
    "-C dir reset",
    "-c a.b=c --no-pager push -f",
    "--git-dir dir/.git --work-tree=dir push -f",
    "--git-dir=dir/.git branch -D x",
    "-p --namespace n --literal-pathspecs reset",
]
NOT_ASKED = [
    "",
    "--version",
    "status",
    "log -p -f",
    "diff --diff-filter=D",
    "add -f x",
    "commit -m reset",
    "commit --amend",
    "clean -n",
    "clean -d --dry-run",
    "clean -e f -n",
    "branch",
    "branch -m main",
    "branch -u origin/d",
    "branch --list --contains d",
    "push",
    "push -u origin feature",
    "push origin main:feature",
    "push origin :",
    "push -o f origin",
    "push --follow-tags --dry-run",
    "checkout main",
    "checkout -b feature",
    "checkout -b -f",
    "checkout main --",
    "switch -c feature",
    "restore --staged x",
    "restore -S x",
    "stash",
    "stash pop",
    "stash list",
    "stash push -m drop",
    "tag v1",
    "tag -m d v1",
    "reflog",
    "worktree remove x",
    "fetch --prune",
    "rebase main",
    "-C reset status",
    "help reset",
]


@pytest.mark.parametrize("command", ASKED)
def test_losing_work_is_asked_about(command: str) -> None:
    assert git_danger("git", command.split()) is not None


@pytest.mark.parametrize("command", NOT_ASKED)
def test_everyday_commands_are_not(command: str) -> None:
    assert git_danger("git", command.split()) is None


def test_a_program_of_git_itself_is_judged_alike() -> None:
    assert git_danger("git-push", ["--force"]) is not None
    assert git_danger("git-push", ["origin"]) is None


def test_another_program_is_not_git() -> None:
    assert git_danger("gitk", ["reset"]) is None
