"""The error of a value in a rules file, before it is known where the value stands."""

from __future__ import annotations


class Mistake(Exception):  # noqa: N818  # becomes a RulesError once it has a location
    """What is wrong with a value, and how to mend it."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend
