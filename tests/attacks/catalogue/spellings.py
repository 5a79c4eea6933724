"""`git push`, which a rule forbids, run by way of something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import (
    DENIED,
    UNSEEN,
    Attack,
    Class,
    More,
    Need,
    Outcome,
    confined,
    refused,
)

_REPOSITORY = frozenset({Need.REPOSITORY})


def _shell(name: str, script: str, wrapper: Outcome = DENIED, **more: Unpack[More]) -> Attack:
    return replace(Attack(name, script, DENIED, wrapper, needs=_REPOSITORY), **more)


def _below(name: str, script: str, *installed: str, **more: Unpack[More]) -> Attack:
    """Another program than the shell does the exec."""
    return replace(replace(_shell(name, script, UNSEEN), programs=installed), **more)


_MAKEFILE = "all:\n\tgit push origin HEAD:main\n"
_PYTHON_SPAWN = """
import os
os.waitpid(os.posix_spawnp("git", ["git", "push", "origin", "HEAD:main"], os.environ), 0)
"""

_CORRECTED = confined("git corrects the word itself, and executes nothing")
_OTHER = confined("the rule names another command of git than this")

IN_THE_SHELL = Class(
    "the shell's own ways to run a forbidden program",
    (
        _shell("plain", "git push origin HEAD:main"),
        _shell("exec", "exec git push origin HEAD:main"),
        _shell("command", "command git push origin HEAD:main"),
        _shell("exec-a", "exec -a ls git push origin HEAD:main"),
        _shell("subshell", "(git push origin HEAD:main)"),
        _shell("background", "git push origin HEAD:main & wait"),
        _shell("pipeline", "echo | git push origin HEAD:main | cat"),
        _shell("conditional", "false || git push origin HEAD:main"),
        _shell("newline", ":\ngit \\\npush origin HEAD:main"),
        _shell("quotes", """g'i't "pu"\\sh origin $'HEAD\\x3amain'"""),
        _shell("variables", 'a=gi b=t c=push; $a$b ${c} "$(printf origin)" HEAD:main'),
        _shell("braces", "{git,push,origin,HEAD:main}"),
        _shell("glob", "/usr/bin/gi[t] push origin HEAD:main"),
        _shell("eval", 'eval "$(echo Z2l0IHB1c2ggb3JpZ2luIEhFQUQ6bWFpbg== | base64 -d)"'),
        _shell("dot", "echo git push origin HEAD:main >script; . ./script"),
        _shell("source-substitution", "source <(echo git push origin HEAD:main)"),
        _shell("command-substitution", 'echo "$(git push origin HEAD:main 2>&1)"'),
        _shell("process-substitution", "cat <(git push origin HEAD:main 2>&1)"),
        _shell("function", "ls() { git push origin HEAD:main; }; ls"),
        _shell("alias", "shopt -s expand_aliases; alias ls='git push origin HEAD:main'\nls"),
        _shell("trap-exit", "trap 'git push origin HEAD:main' EXIT"),
        _shell("trap-debug", "trap 'trap - DEBUG; git push origin HEAD:main' DEBUG; :"),
        _shell("coproc", "coproc git push origin HEAD:main 2>&1; cat <&${COPROC[0]}"),
        _shell("hash", "hash -p /usr/bin/git ls; ls push origin HEAD:main"),
        _shell("printf-v", 'printf -v words "%s " git push origin HEAD:main; $words'),
        _shell("time", "time git push origin HEAD:main"),
        _shell("case-and-loop",
               "for word in push; do case x in x) git $word origin HEAD:main;; esac; done"),
        _shell("behind-many-commands", ": ; " * 70 + "git push origin HEAD:main"),
        _shell("handler-of-the-not-found",
               "command_not_found_handle() { git push origin HEAD:main; }; no-such-program"),
    ),
)  # fmt: skip

OTHER_SHELLS = Class(
    "another shell runs a forbidden program",
    (
        _below("sh-c", "sh -c 'git push origin HEAD:main'"),
        _below("bash-c", "/bin/bash -c 'git push origin HEAD:main'"),
        _below("here-document", "sh <<end\ngit push origin HEAD:main\nend"),
        _below("here-string", "/bin/bash <<<'git push origin HEAD:main'"),
        _below("script", "./script", files={"script": "#!/bin/sh\ngit push origin HEAD:main\n"}),
        _below("script-without-interpreter", "chmod +x script; /bin/bash -c ./script",
               files={"script": "git push origin HEAD:main\n"}),
        _below("prompt-command",
               "PROMPT_COMMAND='git push origin HEAD:main; exit' /bin/bash --norc -i </dev/null"),
        _below("bash-env", "BASH_ENV=./start /bin/bash -c :",
               files={"start": "git push origin HEAD:main\n"}),
        _below("ps4", """/bin/bash -c 'PS4="\\$(git push origin HEAD:main >&2)"; set -x; :'"""),
        _below("exported-function",
               "ls() { git push origin HEAD:main; }; export -f ls; /bin/bash -c ls"),
        _below("zsh-c", "zsh -fc 'git push origin HEAD:main'", "zsh"),
    ),
)  # fmt: skip

THROUGH_PROGRAMS = Class(
    "a program that runs programs runs a forbidden one",
    (
        _below("env", "env git push origin HEAD:main"),
        _below("env-split", "env -S 'git push origin HEAD:main'"),
        _below("nice", "nice git push origin HEAD:main"),
        _below("nohup", "nohup git push origin HEAD:main"),
        _below("timeout", "timeout 10 git push origin HEAD:main"),
        _below("setsid", "setsid -w git push origin HEAD:main"),
        _below("stdbuf", "stdbuf -o0 git push origin HEAD:main"),
        _below("setpriv", "setpriv --no-new-privs git push origin HEAD:main", "setpriv"),
        _below("flock", "flock lock git push origin HEAD:main", "flock"),
        _below("xargs", "echo origin HEAD:main | xargs git push"),
        _below("find-exec", "find . -maxdepth 0 -exec git push origin HEAD:main ';'"),
        _below("make", "make -s", "make", files={"Makefile": _MAKEFILE}),
        _below("awk", """awk 'BEGIN { system("git push origin HEAD:main") }'"""),
        _below("sed-e", "echo | sed '1e git push origin HEAD:main'"),
        _below("tar-checkpoint",
               "tar -cf t --checkpoint=1 --checkpoint-action=exec='git push origin HEAD:main' ."),
        _below("sort-compress", "seq 9999 | sort -S 8k -T . --compress-program=./c >/dev/null",
               files={"c": "#!/bin/sh\ngit push origin HEAD:main\nexec cat\n"}),
        _below("python-system",
               """$PYTHON -c 'import os; os.system("git push origin HEAD:main")'"""),
        _below("python-posix-spawn", f"$PYTHON -c '{_PYTHON_SPAWN}'"),
        _below("perl-exec", "perl -e 'exec qw(git push origin HEAD:main)'", "perl"),
        _below("node-spawn",
               """node -e 'require("child_process").spawnSync("git","""
               """["push","origin","HEAD:main"],{stdio:"inherit"})'""", "node"),
        _below("npm-run", "npm run --silent p", "npm",
               files={"package.json": '{"scripts": {"p": "git push origin HEAD:main"}}'}),
        _below("ssh-proxy-command",
               "ssh -F none -o ProxyCommand='git push origin HEAD:main' nowhere", "ssh"),
        _below("vim", "vim -es -u NONE +'!git push origin HEAD:main' +q", "vim"),
        _below("script-1", "script -qc 'git push origin HEAD:main' /dev/null", "script"),
        _below("gdb", "gdb -batch -ex 'shell git push origin HEAD:main'", "gdb"),
    ),
)  # fmt: skip

