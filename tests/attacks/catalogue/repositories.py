"""What the sandbox wrote into a repository makes an allowed git act outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import HARMLESS, Attack, Class, More, Need, denied, noticed

_REPOSITORY = frozenset({Need.REPOSITORY})
_EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'


def _git(name: str, script: str, **more: Unpack[More]) -> Attack:
    evil = Attack(name, script, HARMLESS, HARMLESS, {"e": _EVIL}, needs=_REPOSITORY)
    return replace(evil, **more)


def _set(name: str, settings: str, script: str, **more: Unpack[More]) -> Attack:
    """settings: KEY=VALUE words, written into .git/config."""
    words = (word.partition("=") for word in settings.split())
    lines = [f'git config {key} "{value}"' for key, _, value in words]
    return _git(name, "; ".join([*lines, script]), **more)


def _noticed(name: str, settings: str, script: str) -> Attack:
    """Not to be overridden by environment: the human is asked, and told why."""
    outcome = noticed(r"\.git/config")
    attack = _set(name, settings, script)
    return replace(attack, kernel=outcome, wrapper=outcome, agrees=False)


def _link(name: str, path: str, script: str) -> Attack:
    """git writes through it. The human is asked."""
    outcome = noticed(path)
    return replace(_git(name, script), kernel=outcome, wrapper=outcome, agrees=False)


HOOKS = Class(
    "hooks",
    (
        _git("pre-commit", "mkdir -p .git/hooks; cp e .git/hooks/pre-commit;"
             " git commit -q --allow-empty -m x"),
        _git("post-checkout", "mkdir -p .git/hooks; cp e .git/hooks/post-checkout;"
             " git checkout -q -b other"),
        _git("reference-transaction",
             "mkdir -p .git/hooks; cp e .git/hooks/reference-transaction; git checkout -qb other"),
        _set("hooks-path", "core.hooksPath=h",
             "mkdir h; cp e h/pre-commit; git commit -q --allow-empty -m x"),
        _git("gitdir-file", "mv .git g; mkdir -p g/hooks; cp e g/hooks/pre-commit;"
             " echo gitdir: g >.git; git commit -q --allow-empty -m x"),
    ),
)  # fmt: skip

SETTINGS = Class(
    "settings with fixed names",
    (
        _set("fsmonitor", "core.fsmonitor=./e", "git status"),
        _set("editor-setting", "core.editor=./e", "git commit --allow-empty"),
        _set("ssh-command", "core.sshCommand=./e", "git fetch ssh://localhost/x"),
        _set("git-proxy", "core.gitProxy=./e", "git fetch git://127.0.0.1/x"),
        _set("gpg-program", "commit.gpgSign=true gpg.program=./e",
             "git commit -q --allow-empty -m x"),
        _set("gpg-openpgp-program", "commit.gpgSign=true gpg.openpgp.program=./e",
             "git commit -q --allow-empty -m x"),
        _set("gpg-ssh-key-command",
             "commit.gpgSign=true gpg.format=ssh gpg.ssh.defaultKeyCommand=./e",
             "git commit -q --allow-empty -m x"),
        _git("ext-remote", "git config protocol.ext.allow always; git fetch 'ext::./e'"),
        _git("included-file", "git config include.path ../c; git status",
             files={"c": "[core]\nfsmonitor = ./e\n", "e": _EVIL}),
        _git("nested-bare-repository",
             "cp -r .git b; git config -f b/config core.worktree $PWD;"
             " git config -f b/config core.fsmonitor $PWD/e; cd b; git status"),
        _set("submodule-fsmonitor", "core.fsmonitor=../e",
             "mkdir s; cp -r .git s/.git; git add -f s; git status", bare=False),
    ),
)  # fmt: skip

# Two folders change names, over and over: ./swap.py ONE OTHER
_SWAP = """#!/usr/bin/env python3
import os, sys
one, other = sys.argv[1:]
open("swapping", "w").close()
while True:
    os.rename(one, "t"), os.rename(other, one), os.rename("t", other)
