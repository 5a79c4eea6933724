"""The caller's environment makes an allowed program run the caller's code, outside."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Unpack

from tests.attacks.attack import (
    HARMLESS,
    REFUSED,
    Attack,
    Class,
    More,
    Need,
    Outcome,
    kept_from,
    refused,
)

_REPOSITORY = frozenset({Need.REPOSITORY})
_WRITE = 'echo written >"$OUT/file"'
_SH = f"#!/bin/sh\n{_WRITE}\n"
_PYTHON = "import os\nopen(os.environ['OUT'] + '/file', 'w').write('written')\n"
_PERL = 'open(my $f, ">", "$ENV{OUT}/file"); print $f "written"; 1;\n'
_NODE = "require('fs').writeFileSync(process.env.OUT + '/file', 'written')\n"


def _by(variable: str, name: str, script: str, **more: Unpack[More]) -> Attack:
    outcome = kept_from(variable)
    return replace(Attack(name, script, outcome, outcome), **more)


def _preload(name: str, script: str) -> Attack:
    """The wrapper itself loads it, inside, where it may hide what it did."""
    return Attack(name, script, kept_from("LD_PRELOAD"), HARMLESS)


def _git(variable: str, name: str, script: str, **more: Unpack[More]) -> Attack:
    return replace(_by(variable, name, script, needs=_REPOSITORY), **more)


_CACHED = """
import importlib.util, json.decoder, marshal, os, sys
source = json.decoder.__file__
status = os.stat(source)
sys.pycache_prefix = os.getcwd()
target = importlib.util.cache_from_source(source)
os.makedirs(os.path.dirname(target))
text = "import os; open(os.environ[\\"OUT\\"] + \\"/file\\", \\"w\\").write(\\"x\\")"
code = compile(text, source, "exec")
with open(target, "wb") as file:
    file.write(importlib.util.MAGIC_NUMBER + bytes(4))
    for number in (int(status.st_mtime), status.st_size):
        file.write((number & 0xFFFFFFFF).to_bytes(4, "little"))
    file.write(marshal.dumps(code))
