"""What one rules text amounts to on the engine: the builtin calls it made — pure."""

from __future__ import annotations

from typing import NamedTuple

Item = str | dict[str, str]
Argument = Item | list[Item | list[Item]] | None


class Call(NamedTuple):
    """One call of a builtin: each argument as strings, lists and `{"type": name}`.

    An argument that was not given is None.
    """

    name: str
    line: int
    arguments: dict[str, Argument]


class Failure(NamedTuple):
    """Why the evaluation ended early; the place, or its column, may be unknown."""

    message: str
    line: int | None = None
    column: int | None = None


class Evaluation(NamedTuple):
    """The calls one text made, in order, up to its end or its failure."""

    calls: tuple[Call, ...]
    failure: Failure | None
