"""What the command line says by `-c key=value`, and what does not go with it."""

from codex_multitool.config.configuration import Config


class StatedTwiceError(Exception):
    """An option and a `-c` say the same: either may be the mistake."""


def stated_here(config: Config, *key: str) -> str | None:
    """The `-c key=value` that states a setting, or one of a table; None if none does."""
    for found, stated in config.stated.items():
        if found[: len(key)] == key and stated.document.is_override:
            return stated.where
    return None


def refuse_both(config: Config, flag: str, given: object, *key: str) -> None:
    """Raise StatedTwiceError where an option and a `-c` say the same."""
    if given and (stated := stated_here(config, *key)):
        raise StatedTwiceError(f"{flag} and {stated} are about the same: give one of them.")
