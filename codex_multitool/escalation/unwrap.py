"""The commands a command runs: behind `env`, `sudo` and their like, in `sh -c`, find, xargs, git.

One level at a time: what comes back may be wrapped again. A guess where a wrapper's options are
unknown to the table, so a reason to ask, never a reason to trust. Pure and total.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from codex_multitool.escalation.git_arguments import git_arguments
from codex_multitool.escalation.options import Options, options
from codex_multitool.escalation.shell_script import simple_commands

# A command is its words, program first; a script is the text a shell would read.
Inner = list[str] | str

SHELLS = frozenset((
    "sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "lksh", "oksh", "ash", "yash", "posh",
    "rbash", "rzsh", "fish", "bash-static",
))  # fmt: skip
LISTS = frozenset(("find", "xargs"))  # what they run, they run on whatever they find or read


class _Wrapper(NamedTuple):
    """How a wrapper's words end where the command begins.

    short, long: options with a value, see `options`. operands: how many come before the command.
    """

    short: str = ""
    long: tuple[str, ...] = ()
    operands: int = 0


_WRAPPERS = {
    "builtin": _Wrapper(),
    "caffeinate": _Wrapper("t:w:"),
    "chroot": _Wrapper(operands=1),
    "chrt": _Wrapper("T:P:D:", ("sched-runtime", "sched-period", "sched-deadline"), operands=1),
    "command": _Wrapper(),
    "doas": _Wrapper("a:C:u:"),
    "exec": _Wrapper("a:"),
    "fakeroot": _Wrapper("l:s:i:b:", ("lib", "faked")),
    "flock": _Wrapper("w:E:", ("timeout", "wait", "conflict-exit-code"), operands=1),
    "gosu": _Wrapper(operands=1),
    "ionice": _Wrapper("c:n:p:P:u:", ("class", "classdata", "pid", "pgid", "uid")),
    "nice": _Wrapper("n:", ("adjustment",)),
    "nocorrect": _Wrapper(),
    "noglob": _Wrapper(),
    "nohup": _Wrapper(),
    "nsenter": _Wrapper("t:S:G:", ("target", "setuid", "setgid")),
    "runuser": _Wrapper("u:g:G:", ("user", "group", "supp-group")),
    "setpriv": _Wrapper(long=("reuid", "regid", "ruid", "rgid", "euid", "egid", "groups")),
    "setsid": _Wrapper(),
    "stdbuf": _Wrapper("i:o:e:", ("input", "output", "error")),
    "strace": _Wrapper("a:b:e:E:I:o:O:p:P:s:S:u:U:X:", ("output", "trace", "attach", "user")),
    "su-exec": _Wrapper(operands=1),
    "sudo": _Wrapper(
        "a:C:c:D:g:h:p:R:r:T:t:U:u:",
        ("close-from", "chdir", "group", "host", "prompt", "chroot", "role", "command-timeout",
         "type", "other-user", "user"),
    ),
    "taskset": _Wrapper(operands=1),
    "time": _Wrapper("f:o:", ("format", "output")),
    "timeout": _Wrapper("k:s:", ("kill-after", "signal"), operands=1),
    "unshare": _Wrapper("S:G:R:w:l:", ("setuid", "setgid", "root", "wd", "map-user", "map-group")),
    "xargs": _Wrapper(
        "a:d:E:e::I:i::L:l::n:P:s:",
        ("arg-file", "delimiter", "max-args", "max-chars", "max-procs", "process-slot-var"),
    ),
}  # fmt: skip
_LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64.so")  # run as programs they load one: ld.so(8)
_LOADER = _Wrapper(
    long=("library-path", "preload", "audit", "argv0", "inhibit-rpath", "glibc-hwcaps-prepend")
)
_SPLIT = re.compile(r"-(?:[iv0]*S|-s[a-z-]*=?)(.*)", re.DOTALL)  # env's --split-string
_MULTI_CALL = frozenset(("busybox", "toybox", "coreutils"))
_FIND_ACTIONS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def unwrap(program: str, words: Sequence[str]) -> list[Inner]:
    """What `program`, a base name, runs when given `words`; empty where it is no wrapper."""
    if program in SHELLS:
        return _shell(words)
    if program.startswith("git"):
        return _git(program, words)
    if program in _WRAPPERS or program.startswith(_LOADERS):
        return _wrapped(program, words)
    match program:
        case "env":
            return _env(words)
        case "find":
            return list(find_commands(words))
        case "eval":
            return [" ".join(words)]
        case "trap":
            return list(options(words, permute=False).operands[:1])
        case "su" | "script":
            return list(options(words, short="c:").values("c", "command"))
        case "watch":
            parsed = options(words, short="n:q:", long=("interval", "equexit"), permute=False)
            return [" ".join(parsed.operands)]
        case _ if program in _MULTI_CALL:
            return [list(words)]
        case _:
            return []


def _wrapped(program: str, words: Sequence[str]) -> list[Inner]:
    wrapper = _WRAPPERS.get(program, _LOADER)
    parsed = options(words, short=wrapper.short, long=wrapper.long, permute=False)
    if program == "command" and parsed.has("vV"):
        return []  # tells what it would run
    command = _without_assignments(parsed) if program in ("sudo", "doas") else parsed.operands
    command = command[wrapper.operands :]
    if program == "flock" and command[:1] == ["-c"]:
        return list(command[1:2])
    if program == "runuser":
        return [*options(words, short="c:").values("c", "command"), command]
    return [command]


def _env(words: Sequence[str]) -> list[Inner]:
    for position, split in enumerate(map(_SPLIT.fullmatch, words)):
        if split is None:
            continue
        if _env_options(words[:position]).operands:
            break  # an option of the command env runs
        text = split[1] or "".join(words[position + 1 : position + 2])
        rest = words[position + (1 if split[1] else 2) :]
        # Its words are env's own words first: options and assignments among them.
        return [["env", *chain(*simple_commands(text)), *rest]] if text else []
    return [_without_assignments(_env_options(words))]


def _env_options(words: Sequence[str]) -> Options:
    return options(words, short="u:C:a:", long=("unset", "chdir", "argv0"), permute=False)


def _without_assignments(parsed: Options) -> list[str]:
    words = parsed.operands
    index = 0
    while index < len(words) and (words[index] == "-" or "=" in words[index]):
        index += 1  # a lone `-` is env's -i
    return words[index:]


def _shell(words: Sequence[str]) -> list[Inner]:
    """The script of `sh -c`: the first operand, whatever options stand around the -c."""
    from_string = False
    skip = 0
    for position, word in enumerate(words):
        if skip:
            skip -= 1
        elif word in ("--", "-"):
            return list(words[position + 1 : position + 2]) if from_string else []
        elif word.startswith("--"):
            skip = int(word in ("--rcfile", "--init-file"))
        elif word[:1] in ("-", "+"):
            from_string = from_string or (word[0] == "-" and "c" in word)
            skip = word.count("o") + word.count("O")  # each takes the name of an option
        else:
            return [word] if from_string else []
    return []


def find_commands(words: Sequence[str]) -> list[list[str]]:
    """The commands find(1) runs by -exec and its like."""
    commands: list[list[str]] = []
    command: list[str] | None = None
    for word in words:
        if command is None:
            if word in _FIND_ACTIONS:
                command = []
                commands.append(command)
        elif word == ";" or (word == "+" and command[-1:] == ["{}"]):
            command = None
        else:
            command.append(word)
    return commands


def _git(program: str, words: Sequence[str]) -> list[Inner]:
    git = git_arguments(program, words)
    if git is None:
        return []
    inner: list[Inner] = [
        value.removeprefix("!") if value.startswith("!") else "git " + value
        for key, value in git.configuration
        if key.startswith("alias.")
    ]
    if git.subcommand == "submodule" and "foreach" in git.words:
        command = options(git.words[git.words.index("foreach") + 1 :], permute=False).operands
        inner.append(command[0] if len(command) == 1 else command)
    return inner
