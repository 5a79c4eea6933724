"""Rules that would have allowed what one command ran: narrow, and for review."""

import json
from collections.abc import Iterable, Sequence
from os.path import basename

from codex_multitool.cli.exec_tree import Exec, one_line
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import RulesError

FIRST_LINE = "# Learned by `codex-multitool exec --learn`: for review, not for use as it is.\n"
_HEADER = (
    FIRST_LINE
    + """\
#
# Each rule allows one command line that ran, and the same with more arguments behind it.
# `allow` means OUTSIDE the sandbox, without a question: delete what works inside it,
# and what you would not want to run with any arguments.
"""
)
_SECTIONS = (
    ("asked", "A human was asked about these."),
    ("deny", "These were denied."),
    ("escalate", "These ran outside already, by the rules there are."),
    ("run", "These ran inside the sandbox; they need a rule only if that made them fail."),
)
# Alone, they run whatever they read: a rule without arguments would allow everything.
_INTERPRETERS = (
    "ash", "awk", "bash", "busybox", "dash", "env", "fish", "ksh", "lua", "node", "perl", "php",
    "python", "ruby", "sh", "ssh", "sudo", "tclsh", "xargs", "zsh",
)  # fmt: skip


def learned(execs: Iterable[Exec], command: str) -> str:
    """The text of the rules file; every rule in it was read back as meant.

    command: how the user would repeat it.
    """
    sections: dict[str, list[str]] = {name: [] for name, _ in _SECTIONS}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for found in execs:
        key = found.program, found.argv[1:]
        if key not in seen:
            seen.add(key)
            sections["asked" if found.asked else found.decision].append(_entry(found))
    text = f"{_HEADER}#\n# The command: {one_line(command)}\n"
    for name, title in _SECTIONS:
        if sections[name]:
            text += f"\n# --- {title}\n" + "".join(sections[name])
    return text


def _entry(found: Exec) -> str:
    """One rule with its comment; commented out where it would be useless, or allow too much."""
    rule = _rule((found.program, *found.argv[1:]))
    comment = [f"{found.decision}: {found.reason}"] if found.reason else []
    if found.prompt is not None:
        comment.append(f"{found.prompt} asks whatever this says: that one must go")
    obstacle = _obstacle(found)
    if rule is None:
        comment.append("no rule: rules are UTF-8, this command line is not")
    elif obstacle is not None:
        comment.append(obstacle)
    lines = [f"# {one_line(line)}\n" for line in comment]
    if rule is not None:
        lines.append(f"# {rule}\n" if obstacle else f"{rule}\n")
    return "\n" + "".join(lines)


def _obstacle(found: Exec) -> str | None:
    if not found.trusted:
        return "a rule would not help: the sandbox can write this program"
    if found.decision == "deny" and "forbidden by policy" in found.reason:
        return "a rule would not help: the stricter one wins; change that"
    alone = len(found.argv) < 2
    if alone and basename(found.program).rstrip("0123456789.") in _INTERPRETERS:
        return "too wide: this would allow every command line of an interpreter"
    return None


def _rule(tokens: Sequence[str]) -> str | None:
    line = f'prefix_rule(pattern={json.dumps(tokens, ensure_ascii=False)}, decision="allow")'
    try:
        policy = parse([Source("the new rule", line)])
    except (RulesError, UnicodeEncodeError):
        return None
    meant = tuple((token,) for token in tokens)
    return line if [it.pattern for it in policy.rules.get(tokens[0], ())] == [meant] else None
