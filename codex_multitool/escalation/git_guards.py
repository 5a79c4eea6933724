"""What keeps an escalated git from running what a repository says: hooks, monitors, helpers.

The sandbox can write the repository, so its hooks and settings are the caller's words. Settings
in the environment go before the repository's (git-config(1), GIT_CONFIG_COUNT), so each setting
with a fixed name that would run a program gets the user's own value, or git's default.

What the environment cannot hold back: settings whose names the repository chooses
(`filter.*`, `diff.*.command`, `diff.*.textconv`, `merge.*.driver`, `remote.*.vcs`,
`remote.*.uploadpack`, `submodule.*.update`), `diff.external` and `core.worktree`; those need
`.git/config` to be out of the sandbox's reach. `git -c` goes before all this, but the rules see
it. Pure.
"""

import re
from collections.abc import Mapping, Sequence

from codex_multitool.escalation.git_arguments import git_arguments

# Programs known to run git in the working directory.
_FRONT_ENDS = frozenset(("gh", "glab", "hub", "tig", "lazygit", "gitk", "scalar", "tea"))

# Always set. bareRepository: files that look like a bare repository are not found by walking up
# the tree, and their settings not read. ext: such a remote is a command.
_FIXED = (
    ("core.fsmonitor", "false"),
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
)
# git looks for `/dev/null/pre-commit` and finds none.
_NO_HOOKS = (("core.hooksPath", "/dev/null"),)
# git runs hooks of a local remote in an environment of its own, without these settings.
_NO_LOCAL_REMOTES = (("protocol.file.allow", "never"),)
# The user's own value, else git's default.
_PINNED = (
    ("core.sshCommand", "ssh"),
    ("core.alternateRefsCommand", ""),
    ("interactive.diffFilter", "cat"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.ssh.defaultKeyCommand", ""),
)
_LONGEST_ALIAS_CHAIN = 10
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9-]*")  # git-config(1), Syntax


def git_guards(
    program: str,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    own: Sequence[tuple[str, str]] = (),
    hooks: bool = False,
    local_remotes: bool = False,
) -> dict[str, str]:
    """Variables to add to the environment of `program`, a path or base name; none unless git's.

    arguments: argv[1:]; an alias among them is the user's or none. environment: what the program
    gets otherwise. own: the user's own settings in git's order, as `settings` reads them. hooks:
    let the repository's hooks run, as the sandbox may have written them. local_remotes: let git
    fetch from and push to repositories of this machine, running their hooks.
    """
    name = program.rpartition("/")[2]
    git = git_arguments(name, arguments)
    if git is None and name not in _FRONT_ENDS:
        return {}
    environment = environment or {}
    mine = _Own(own)
    guards = [
        *_FIXED,
        *(() if hooks else _NO_HOOKS),
        *(() if local_remotes else _NO_LOCAL_REMOTES),
        *((key, mine.last(key, default)) for key, default in _PINNED),
        ("gpg.openpgp.program", mine.last("gpg.openpgp.program", mine.last("gpg.program", "gpg"))),
        *_typed(mine, environment),
        *_credentials(mine),
        *_aliases(mine, git.subcommand if git else ""),
    ]
    return {
        **_numbered(guards, environment.get("GIT_CONFIG_COUNT", "")),
        # pager.* and core.gitProxy yield to these only: git-config(1).
        "GIT_PAGER": environment.get(
            "GIT_PAGER", mine.last("core.pager", environment.get("PAGER", "less"))
        ),
        "GIT_PROXY_COMMAND": environment.get("GIT_PROXY_COMMAND", mine.proxy()),
    }


def settings(listing: bytes) -> tuple[tuple[str, str], ...]:
    """Read the output of `git config --list --null`, run where no repository is: git-config(1)."""
    found = []
    for entry in listing.split(b"\0"):
        key, given, value = entry.decode("utf-8", "surrogateescape").partition("\n")
        if key:
            found.append((key, value if given else "true"))
    return tuple(found)


class _Own:
    """The user's own settings."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = [(_canonical(key), value) for key, value in pairs]
        self._last = dict(self.pairs)

    def last(self, key: str, default: str) -> str:
        return self._last.get(_canonical(key), default)

    def proxy(self) -> str:
        """core.gitProxy, unless it is for some hosts only: a variable cannot say that."""
        command = self.last("core.gitProxy", "")
        return "" if " for " in command else command


def _canonical(key: str) -> str:
    """Section and variable without case, the subsection with it."""
    section, _, rest = key.partition(".")
    subsection, dot, variable = rest.rpartition(".")
    return f"{section.lower()}.{subsection}{dot}{variable.lower()}"


def _typed(own: _Own, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Who edits and who asks: what git would take if no repository said otherwise: git-var(1)."""
    dumb = environment.get("TERM", "dumb") == "dumb"
    visual = "" if dumb else environment.get("VISUAL", "")
    editor = own.last("core.editor", "") or visual or environment.get("EDITOR", "")
    editor = editor or ("false" if dumb else "vi")
    sequence = own.last("sequence.editor", "") or environment.get("GIT_EDITOR") or editor
    return [
        ("core.editor", editor),
        ("sequence.editor", sequence),
        ("core.askPass", own.last("core.askPass", environment.get("SSH_ASKPASS", ""))),
    ]


def _credentials(own: _Own) -> list[tuple[str, str]]:
    """An empty helper forgets those named before, the repository's: gitcredentials(7)."""
    helpers = [
        (key, value)
        for key, value in own.pairs
        if key.startswith("credential.") and key.endswith(".helper")
    ]
    return [("credential.helper", ""), *helpers]


def _aliases(own: _Own, subcommand: str) -> list[tuple[str, str]]:
    """Only the user's own aliases. git asks for an alias only where it has no such command."""
    guards: list[tuple[str, str]] = []
    word = subcommand
    for _ in range(_LONGEST_ALIAS_CHAIN):
        if not word or "\n" in word or "\0" in word:
            break
        value = own.last(f"alias.{word}.command", own.last(f"alias.{word}", ""))
        if _VARIABLE.fullmatch(word):
            guards.append((f"alias.{word}", value))
        guards.append((f"alias.{word}.command", value))
        word = "" if value.startswith("!") else "".join(value.split()[:1])
    return guards


def _numbered(guards: Sequence[tuple[str, str]], count: str) -> dict[str, str]:
    """The settings as variables, after those the environment holds already."""
    first = int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0
    numbered = {"GIT_CONFIG_COUNT": str(first + len(guards))}
    for index, (key, value) in enumerate(guards, first):
        numbered[f"GIT_CONFIG_KEY_{index}"] = key
        numbered[f"GIT_CONFIG_VALUE_{index}"] = value
    return numbered
