"""What doctor finds: one line each, for people or as JSON — pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

OK, WEAKER, MISSING = "ok", "weaker", "missing"
_SIGNS = {OK: "green", WEAKER: "yellow", MISSING: "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One protection or capability.

    found: what there is. follows: what that means, unless all is well. mend: what to do about it.
    """

    name: str
    state: str
    found: str
    follows: str = ""
    mend: str = ""


def colour(finding: Finding) -> str:
    """The colour of its state."""
    return _SIGNS[finding.state]


def line(finding: Finding, width: int) -> str:
    """The finding for people, behind its state; what follows and the mending in the same line."""
    more = "".join(f"; {text}" for text in (finding.follows, finding.mend) if text)
    return f"{finding.name:{width}}  {finding.found}{more}"


def full(findings: Sequence[Finding]) -> bool:
    """Whether full protection holds."""
    return all(finding.state == OK for finding in findings)


def to_object(findings: Sequence[Finding]) -> dict[str, object]:
    """All findings as JSON."""
    return {
        "full_protection": full(findings),
        "findings": [asdict(finding) for finding in findings],
    }
