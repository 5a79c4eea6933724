"""What this machine gives, tried once."""

import functools

from codex_multitool.running.probe import Probe


@functools.cache
def kernel_refusal() -> str | None:
    """Why there is no kernel interception here; None if there is."""
    return Probe().begin().refusal()
