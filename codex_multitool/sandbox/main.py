"""The role codex-linux-sandbox: confine this process, then become the command.

    argv -> policy -> Confinement -> no_new_privs, Landlock, seccomp -> execvp

It starts no thread and leaves the caller's descriptors, working directory and signal mask alone.
Exit statuses: the command's own, or 2 usage, 125 the sandbox, 126 and 127 as of env(1).
"""

# `signal` would import enum, 2 ms; this is the module of the interpreter behind it.
import _signal  # type: ignore[import-not-found]
import os

from codex_multitool import __version__
from codex_multitool.sandbox.enforce import WEAKER, SandboxError, prepare, restrict
from codex_multitool.sandbox.execute import CommandError, execvp
from codex_multitool.sandbox.policy import PolicyError, parse_policy, writable_roots
from codex_multitool.sandbox.status import not_granted
from codex_multitool.spelling import did_you_mean

NAME = "codex-linux-sandbox"

USAGE_STATUS = 2
SANDBOX_STATUS = 125

_USAGE = (
    f"usage: {NAME} --sandbox-policy-cwd DIR --sandbox-policy JSON [--] COMMAND [ARGUMENT...]\n"
)

HELP = f"""{_USAGE}
Run COMMAND confined by a sandbox policy, for good and with all that it starts.

  --sandbox-policy-cwd DIR  the workspace, writable under workspace-write
  --sandbox-policy JSON     {{"type": "read-only"}}, {{"type": "workspace-write", ...}},
                            {{"type": "external-sandbox", ...}} or {{"type": "danger-full-access"}}
  --accept-weaker NAME      run although the kernel lacks a part; may be given again
  --use-legacy-landlock     accepted: Landlock is what is used
  --no-proc                 accepted: no /proc is mounted here
  -h, --help                this text
  -V, --version             the version

NAME is one of
{"".join(f"  {name}: {what}{chr(10)}" for name, what in WEAKER.items())}
Examples:
  {NAME} --sandbox-policy-cwd . --sandbox-policy '{{"type":"workspace-write"}}' -- make
  {NAME} --sandbox-policy-cwd / --sandbox-policy '{{"type":"read-only"}}' -- touch x

Exit status: COMMAND's; 2 usage, 125 the sandbox could not be set up, 126 COMMAND could not be
executed, 127 COMMAND was not found.
"""

_CWD, _POLICY, _ACCEPT = "--sandbox-policy-cwd", "--sandbox-policy", "--accept-weaker"
_WITHOUT_EFFECT = ("--use-legacy-landlock", "--no-proc")
_UNSUPPORTED = {
    "--use-bwrap-sandbox": "there is no bubblewrap here; Landlock and seccomp confine the command",
    "--apply-seccomp-then-exec": "there is no bubblewrap here, nor an inner stage of it",
    "--allow-network-for-proxy": "network traffic is not routed to proxies here",
}


class UsageError(Exception):
    """The command line is not one of ours."""


class Options:
    """A command line, read."""

    __slots__ = ("accept", "command", "cwd", "policy", "text")

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.policy: str | None = None
        self.accept: set[str] = set()
        self.command: list[str] = []
        self.text: str | None = None  # what --help or --version asks for


def main(argv: list[str]) -> int:
    """Run the role; returns only if the command did not start."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    try:
        options = parse(argv[1:])
        if options.text is not None:
            return _print(options.text)
        return _run(options)
    except UsageError as error:
        _complain(f"{error}\n{_USAGE}".rstrip())
        return USAGE_STATUS
    except PolicyError as error:
        _complain(f"{_POLICY}: {error}")
        return USAGE_STATUS
    except SandboxError as error:
        _complain(f"sandbox: {error}")
        return SANDBOX_STATUS
    except CommandError as error:
        _complain(str(error))
        return error.status


def parse(arguments: list[str]) -> Options:
    """Read the arguments up to the first that is no flag of ours."""
    options = Options()
    pending = arguments[::-1]
    while pending:
        word = pending.pop()
        if word in ("-h", "--help", "-V", "--version"):
            options.text = HELP if word in ("-h", "--help") else f"{NAME} {__version__}\n"
            return options
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            pending.append(word)
            break
        if word in _WITHOUT_EFFECT:
            continue
        flag, equals, value = word.partition("=")
        if flag in _UNSUPPORTED:
            raise UsageError(f"{flag}: {_UNSUPPORTED[flag]}")
        if flag not in (_CWD, _POLICY, _ACCEPT):
            known = (_CWD, _POLICY, _ACCEPT, *_WITHOUT_EFFECT, "--help", "--version")
            raise UsageError(f"unknown option {word!r}{did_you_mean(flag, known)}")
        if not equals:
            if not pending:
                raise UsageError(f"{flag}: a value is missing")
            value = pending.pop()
        _set(options, flag, value)
    options.command = pending[::-1]
    return options


def _set(options: Options, flag: str, value: str) -> None:
    if flag == _ACCEPT:
        if value not in WEAKER:
            raise UsageError(f"{flag}: {value!r} is none of {', '.join(WEAKER)}")
        options.accept.add(value)
        return
    attribute = "cwd" if flag == _CWD else "policy"
    if getattr(options, attribute) is not None:
        raise UsageError(f"{flag} is given twice")
    setattr(options, attribute, value)


def _run(options: Options) -> int:
    if options.cwd is None or options.policy is None:
        raise UsageError(f"{_CWD if options.cwd is None else _POLICY} is missing")
    if not options.cwd:
        raise UsageError(f"{_CWD}: an empty path")
    if not options.command:
        raise UsageError("a command is missing")
    policy = parse_policy(options.policy)
    environ = dict(os.environ)
    try:
        cwd = os.path.abspath(options.cwd)
        os.close(os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise SandboxError(f"{_CWD} {options.cwd}: {error.strerror}") from error
    roots = writable_roots(policy, cwd, environ)
    confinement = prepare(policy, roots, accept=frozenset(options.accept))
    for root in not_granted(confinement.status, policy.writable_roots):
        _complain(f"not writable: {root}")
    environ.update(confinement.environment)
    # CPython ignores these two; a program expects them as the caller had them, as a rule default.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    restrict(confinement)
    execvp(options.command, environ)
    raise AssertionError("execvp returned")


def _print(text: str) -> int:
    try:
        os.write(1, text.encode())
    except OSError as error:
        _complain(f"write error: {error.strerror}")
        return 1
    return 0


def _complain(what: str) -> None:
    try:
        os.write(2, os.fsencode(f"{NAME}: {what}\n"))
    except OSError:
        pass  # nobody to tell; the exit status says it
