"""`python -m codex_multitool.sandbox.precompute OUT`: write what prepared.py carries when built.

For the machine it runs on: the role's start must import neither pyseccomp nor landlock.
"""

import os
import sys

from codex_multitool.sandbox.filters import NAMES
from codex_multitool.sandbox.landlock_package import FS
from codex_multitool.sandbox.seccomp import build

_TEXT = '''"""What the packages compute, computed for {machine} when this was built."""

LANDLOCK_FS: dict[str, int] = {rights!r}

FILTERS: dict[tuple[str, str], bytes] = {filters!r}
'''


def module(machine: str) -> str:
    """The text of prepared.py for a machine."""
    filters = {}
    for name in NAMES:
        program = build(machine, name)
        if program is None:
            raise ValueError(f"no system call filters for {machine}")
        filters[machine, name] = program
    return _TEXT.format(machine=machine, rights=FS, filters=filters)


def main(arguments: list[str]) -> int:
    """Write the module to the path given."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m codex_multitool.sandbox.precompute OUT\n")
        return 2
    with open(arguments[0], "w", encoding="ascii") as file:
        file.write(module(os.uname().machine))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