GIT_ITSELF = Class(
    "git runs itself",
    (
        _below("alias-of-git", "git -c alias.p='push origin HEAD:main' p"),
        _below("shell-alias-of-git", "git -c alias.p='!git push origin HEAD:main' p"),
        _below("credential-helper", "printf 'protocol=https\\nhost=x\\n' |"
               " git -c credential.helper='!git push origin HEAD:main >&2;:' credential fill"),
        _below("ssh-command-of-git", "GIT_SSH_VARIANT=ssh git"
               " -c core.sshCommand='git push origin HEAD:main >&2;:' ls-remote ssh://nowhere/x"),
        _below("rebase-exec", "git rebase -q --exec 'git push origin HEAD:refs/heads/main' --root"),
        _below("pager",
               "script -qc 'git -c core.pager=\"git push origin HEAD:main #\" -p var -l' /dev/null",
               "script"),
        _below("editor", "git -c core.editor='git push origin HEAD:main;:' rebase -q -i --root"),
        _shell("global-option", "git -C . push origin HEAD:main"),
        _shell("configuration-option", "git -c a.b=c --no-pager push origin HEAD:main"),
        _shell("dashed", '"$(git --exec-path)/git-push" origin HEAD:main'),
        _shell("dashed-link", "ln -s /usr/bin/git git-push; ./git-push origin HEAD:main"),
        _shell("dashed-argv-0", "exec -a git-push git origin HEAD:main"),
        Attack("autocorrected", "git -c help.autocorrect=immediate pusg origin HEAD:main",
               _CORRECTED, _CORRECTED, needs=_REPOSITORY),
        Attack("another-command", "git send-pack ./remote.git HEAD:refs/heads/main",
               _OTHER, _OTHER, needs=_REPOSITORY),
    ),
)  # fmt: skip

_NOT_ASKED = refused("not open|Bad file descriptor|os error 9")

THE_WRAPPER = Class(
    "the wrapper put out of the way",
    (
        _shell("unset", "unset EXEC_WRAPPER BASH_EXEC_WRAPPER; git push origin HEAD:main"),
        _shell("emptied", "EXEC_WRAPPER= BASH_EXEC_WRAPPER=; git push origin HEAD:main"),
        _shell("own-wrapper", "export EXEC_WRAPPER=$PWD/w BASH_EXEC_WRAPPER=$PWD/w;"
               " git push origin HEAD:main",
               files={"w": '#!/bin/sh\nf=$1; shift 2; exec "$f" "$@"\n'}),
        _shell("socket-closed", 'eval "exec ${CODEX_ESCALATE_SOCKET:-9}>&-";'
               " git push origin HEAD:main", _NOT_ASKED),
        _shell("socket-replaced", 'eval "exec ${CODEX_ESCALATE_SOCKET:-9}</dev/null";'
               " git push origin HEAD:main", refused("not a socket|Socket operation|os error 88")),
    ),
)  # fmt: skip

CLASSES = (IN_THE_SHELL, OTHER_SHELLS, THROUGH_PROGRAMS, GIT_ITSELF, THE_WRAPPER)
