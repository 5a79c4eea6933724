"""Whether output is coloured: on terminals that can, unless the user wants none."""

import os


def coloured(*, terminal: bool) -> bool:
    """NO_COLOR is of https://no-color.org: any value but the empty one counts."""
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
