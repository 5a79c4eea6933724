"""Which git commands lose work or rewrite what others have: git(1). Pure."""

from collections.abc import Callable, Sequence

from codex_multitool.escalation.git_arguments import GitArguments, git_arguments
from codex_multitool.escalation.options import options

_EVERYTHING = frozenset((".", "./", ":/", ":/.", ":", "*"))


def git_danger(program: str, words: Sequence[str]) -> str | None:
    """Why this git command deserves a question, or None; `program` is a base name."""
    git = git_arguments(program, words)
    if git is None or git.subcommand not in _JUDGES:
        return None
    return _JUDGES[git.subcommand](git)


def _reset(_: GitArguments) -> str:
    return "git reset can discard commits and changes"


def _rm(_: GitArguments) -> str:
    return "git rm deletes files"


def _clean(git: GitArguments) -> str | None:
    # Without clean.requireForce a plain `git clean` deletes too: git-clean(1).
    unforced = any(key == "clean.requireforce" for key, _ in git.configuration)
    if unforced or options(git.words, short="e:").has("f", "force"):
        return "git clean deletes untracked files"
    return None


def _branch(git: GitArguments) -> str | None:
    if options(git.words, short="u:t::").has("dD", "delete"):
        return "git branch deletes a branch"
    return None


def _tag(git: GitArguments) -> str | None:
    parsed = options(git.words, short="m:F:u:n::")
    return "git tag deletes a tag" if parsed.has("d", "delete") else None


def _push(git: GitArguments) -> str | None:
    parsed = options(git.words, short="o:")
    if parsed.has("f", "force", "force-with-lease", "force-if-includes"):
        return "git push overwrites what is on the remote"
    if parsed.has("d", "delete", "mirror", "prune"):
        return "git push deletes on the remote"
    for refspec in parsed.operands:
        if refspec.startswith("+") and len(refspec) > 1:
            return "git push overwrites what is on the remote"
        if refspec.startswith(":") and len(refspec) > 1:  # a lone `:` is "matching branches"
            return "git push deletes on the remote"
    return None


def _checkout(git: GitArguments) -> str | None:
    parsed = options(git.words, short="b:B:")
    dashes = git.words.index("--") if "--" in git.words else len(git.words)
    if (
        parsed.has("f", "force")
        or parsed.has("", "pathspec-from-file")
        or git.words[dashes + 1 :]
        or not _EVERYTHING.isdisjoint(parsed.operands)
    ):
        return "git checkout discards changes"
    return None


def _switch(git: GitArguments) -> str | None:
    parsed = options(git.words, short="c:C:")
    if parsed.has("f", "force", "discard-changes"):
        return "git switch discards changes"
    return None


def _restore(git: GitArguments) -> str | None:
    parsed = options(git.words, short="s:")
    names = {name for name, _ in parsed.found}
    # Only the index is touched by --staged alone: git-restore(1).
    staged_only = names & {"-S", "--staged"} and not parsed.has("W", "worktree")
    return None if staged_only else "git restore discards changes"


def _stash(git: GitArguments) -> str | None:
    return (
        "git stash throws stashed changes away" if git.words[:1] in (["drop"], ["clear"]) else None
    )


def _reflog(git: GitArguments) -> str | None:
    if git.words[:1] in (["expire"], ["delete"]):
        return "git reflog forgets how to go back"
    return None


def _update_ref(git: GitArguments) -> str | None:
    return "git update-ref deletes a ref" if options(git.words, short="m:").has("d") else None


def _worktree(git: GitArguments) -> str | None:
    if git.words[:1] == ["remove"] and options(git.words).has("f", "force"):
        return "git worktree deletes a working tree with its changes"
    return None


def _rewrite(_: GitArguments) -> str:
    return "git rewrites the whole history"


_JUDGES: dict[str, Callable[[GitArguments], str | None]] = {
    "branch": _branch,
    "checkout": _checkout,
    "clean": _clean,
    "filter-branch": _rewrite,
    "filter-repo": _rewrite,
    "push": _push,
    "reflog": _reflog,
    "reset": _reset,
    "restore": _restore,
    "rm": _rm,
    "stash": _stash,
    "switch": _switch,
    "tag": _tag,
    "update-ref": _update_ref,
    "worktree": _worktree,
}
