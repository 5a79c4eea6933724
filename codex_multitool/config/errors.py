"""The error of configuration that can't be used — pure."""

from __future__ import annotations


class ConfigError(Exception):
    """What of the configuration is wrong, and how to mend it.

    where: `path:line:column`, a path or an override; None where `what` names the file or variable.
    """

    def __init__(self, what: str, mend: str | None = None, *, where: str | None = None) -> None:
        self.what = what
        self.mend = mend
        self.where = where
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}\n  {mend}" if mend else text)
