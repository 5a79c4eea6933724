"""What an allowed program has open: the sandbox's hand, led by the program outside."""

from __future__ import annotations

from tests.attacks.attack import HARMLESS, Attack, Class, Need, Outcome, noticed

_REPOSITORY = frozenset({Need.REPOSITORY})
_EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'
_FILTER = '[filter "x"]\n\tclean = ./e\n'


def _stays(number: int) -> Outcome:
    return Outcome(decision=("escalate", ""), note=f"without descriptor {number}, .*/file: ")


def _anew(name: str, script: str, number: int) -> Attack:
    return Attack(name, script, _stays(number), _stays(number))


def _mere_name(number: int) -> str:
    """Python's words to execute `warn` with a descriptor that is a mere name of the file."""
    return (
        "import os; fd = os.open(os.environ['OUT'] + '/file', os.O_PATH);"
        f" os.dup2(fd, {number}); os.execvp('warn', ['warn'])"
    )


ANEW = Class(
    "a descriptor opened anew by the program outside",
    (
        _anew("stderr-reopened", "warn 2<$OUT/file", 2),
        _anew("stdout-reopened", "warn 1<$OUT/file", 1),
        _anew("descriptor-reopened", "warn 3<$OUT/file", 3),
        _anew("all-reopened", "exec <$OUT/file 1<&0 2<&0 3<&0; warn", 2),
        Attack("stdin-reopened", "warn <$OUT/file", HARMLESS, HARMLESS),
        Attack("stderr-through-a-link", "ln -s $OUT/file l; warn 2<l", _stays(2), _stays(2)),
        # In wrapper mode nobody judges what Python executes: it stays inside.
        Attack("mere-name-as-stderr", f'$PYTHON -c "{_mere_name(2)}"', _stays(2), None),
        Attack("mere-name-as-stdin", f'$PYTHON -c "{_mere_name(0)}"', _stays(0), None),
        _anew("stderr-of-a-job", "(exec 2<$OUT/file; warn) & wait", 2),
    ),
)


def _config(name: str, script: str, path: str = r"\.git/config") -> Attack:
    """The commit's message is a setting, and the file a protected one: the program does not run."""
    outcome = Outcome(decision=("escalate", ""), note=f"did not run outside: .*{path}")
    return _written(name, script, outcome)


def _written(name: str, script: str, outcome: Outcome, *, agrees: bool = True) -> Attack:
    commit = (
        "git commit -q --allow-empty -F message; echo '* filter=x' >.gitattributes; touch tracked"
    )
    return Attack(
        name,
        f"{commit}; {script}",
        outcome,
        outcome,
        {"e": _EVIL, "message": _FILTER},
        needs=_REPOSITORY,
        agrees=agrees,
    )


_LOG = "git log -1 --format=%B"
# A repository that nobody has looked at when the message is written.
_NESTED = "cp e .gitattributes tracked sub; cd sub; touch tracked; git add -f tracked; git status"

WRITTEN = Class(
    "a protected file as a descriptor of the program outside",
    (
        _config("stdout-to-config", f"{_LOG} >>.git/config; git status"),
        _config("stdout-read-and-write", f"{_LOG} 1<>.git/config; git status"),
        _config("stdout-to-a-hard-link", f"ln .git/config c; {_LOG} >>c; git status"),
        _config("stdout-kept-open", f"exec 7>>.git/config; {_LOG} >&7; git status"),
        _config("stderr-to-config", "git log -1 --format=%B 3>&1 2>>.git/config 1>&2; git status"),
        _config("stdout-of-a-job", f"{_LOG} >>.git/config & wait; git status"),
        Attack("config-reopened", "warn 2<.git/config", Outcome(note=r"did not run .*\.git/config"),
               Outcome(note=r"did not run .*\.git/config"), needs=_REPOSITORY, bare=False),
        _written("stdout-to-a-nested-config",
                 f"mkdir sub; cp -r .git sub; {_LOG} >>sub/.git/config; {_NESTED}",
                 noticed("sub/.git"), agrees=False),
        _written("stdout-to-what-becomes-a-config",
                 f"mkdir sub; cp -r .git sub/g; {_LOG} >>sub/g/config; mv sub/g sub/.git;"
                 f" {_NESTED}",
                 noticed("sub/.git"), agrees=False),
    ),
)  # fmt: skip

CLASSES = (ANEW, WRITTEN)
