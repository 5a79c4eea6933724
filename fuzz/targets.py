"""THE TABLE: what is fuzzed. A target takes any bytes and returns; whatever it raises is a finding.

The same functions serve `make fuzz`, which goes by coverage, and tests/fuzz, which is short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuzz import messages, texts, tracees, trees


@dataclass(frozen=True, slots=True)
class Target:
    """run: one input. most: bytes an input may have. share: of the time, among all targets.

    slow: takes some milliseconds.
    """

    run: Callable[[bytes], None]
    most: int = 4096
    share: int = 4
    slow: bool = False

    @property
    def what(self) -> str:
        """What must hold."""
        return (self.run.__doc__ or "").partition("\n")[0]


TARGETS = {
    "wire": Target(messages.escalation),
    "session": Target(messages.session, share=6),
    "tool": Target(messages.tool),
    "policy": Target(messages.sandbox_policy),
    "json": Target(messages.json_reader),
    "rules": Target(texts.rules, share=10, slow=True),
    "config": Target(texts.config, share=6),
    "dotenv": Target(texts.environment_file),
    "script": Target(texts.script, share=6),
    "command": Target(texts.command, share=6),
    "environment": Target(texts.environment),
    "pointers": Target(tracees.pointers, most=16384, share=6),
    "program": Target(tracees.program),
    "execution": Target(tracees.execution, share=6),
    "names": Target(tracees.names, share=6),
    "loader": Target(tracees.loader_words, share=1),
    "protected": Target(trees.protected_names),
    "relay": Target(tracees.stand_in, share=1),
}
