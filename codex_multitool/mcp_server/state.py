"""What the client wants of the sandbox, understood — pure."""

from typing import NamedTuple

from codex_multitool.sandbox.policy import SandboxPolicy


class SandboxState(NamedTuple):
    """What the client wants commands confined to. cwd: base of the writable directories."""

    policy: SandboxPolicy
    cwd: str
