"""The catalogue."""

from __future__ import annotations

from tests.attacks.catalogue import (
    calls,
    descriptors,
    files,
    forged,
    identity,
    kernel,
    lookalikes,
    processes,
    protected,
    repositories,
    sockets,
    spellings,
    variables,
)

CLASSES = tuple(
    found
    for module in (
        *(spellings, identity, kernel, lookalikes, variables, descriptors, repositories, protected),
        *(forged, files, calls, sockets, processes),
    )
    for found in module.CLASSES
)
