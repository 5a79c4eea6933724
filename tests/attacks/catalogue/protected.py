"""Names that programs outside obey, written from inside before an allowed program leaves."""

from __future__ import annotations

from tests.attacks.attack import Attack, Class, Need, noticed

_EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'
# Of the settings that git's environment cannot override.
_SETTING = r"printf '[diff]\nexternal = ./e\n'"
_USED = "echo x >>tracked; git diff"
_MAPPED = """
import mmap
with open(".git/config", "r+b") as config:
    mapping = mmap.mmap(config.fileno(), 0)
    mapping[:] = b"[diff]\\nexternal=./e\\n".ljust(len(mapping))
"""


def _git(name: str, script: str, path: str = r"\.git/config") -> Attack:
    """path: a pattern of what is told to be changed."""
    outcome = noticed(path)
    return Attack(
        name,
        script,
        outcome,
        outcome,
        agrees=False,
        files={"e": _EVIL, "map": _MAPPED},
        needs=frozenset({Need.REPOSITORY}),
    )


def _absent(name: str, script: str, path: str) -> Attack:
    """What would obey is none of the programs here: that it is noticed is all to be seen."""
    outcome = noticed(path)
    return Attack(name, f"{script}; ls >/dev/null", outcome, outcome, agrees=False, bare=False)


REPOSITORY = Class(
    "a repository's own hooks and settings",
    (
        _git("hook-written", "mkdir -p .git/hooks; cp e .git/hooks/pre-commit;"
             " git commit -q --allow-empty -m x", r"\.git/hooks"),
        _git("hooks-renamed-into-place", "mkdir h; cp e h/pre-commit; rm -rf .git/hooks;"
             " mv h .git/hooks; git commit -q --allow-empty -m x", r"\.git/hooks"),
        _git("hooks-by-a-link", "mkdir h; cp e h/pre-commit; rm -rf .git/hooks;"
             " ln -s ../h .git/hooks; git commit -q --allow-empty -m x", r"\.git/hooks"),
        _git("setting-written", f"{_SETTING} >>.git/config; {_USED}"),
        _git("setting-by-git", "git config core.fsmonitor ./e; git status"),
        _git("setting-through-a-hard-link",
             f"ln .git/config c; {_SETTING} >>c; {_USED}"),
        _git("settings-by-a-link",
             f"cp .git/config c; {_SETTING} >>c; ln -sf ../c .git/config; {_USED}"),
        _git("setting-through-a-mapping", f'"$PYTHON" map; {_USED}'),
        _git("setting-put-back",
             f"cp .git/config c; {_SETTING} >>.git/config; {_USED}; cp c .git/config; rm c;"
             " echo >>.git/config"),
        _git("setting-of-another-common-directory",
             f"cp -r .git g; {_SETTING} >>g/config; echo ../g >.git/commondir; {_USED}",
             r"\.git/commondir"),
        _git("repository-replaced",
             f"mv .git g; cp -r g .git; {_SETTING} >>.git/config; {_USED}"),
        _git("repository-pointed-to",
             f"mv .git g; {_SETTING} >>g/config; echo gitdir: g >.git; {_USED}", r"\.git"),
        _git("repository-replaced-with-its-parent",
             f"n=${{PWD##*/}}; cd ..; mv $n $n.moved; cp -r $n.moved $n; cd $n;"
             f" {_SETTING} >>.git/config; {_USED}"),
        _git("repository-below",
             f"mkdir s; cp -r .git e tracked s; cd s; {_SETTING} >>.git/config; {_USED}",
             r"s/\.git"),
    ),
)  # fmt: skip

ABSENT = Class(
    "settings of other programs that were not there",
    (
        _absent("envrc-made", "echo 'date >$OUT/file' >.envrc", r"\.envrc"),
        _absent("mcp-servers-made", "echo '{}' >.mcp.json", r"\.mcp\.json"),
        _absent("editor-tasks-made", "mkdir .vscode; echo '{}' >.vscode/tasks.json", r"\.vscode"),
        _absent("agent-settings-made",
                "mkdir -p .claude .codex/rules; echo >.claude/settings.json", r"\.codex"),
        _absent("more-than-is-looked-at", "mkdir .claude; cd .claude; touch $(seq 600); cd ..",
                r"\.claude"),
        _absent("pipe-in-the-way", "mkfifo .envrc", r"\.envrc"),
    ),
)  # fmt: skip

CLASSES = (REPOSITORY, ABSENT)
