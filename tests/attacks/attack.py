"""What an attack is, and what must become of it.

An attack is a script that the server's shell runs. It wants one of these to happen: `git push`,
which the rules forbid; a change in $OUT, a folder outside the workspace; a word said to a service
outside; or harm to $VICTIM, a process outside. `ground.py` sets all that up and looks afterwards.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict


class Need(enum.Enum):
    """What has to be there before the attack."""

    REPOSITORY = enum.auto()  # the working directory is a clone of ./remote.git
    VICTIM = enum.auto()  # a process outside: $VICTIM, and the address of its memory $VICTIM_AT
    SERVICES = enum.auto()  # listeners outside: $PORT, $OUT/stream, $OUT/datagram, @$ABSTRACT
    SHARED = enum.auto()  # memory, a queue and more of a program outside: see ground.Shared
    TERMINAL = enum.auto()  # a terminal of the user's: $TERMINAL
    PATCHED = enum.auto()  # the patched bash: $PATCHED
    HANDLES = enum.auto()  # a file system whose files have handles, which overlayfs has not
    CONTROL_GROUPS = enum.auto()  # they are mounted, and root may make one
    OWN_ROOT = enum.auto()  # the root directory is its mount namespace's: no chroot(2)


class Sandbox(enum.Enum):
    """The policy that the client has set."""

    WORKSPACE = enum.auto()
    READ_ONLY = enum.auto()
    ONLINE = enum.auto()  # WORKSPACE with the network on
    NONE = enum.auto()  # danger-full-access


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the attack must end.

    inside: `git push` may happen, in the sandbox. decision: kind, and a pattern of its reason.
    note: a pattern of one of the notes. output: a pattern of what the command printed. because:
    why it is not stopped.
    """

    inside: bool = False
    decision: tuple[str, str] | None = None
    note: str | None = None
    output: str | None = None
    because: str = ""


REFUSAL = (
    r"[Pp]ermission denied|Operation not permitted|Function not implemented|PermissionError"
    r"|\bEPERM\b|\bEACCES\b|Bad system call|Invalid cross-device link"
)

DENIED = Outcome(decision=("deny", "forbidden by policy"))
STAYS = Outcome(decision=("run", "stays in the sandbox"))
REFUSED = Outcome(output=REFUSAL)


def refused(output: str) -> Outcome:
    """The kernel refuses it, and the command is told in these words."""
    return Outcome(output=output)


def denied(reason: str) -> Outcome:
    """The exec is denied for this reason."""
    return Outcome(decision=("deny", reason))


def kept_from(name: str) -> Outcome:
    """The program runs outside, but without this variable of its caller's."""
    return Outcome(decision=("escalate", ""), note=rf"(?<!\w){name}(?!\w)[^;]*: ")


def noticed(path: str) -> Outcome:
    """The change at `path` is told, and the human does not let the program out with it."""
    return Outcome(decision=("deny", "User declined"), note=f"sandboxed command .*{path}")


HARMLESS = Outcome(decision=("escalate", ""))  # the program runs outside, untouched by the attack


def confined(because: str) -> Outcome:
    """The forbidden program runs, but in the sandbox, where its attempt to write $OUT fails."""
    return Outcome(inside=True, output=REFUSAL, because=because)


UNSEEN = confined("the patched shell does not do this exec")
OWN_COPY = confined("a program that the sandbox made is another program")


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    script: for the shell. kernel, wrapper: how it ends in each mode; None where the mode makes no
    difference, or there is nothing to attack. files: put into its working directory, executable if
    they begin with `#!`. programs: what it needs installed. bare: whether the script does its harm
    where nothing protects. open: why it succeeds, where that is known and not mended. abi: which
    Landlock stops it. agrees:
    whether the human does, if asked.
    """

    name: str
    script: str
    kernel: Outcome | None
    wrapper: Outcome | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()
    sandbox: Sandbox = Sandbox.WORKSPACE
    programs: tuple[str, ...] = ()
    bare: bool = True
    open: str | None = None
    abi: int = 1
    seconds: float = 20
    agrees: bool = True


class More(TypedDict, total=False):
    """What an attack may have besides its name, its script and its outcomes."""

    files: Mapping[str, str]
    needs: frozenset[Need]
    sandbox: Sandbox
    programs: tuple[str, ...]
    bare: bool
    open: str | None
    abi: int
    seconds: float
    agrees: bool


@dataclass(frozen=True, slots=True)
class Class:
    """Attacks of one kind, with what they have in common."""

    title: str
    attacks: tuple[Attack, ...]