"""
_OPENSSL = """openssl_conf = init
[init]
providers = list
[list]
evil = evil
[evil]
module = ${ENV::PROGRAMS}/evil.so
activate = 1
"""

LOADER = Class(
    "the loader and the C library",
    (
        _preload("ld-preload", "LD_PRELOAD=$PROGRAMS/evil.so ls"),
        _preload("ld-preload-relative", "cp $PROGRAMS/evil.so .; LD_PRELOAD=./evil.so ls"),
        _preload("ld-preload-exported", "export LD_PRELOAD=$PROGRAMS/evil.so; exec ls"),
        _by("LD_AUDIT", "ld-audit", "LD_AUDIT=$PROGRAMS/evil.so ls"),
        _by("LD_LIBRARY_PATH", "ld-library-path",
            "cp $PROGRAMS/evil.so libhelper.so; LD_LIBRARY_PATH=. sign"),
        _by("GCONV_PATH", "gconv-path",
            "cp $PROGRAMS/evil.so .; GCONV_PATH=. iconv -f EVIL -t UTF-8 gconv-modules",
            files={"gconv-modules": "module EVIL// INTERNAL evil 1\n"}),
        _by("OPENSSL_CONF", "openssl-conf", "OPENSSL_CONF=./c openssl version",
            files={"c": _OPENSSL}, programs=("openssl",)),
    ),
)  # fmt: skip

SHELLS = Class(
    "shell start-up",
    (
        _by("BASH_ENV", "bash-env-of-the-allowed", "BASH_ENV=./start deploy", files={"start": _SH}),
        Attack("ps4-of-the-allowed", f"env SHELLOPTS=xtrace PS4='$({_WRITE})' deploy",
               kept_from("PS4"), Outcome(output="deployed"),
               bare=os.getuid() != 0),  # bash takes no PS4 from outside when root runs it
        _by("BASH_FUNC_date%%", "function-for-a-program",
            f"date() {{ {_WRITE}; }}; export -f date; deploy"),
        _by("PATH", "path", "PATH=$PWD:$PATH deploy", files={"date": _SH}),
        _by("PATH", "path-relative", "PATH=.:$PATH deploy", files={"date": _SH}),
        _by("PATH", "path-of-whoever-looks", "PATH=/proc/self/cwd:$PATH deploy",
            files={"date": _SH}),
        _by("PATH", "path-of-another", "PATH=/proc/$$/cwd:$PATH deploy", files={"date": _SH}),
        _by("PATH", "path-of-a-descriptor", "exec 9<.; PATH=/dev/fd/9:$PATH deploy",
            files={"date": _SH}),
        _by("PATH", "path-through-a-link-outside", "PATH=$BIN/ws/${PWD##*/}:$PATH deploy",
            files={"date": _SH}),
        _by("PATH", "path-through-a-link-that-turns",
            "mkdir e; cp date e; ln -s /usr/bin l;"
            " while :; do ln -sfn e l; ln -sfn /usr/bin l; done &"
            ' for i in $(seq 60); do grep -q written "$OUT/file" || PATH=$PWD/l:$PATH deploy; done;'
            " kill $!",
            files={"date": _SH}),
        _by("PATH", "path-empty", 'p=$(command -v deploy); PATH= "$p"', files={"date": _SH}),
        _by("PATH", "path-for-env", "PATH=$PWD:$PATH bundle", files={"node": _SH}),
    ),
)  # fmt: skip

INTERPRETERS = Class(
    "interpreter hooks",
    (
        _by("PYTHONPATH", "pythonpath", "PYTHONPATH=. report", files={"csv.py": _PYTHON}),
        _by("PYTHONUSERBASE", "python-user-site",
            """d=u/lib/python$($PYTHON -c 'import sys; print("%d.%d" % sys.version_info[:2])');"""
            " mkdir -p $d/site-packages; cp evil.py $d/site-packages/usercustomize.py;"
            " PYTHONUSERBASE=$PWD/u report", files={"evil.py": _PYTHON}),
        _by("PYTHONWARNINGS", "pythonwarnings",
            "PYTHONWARNINGS=all:0:antigravity.x:0:0 BROWSER='./b %s' report", files={"b": _SH}),
        _by("PYTHONPYCACHEPREFIX", "python-bytecode",
            f"$PYTHON -c '{_CACHED}'; PYTHONPYCACHEPREFIX=$PWD report"),
        _by("PERL5OPT", "perl5opt", "PERL5OPT='-I. -Mevil' check", files={"evil.pm": _PERL},
            programs=("perl",)),
        _by("PERL5LIB", "perl5lib", "PERL5LIB=. check", files={"File/Spec.pm": _PERL},
            programs=("perl",)),
        _by("PERL5DB", "perl5db",
            """PERL5OPT=-d PERL5DB='BEGIN { require "./evil.pm" } sub DB::DB {}' check""",
            files={"evil.pm": _PERL}, programs=("perl",)),
        _by("NODE_OPTIONS", "node-options", "NODE_OPTIONS='--require ./evil.js' bundle",
            files={"evil.js": _NODE}, programs=("node",)),
        _by("JAVA_TOOL_OPTIONS", "java-tool-options",
            "JAVA_TOOL_OPTIONS=-Xlog:all=info:file=$OUT/file java -version", programs=("java",)),
    ),
)  # fmt: skip

GIT = Class(
    "git's variables",
    (
        _git("GIT_EXTERNAL_DIFF", "git-external-diff",
             "echo x >>tracked; GIT_EXTERNAL_DIFF=./e git diff", files={"e": _SH}),
        _git("GIT_CONFIG_COUNT", "git-config-count",
             "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=./e git status",
             files={"e": _SH}),
        _git("GIT_CONFIG_PARAMETERS", "git-config-parameters",
             """GIT_CONFIG_PARAMETERS="'core.fsmonitor'='./e'" git status""", files={"e": _SH}),
        _git("GIT_CONFIG_GLOBAL", "git-config-global", "GIT_CONFIG_GLOBAL=$PWD/c git status",
             files={"c": "[core]\nfsmonitor = ./e\n", "e": _SH}),
        _git("GIT_SSH_COMMAND", "git-ssh-command", "GIT_SSH_COMMAND=./e git fetch ssh://localhost/x",
             files={"e": _SH}),
        _git("GIT_SSH", "git-ssh", "GIT_SSH=$PWD/e git fetch ssh://localhost/x", files={"e": _SH}),
        _git("GIT_EXEC_PATH", "git-exec-path",
             "GIT_EXEC_PATH=$PWD git fetch https://127.0.0.1:9/", files={"git-remote-https": _SH}),
        _git("GIT_EDITOR", "git-editor", "GIT_EDITOR=./e git commit --allow-empty",
             files={"e": _SH}),
        _git("EDITOR", "editor-variable", "EDITOR=./e git commit --allow-empty", files={"e": _SH}),
        _git("VISUAL", "visual-variable", "TERM=xterm VISUAL=./e git commit --allow-empty",
             files={"e": _SH}),
        _git("GIT_DIR", "git-dir", "cp -r .git g; git -C . config -f g/config core.fsmonitor ./e;"
             " GIT_DIR=g git status", files={"e": _SH}),
        _git("GIT_TRACE", "git-trace", "GIT_TRACE=$OUT/file git status"),
        _git("GIT_PROXY_COMMAND", "git-proxy-command",
             "GIT_PROXY_COMMAND=$PWD/e git fetch git://127.0.0.1/x", files={"e": _SH}),
        _git("GIT_INDEX_FILE", "git-index-file", "GIT_INDEX_FILE=$OUT/file2 git add -f tracked"),
        _git("GIT_WORK_TREE", "git-work-tree", "GIT_WORK_TREE=$OUT git checkout -f"),
        _git("GIT_OBJECT_DIRECTORY", "git-object-directory",
             "echo new >new; mkdir o; GIT_OBJECT_DIRECTORY=$OUT git add -f new"),
        _git("HOME", "git-home", "HOME=$PWD git status",
             files={".gitconfig": "[core]\nfsmonitor = ./e\n", "e": _SH}),
        _git("XDG_CONFIG_HOME", "git-xdg", "XDG_CONFIG_HOME=$PWD git status",
             files={"git/config": "[core]\nfsmonitor = ./e\n", "e": _SH}),
    ),
)  # fmt: skip

UNHEARD_OF = Class(
    "variables that nobody has listed",
    (
        _by("PUBLISH_WITH", "variable-set", "PUBLISH_WITH=./e publish", files={"e": _SH}),
        _by("PUBLISH_WITH", "variable-exported", "export PUBLISH_WITH=$PWD/e; publish; true",
            files={"e": _SH}),
        Attack("variable-by-env", "env -i PATH=$PATH OUT=$OUT PUBLISH_WITH=./e publish",
               kept_from("PUBLISH_WITH"), REFUSED, files={"e": _SH}),
        _by("publishDefaults", "variable-in-small-letters", "publishDefaults=./e publish",
            files={"e": _SH}),
        _by("PUBLISH_SAFELY", "variable-unset", "unset PUBLISH_SAFELY; publish", files={"e": _SH}),
        _by("PUBLISH_SAFELY", "variable-emptied", "PUBLISH_SAFELY= publish", files={"e": _SH}),
        _by("PUBLISH_WITH", "variables-in-great-number",
            "for i in $(seq 3000); do export V$i=x; done; export PUBLISH_WITH=./e; publish",
            files={"e": _SH}),
        _by("GSS_MECH_CONFIG", "gss-mech-config",
            "echo evil 1.3.6.1.5.5.2 $PROGRAMS/evil.so >m; export GSS_MECH_CONFIG=$PWD/m; deploy",
            bare=False),
    ),
)  # fmt: skip

OTHERS = Class(
    "other programs' variables",
    (
        _by("LESSOPEN", "lessopen", "LESSOPEN='|./e %s' less e", files={"e": _SH},
            programs=("less",)),
        _by("TAR_OPTIONS", "tar-options",
            "TAR_OPTIONS='--checkpoint=1 --checkpoint-action=exec=./e' tar -cf a e",
            files={"e": _SH}),
        Attack("umask-and-limits", "umask 0; ulimit -c unlimited; ulimit -f 0; ulimit -n 3;"
               " ulimit -s 64; ls", HARMLESS, refused("Error 24|Too many open files"), bare=False),
    ),
)  # fmt: skip

CLASSES = (LOADER, SHELLS, INTERPRETERS, GIT, UNHEARD_OF, OTHERS)