"""


def _moving(name: str, moved: str) -> Attack:
    """git works in a folder that is looked for by a name which is another folder's by then."""
    # By names that nobody has looked at before.
    script = f"""
        cp -r .git evil; git config -f evil/config filter.x.clean ./e
        for i in $(seq 8); do
            mkdir -p e$i/in d$i/in; cp -r evil e$i/in/.git; cp tracked e$i/in
            (cd e$i/in; echo '* filter=x' >.gitattributes; cp ../../run e; touch tracked
             (cd ../..; exec $PYTHON swap.py {moved}) & p=$!
             until [ -e ../../swapping ]; do :; done
             git status; kill $p; wait $p) >/dev/null 2>&1
            rm -rf e$i d$i t swapping
        done"""
    outcome = denied("User declined|moved while it was judged")
    files = {"run": _EVIL, "swap.py": _SWAP}
    return Attack(name, script, outcome, outcome, files, needs=_REPOSITORY, agrees=False)


MOVING = Class(
    "a folder that is moved while it is judged",
    (
        _moving("cwd-renamed", "e$i/in d$i/in"),
        _moving("cwd-renamed-above", "e$i d$i"),
    ),
)

CHOSEN = Class(
    "settings whose names the repository chooses",
    (
        _noticed("diff-external", "diff.external=./e", "echo x >>tracked; git diff"),
        _noticed("textconv", "diff.x.textconv=./e",
             "echo '* diff=x' >.gitattributes; echo x >>tracked; git diff"),
        _noticed("diff-command", "diff.x.command=./e",
             "echo '* diff=x' >.gitattributes; echo x >>tracked; git diff"),
        _noticed("clean-filter", "filter.x.clean=./e",
             "echo '* filter=x' >.gitattributes; echo x >>tracked; git add -f tracked"),
        _noticed("clean-filter-on-status", "filter.x.clean=./e",
             "echo '* filter=x' >.gitattributes; touch tracked; git status"),
        _noticed("smudge-filter", "filter.x.smudge=./e",
             "echo '* filter=x' >.gitattributes; rm tracked; git checkout tracked"),
        _set("upload-pack", "remote.origin.uploadpack=./e", "git fetch"),
        _set("remote-helper", "remote.origin.vcs=x", "cp e git-remote-x; PATH=.:$PATH git fetch"),
        _noticed("work-tree", "core.worktree=$OUT", "git checkout -f"),
    ),
)  # fmt: skip

LINKS = Class(
    "files of a repository that lead outside",
    (
        _link("commit-message-link", r"\.git/COMMIT_EDITMSG",
              'ln -sf "$OUT/file" .git/COMMIT_EDITMSG; git commit -q --allow-empty -m written'),
        _link("fetch-head-link", r"\.git/FETCH_HEAD",
              'ln -s "$OUT/file" .git/FETCH_HEAD; git fetch ./remote.git'),
        _link("log-link", r"\.git/logs/HEAD",
              'ln -sf "$OUT/file" .git/logs/HEAD; git commit -q --allow-empty -m x'),
        _link("objects-link", r"\.git/objects",
              'mkdir o; cp -r .git/objects/* o/; rm -r .git/objects;'
              ' ln -s "$OUT" .git/objects; cp -r o/* .git/objects/; echo x >n; git add -f n'),
        _link("logs-link", r"\.git/logs",
              'mv .git/logs l; ln -s "$OUT" .git/logs; git commit -q --allow-empty -m x'),
        _link("refs-link", r"\.git/refs/heads",
              'cp .git/refs/heads/* "$OUT"; mv .git/refs/heads h; ln -s "$OUT" .git/refs/heads;'
              ' git commit -q --allow-empty -m x'),
        _link("ref-link", r"\.git/refs/heads/",
              'mkdir -p .git/refs/heads/d;'
              ' ln -sf "$OUT" .git/refs/heads/d/e;'
              ' echo ref: refs/heads/d/e/x >.git/HEAD; git commit -q --allow-empty -m x'),
        _link("all-refs-link", r"\.git/refs",
              'cp -r .git/refs/. "$OUT"; mv .git/refs r; ln -s "$OUT" .git/refs;'
              ' git commit -q --allow-empty -m x'),
    ),
)  # fmt: skip

CLASSES = (HOOKS, SETTINGS, CHOSEN, LINKS, MOVING)
